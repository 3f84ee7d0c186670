"""A graph of the Open Neural Network Exchange, in double precision. Imports the formula, and onnx of the extra `export`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nightfit.records.expressions import Expression, Operand, calendar, of
from nightfit.release.export import Format, Formula
from nightfit.types import NightfitError

OPSET, ML_OPSET, IR = 19, 3, 9  # texts can be compared since opset 19
DAY = 86_400_000_000  # microseconds
NEVER = int(np.iinfo(np.int64).min)  # the instant of a missing date
DIRECT = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "floor": "Floor", "log": "Log", "sqrt": "Sqrt", "exp": "Exp", "sin": "Sin",
    "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "either": "Or", "choose": "Where",
}  # fmt: skip
# of these the runtime has single precision alone, or nothing: what is computed instead
INSTEAD: dict[str, Callable[..., Expression]] = {
    "max": lambda a, b: of("choose", of("lt", a, b), b, a),
    "clip": lambda a, low, high: of("choose", of("lt", high, of("max", a, low)), high, of("max", a, low)),
    "log1p": lambda a: of("log", of("add", 1, a)),
    "cos": lambda a: of("sin", of("add", a, math.pi / 2)),
    "when": lambda condition, a: of("choose", condition, a, math.nan),
    "coalesce": lambda a, b: of("choose", of("absent", a), b, a),
    "finite": lambda a: of("choose", of("infinite", a), math.nan, a),
    "missing": lambda a: of("choose", of("absent", a), 1, 0),
}
KINDS = {"number": "DOUBLE", "text": "STRING", "instant": "INT64"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Onnx:
    """Inputs are columns (N x 1): numbers as double with NaN where missing, texts with "" where missing, instants as int64 microseconds
    since 1970-01-01 by the wall clock with the least int64 where missing. Outputs (N x 1) are NaN, or the label -1 or "", where the fit
    would have dropped the record.
    """

    name: ClassVar[str] = "onnx"
    suffix: ClassVar[str] = ".onnx"

    def written(self, formula: Formula) -> bytes:
        onnx = _onnx()
        helper, kinds = onnx.helper, onnx.TensorProto
        graph = _Graph(onnx)
        outputs = []
        graph.margin(formula)
        for name, expression in formula.outputs.items():
            label = name == "prediction" and formula.labels
            kind = kinds.STRING if label and formula.classes else kinds.INT64 if label else kinds.DOUBLE
            made = graph.value(_without_gaps(expression, "" if formula.classes else -1) if label else expression)
            graph.node("Identity" if kind == kinds.STRING else "Cast", [made], name, **({} if kind == kinds.STRING else {"to": kind}))
            outputs.append(helper.make_tensor_value_info(name, kind, [None, 1]))
        inputs = [helper.make_tensor_value_info(one.name, getattr(kinds, KINDS[one.kind]), [None, 1]) for one in formula.inputs]
        model = helper.make_model(
            helper.make_graph(graph.nodes, formula.model, inputs, outputs, graph.constants),
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
            ir_version=IR,
            producer_name="nightfit",
            doc_string=formula.statement,
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def _without_gaps(label: Expression, gap: Operand) -> Expression:
    """when(known, label) as choose(known, label, gap): labels are no numbers, which alone can be missing."""
    return of("choose", *label.operands, gap)


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise NightfitError("the format onnx needs the package onnx: `pip install 'nightfit[export]'`") from None
    return onnx


@dataclass
class _Graph:
    """Nodes in the order in which they are computed; an expression that comes twice is computed once."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    known: dict[Expression, str] = field(default_factory=dict)
    shared: dict[Any, str] = field(default_factory=dict)

    def node(self, kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        """The name of a node's output."""
        name = output or f"_{len(self.nodes)}_{kind}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """The name of an array; of the same numbers or text, the same one."""
        array = np.asarray(value, dtype=None if isinstance(value, np.ndarray) else np.float64 if isinstance(value, float) else object)
        key = (str(array.dtype), array.shape, repr(array.tolist()))
        if key not in self.shared:
            self.shared[key] = f"_constant_{len(self.constants)}"
            self.constants.append(self.onnx.numpy_helper.from_array(array, self.shared[key]))
        return self.shared[key]

    def value(self, operand: Operand) -> str:
        """The name of what an expression, a number or a text comes to."""
        if not isinstance(operand, Expression):
            return self.constant(operand)
        if operand not in self.known:
            self.known[operand] = self._made(operand.op, operand.operands)
        return self.known[operand]

    def _made(self, op: str, parts: tuple[Operand, ...]) -> str:
        if op in INSTEAD:
            return self.value(INSTEAD[op](*parts))
        if op in DIRECT:
            return self.node(DIRECT[op], [self.value(part) for part in parts])
        if op in ("absent", "infinite"):
            return self.node("IsNaN" if op == "absent" else "IsInf", [self.value(parts[0])])
        return self._of_column(op, str(parts[0]), parts[1:])

    def _of_column(self, op: str, name: str, texts: tuple[Operand, ...]) -> str:
        nan = self.constant(math.nan)
        if op == "number":
            return self.node("Where", [self.node("IsInf", [name]), nan, name])
        if op in ("level", "other"):
            return self._text(op, name, texts)
        if op in ("year", "month", "weekday"):
            return self.value(calendar(op, of("days", name)))
        day = self.constant(np.array(DAY))
        within = self.node("Mod", [name, day])  # from 0 on, before 1970 too
        whole = within if op == "clock" else self.node("Div", [self.node("Sub", [name, within]), day])
        absent = self.node("Equal", [name, self.constant(np.array(NEVER))])
        return self.node("Where", [absent, nan, self.node("Cast", [whole], to=self.onnx.TensorProto.DOUBLE)])

    def _text(self, op: str, name: str, texts: tuple[Operand, ...]) -> str:
        """1 or 0; NaN where the text is empty."""
        equal = [self.node("Equal", [name, self.constant(np.array(text, dtype=object))]) for text in texts]
        held = equal[0]
        for one in equal[1:]:
            held = self.node("Or", [held, one])
        values = [1.0, 0.0] if op == "level" else [0.0, 1.0]
        found = self.node("Where", [held, *map(self.constant, values)])
        return self.node("Where", [self.node("Equal", [name, self.constant(np.array("", dtype=object))]), self.constant(math.nan), found])

    def margin(self, formula: Formula) -> None:
        """All terms as one matrix of x', and its product with the weights; a required term that is missing makes the margin NaN."""
        for term in formula.terms:
            self.known[of("feature", term.feature)] = self.value(term.value)
        features = self.node("Concat", [self.known[of("feature", term.feature)] for term in formula.terms], axis=1)

        def row(values: list[float]) -> str:
            return self.constant(np.array([values]))

        terms = formula.terms
        clamps = [term.clamp or (-math.inf, math.inf) for term in terms]
        low, high = row([pair[0] for pair in clamps]), row([pair[1] for pair in clamps])
        x = self.node("Div", [self.node("Sub", [features, row([term.centre for term in terms])]), row([term.scale for term in terms])])
        x = self.node("Where", [self.node("Less", [x, low]), low, x])
        x = self.node("Where", [self.node("Less", [high, x]), high, x])
        x = self.node("Where", [self.node("IsNaN", [x]), row([math.nan if term.required else term.absent for term in terms]), x])
        product = self.node("MatMul", [x, self.constant(np.array([term.weights for term in terms]))])
        margins = self.node("Add", [product, row(list(formula.intercepts))])
        for k, margin in enumerate(formula.margins):
            self.known[margin] = self.node("Gather", [margins, self.constant(np.array([k]))], axis=1)


EXAMPLES: tuple[Format, ...] = (Onnx(),)
