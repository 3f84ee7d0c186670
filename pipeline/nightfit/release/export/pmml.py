"""The Predictive Model Markup Language, version 4.4. Imports the formula."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from nightfit._version import __version__
from nightfit.records.expressions import Expression, Operand, calendar, of
from nightfit.release.export import Format, Formula
from nightfit.types import NightfitError

NAMESPACE = "http://www.dmg.org/PMML-4_4"
NUMBER = {"optype": "continuous", "dataType": "double"}
KINDS = {"number": NUMBER, "text": {"optype": "categorical", "dataType": "string"}, "instant": NUMBER}
DAY = 86_400_000_000.0  # microseconds
MOST = sys.float_info.max
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
APPLIED = {"floor": "floor", "log": "ln", "log1p": "ln1p", "sqrt": "sqrt", "exp": "exp", "sin": "sin", "cos": "cos"}
COMPARED = {"lt": "lessThan", "le": "lessOrEqual", "eq": "equal"}
UNWRITABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # characters that XML 1.0 does not have
Refer = Callable[[Operand], Element]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pmml:
    """A RegressionModel of derived fields whose result is the margin; `prediction` and `probability` are its output fields.

    Dates are microseconds since 1970-01-01 by the wall clock, as double. A record that the fit would have dropped has no result.
    """

    name: ClassVar[str] = "pmml"
    suffix: ClassVar[str] = ".pmml"

    def written(self, formula: Formula) -> bytes:
        named = [
            formula.model,
            formula.statement,
            *(one.name for one in formula.inputs),
            *(term.feature for term in formula.terms),
            *formula.classes,
        ]
        if any(UNWRITABLE.search(text) for text in named):
            raise NightfitError("a name or a label holds a character that XML does not have: export to another format")
        root = Element("PMML", {"version": "4.4", "xmlns": NAMESPACE})
        header = SubElement(root, "Header", {"description": f"{formula.model}, run {formula.run}. {formula.statement}"})
        SubElement(header, "Application", {"name": "nightfit", "version": __version__})
        dictionary = SubElement(root, "DataDictionary", {"numberOfFields": str(len(formula.inputs))})
        for one in formula.inputs:
            SubElement(dictionary, "DataField", {"name": one.name, **KINDS[one.kind]})
        derived = _Derived(formula)
        scaled = [(term, derived.name(value), value) for term, value in formula.scaled()]
        required = [name for term, name, _ in scaled if term.required]
        named_terms = [(derived.name(of("coalesce", value, 0)) if term.required else name, term.weights) for term, name, value in scaled]
        for k, margin in enumerate(formula.margins if len(formula.margins) > 1 else ()):
            derived.add_sum(margin, formula.intercepts[k], [(name, weights[k]) for name, weights in named_terms])
        root.append(derived.dictionary)
        _model(root, formula, [(name, weights[0]) for name, weights in named_terms], required, derived)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _model(root: Element, formula: Formula, predictors: list[tuple[str, float]], required: list[str], derived: "_Derived") -> None:
    """The regression is that of the first margin; those of several classes are derived fields. The margin never misses a predictor, because
    an evaluator computes no output then; the outputs miss what is required instead.
    """
    model = SubElement(root, "RegressionModel", {"functionName": "regression", "modelName": formula.model})
    schema = SubElement(model, "MiningSchema")
    for one in formula.inputs:
        SubElement(schema, "MiningField", {"name": one.name, "usageType": "active", "invalidValueTreatment": "asMissing"})
    output = SubElement(model, "Output")
    SubElement(output, "OutputField", {"name": "margin", **NUMBER, "feature": "predictedValue"})
    for name, expression in formula.outputs.items():
        kind = KINDS["text"] if name == "prediction" and formula.classes else NUMBER
        found = SubElement(output, "OutputField", {"name": name, **kind, "feature": "transformedValue"})
        absent = [_apply("isMissing", _ref(one)) for one in required]
        some = _apply("or", *absent) if len(absent) > 1 else absent[0] if absent else None
        made = derived.inline(expression)
        found.append(made if some is None else _apply("if", _apply("not", some), made))
    table = SubElement(model, "RegressionTable", {"intercept": repr(formula.intercepts[0])})
    for name, weight in predictors:
        SubElement(table, "NumericPredictor", {"name": name, "coefficient": repr(weight)})


@dataclass
class _Derived:
    """Every value that an expression needs as a derived field of its own, so that none is computed twice."""

    formula: Formula
    dictionary: Element = field(default_factory=lambda: Element("TransformationDictionary"))
    names: dict[Expression, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for term in self.formula.terms:
            self.names[of("feature", term.feature)] = self.name(term.value)

    def name(self, expression: Expression) -> str:
        """Of the derived field of an expression."""
        if expression not in self.names:
            made = _element(expression, self.refer)
            self.names[expression] = f"_{len(self.dictionary)}"
            SubElement(self.dictionary, "DerivedField", {"name": self.names[expression], **NUMBER}).append(made)
        return self.names[expression]

    def add_sum(self, margin: Expression, intercept: float, weighted: list[tuple[str, float]]) -> None:
        """A derived field for intercept + sum of weight times field."""
        products = [_apply("*", _ref(name), _constant(weight)) for name, weight in weighted]
        self.names[margin] = f"_{len(self.dictionary)}"
        SubElement(self.dictionary, "DerivedField", {"name": self.names[margin], **NUMBER}).append(
            _apply("sum", _constant(intercept), *products)
        )

    def inline(self, operand: Operand) -> Element:
        """An expression within an expression of an output; the one margin is an output itself."""
        if not isinstance(operand, Expression):
            return _constant(operand)
        if operand in self.names:
            return _ref(self.names[operand])
        if (
            operand.op == "max" and len(self.formula.margins) > 1
        ):  # of margins, which are fields themselves; written out it would double with every class
            return _ref(self.name(operand))
        return _ref("margin") if operand.op == "margin" else _element(operand, self.inline)

    def refer(self, operand: Operand) -> Element:
        """A reference to an operand; conditions are no values and stay where they are."""
        if not isinstance(operand, Expression):
            return _constant(operand)
        return _element(operand, self.refer) if operand.op in (*COMPARED, "either") else _ref(self.name(operand))


def _element(expression: Expression, refer: Refer) -> Element:
    op, parts = expression.op, expression.operands
    if op in COMPARED:
        return _compared(op, *map(refer, parts))
    if op in ARITHMETIC:
        return _apply(ARITHMETIC[op], *map(refer, parts))
    if op in APPLIED:  # which, unlike arithmetic, refuse what is missing
        return _apply("if", _apply("isNotMissing", refer(parts[0])), _apply(APPLIED[op], refer(parts[0])))
    if op in ("when", "choose"):
        return _apply("if", *map(refer, parts))
    if op == "finite":
        return _finite(lambda: refer(parts[0]))
    if op == "max":  # PMML's own passes over what is missing
        return _element(of("choose", of("lt", *parts), parts[1], parts[0]), refer)
    if op == "clip":
        floored = of("max", *parts[:2])
        return _element(of("choose", of("lt", parts[2], floored), parts[2], floored), refer)
    if op == "either":
        return _apply("or", *map(refer, parts))
    if op == "missing":
        return _apply("if", _apply("isMissing", refer(parts[0])), _constant(1.0), _constant(0.0))
    if op == "coalesce":
        return _apply("if", _apply("isNotMissing", refer(parts[0])), *map(refer, parts))
    return _of_column(op, _Raw(str(parts[0])), parts[1:], refer)


@dataclass(frozen=True)
class _Raw:
    """A raw column; each place in a document needs an element of its own."""

    name: str

    @property
    def there(self) -> Element:
        return _apply("isNotMissing", _ref(self.name))


def _of_column(op: str, raw: _Raw, texts: tuple[Operand, ...], refer: Refer) -> Element:
    if op == "number":
        return _finite(lambda: _ref(raw.name))
    if op in ("level", "other"):
        held = _apply("equal" if op == "level" else "isNotIn", _ref(raw.name), *map(_constant, texts))
        return _apply("if", raw.there, _apply("if", held, _constant(1.0), _constant(0.0)))
    if op == "days":
        return _apply("if", raw.there, _apply("floor", _apply("/", _ref(raw.name), _constant(DAY))))
    if op == "clock":
        return _apply("-", _ref(raw.name), _apply("*", refer(of("days", raw.name)), _constant(DAY)))
    return _element(calendar(op, of("days", raw.name)), refer)


def _compared(op: str, *sides: Element) -> Element:
    """A condition that is false where a side is missing."""
    made = _apply(COMPARED[op], *sides)
    made.set("mapMissingTo", "false")
    return made


def _finite(made: Callable[[], Element]) -> Element:
    below = _compared("le", made(), _constant(MOST))
    return _apply("if", below, _apply("if", _compared("le", _constant(-MOST), made()), made()))


def _apply(function: str, *arguments: Element) -> Element:
    made = Element("Apply", {"function": function})
    made.extend(arguments)
    return made


def _ref(name: str) -> Element:
    return Element("FieldRef", {"field": name})


def _constant(value: Any) -> Element:
    made = Element("Constant", {"dataType": "string" if isinstance(value, str) else "double"})
    made.text = value if isinstance(value, str) else repr(float(value))
    return made


EXAMPLES: tuple[Format, ...] = (Pmml(),)
