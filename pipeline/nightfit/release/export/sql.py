"""One SELECT that scores a table. Imports the formula."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from nightfit.records.expressions import Expression, Operand
from nightfit.release.export import Format, Formula
from nightfit.types import NightfitError

DAY = 86_400_000_000  # microseconds
# what a raw column {0} is in each dialect; DuckDB's own functions do not fail where a value cannot be read
DUCKDB = {
    "number": "TRY_CAST({0} AS DOUBLE)", "instant": "epoch_us(TRY_CAST({0} AS TIMESTAMP))", "year": "year(TRY_CAST({0} AS TIMESTAMP))",
    "month": "(month(TRY_CAST({0} AS TIMESTAMP)) - 1)", "weekday": "(isodow(TRY_CAST({0} AS TIMESTAMP)) - 1)",
}  # fmt: skip
# text is no number here: SQLite would read 'unknown' as 0. A day that is none, 2026-02-31, would be read as one of March, and 23:59:59.9999
# as the next day
_DAY = "CASE WHEN date(substr({0}, 1, 10)) = substr({0}, 1, 10) THEN substr({0}, 1, 19) END"
SQLITE = {
    "number": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
    "instant": f"(CAST(strftime('%s', {_DAY}) AS INTEGER) * 1000000"
    " + CAST(substr(substr({0}, 21, 6) || '000000', 1, 6) AS INTEGER))",
    "year": f"CAST(strftime('%Y', {_DAY}) AS INTEGER)", "month": f"(CAST(strftime('%m', {_DAY}) AS INTEGER) - 1)",
    "weekday": f"((CAST(strftime('%w', {_DAY}) AS INTEGER) + 6) % 7)",
}  # fmt: skip
OF_DIALECT = {
    "duckdb": {  # whose greatest and least pass over what is missing
        "max": "CASE WHEN {0} IS NOT NULL THEN greatest({0}, {1}) END",
        "clip": "CASE WHEN {0} IS NOT NULL THEN least(greatest({0}, {1}), {2}) END",
    },
    "sqlite": {"max": "max({}, {})", "clip": "min(max({}, {}), {})"},
}
DIALECTS = {"duckdb": DUCKDB, "sqlite": SQLITE}
OF_COLUMN = {"number", "level", "other", "days", "clock", "year", "month", "weekday"}
PATTERNS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "floor": "floor({})", "log": "ln({})",
    "log1p": "ln(1.0 + {})", "sqrt": "sqrt({})", "exp": "exp({})", "sin": "sin({})", "cos": "cos({})",
    "lt": "({} < {})", "le": "({} <= {})", "eq": "({} = {})", "either": "({} OR {})",
    "when": "CASE WHEN {} THEN {} END", "choose": "CASE WHEN {} THEN {} ELSE {} END",
    "finite": "CASE WHEN {0} - {0} = 0 THEN {0} END",
    "missing": "CASE WHEN {} IS NULL THEN 1.0 ELSE 0.0 END", "coalesce": "COALESCE({}, {})",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Sql:
    """All columns of `table`, the margin, and the predictions: NULL for a record that the fit would have dropped."""

    name: ClassVar[str] = "sql"
    suffix: ClassVar[str] = ".sql"
    dialect: Literal["duckdb", "sqlite"] = "duckdb"
    table: str = "records"

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise NightfitError(f"{self.dialect!r} is not a dialect that is written: use {', '.join(DIALECTS)}")

    def written(self, formula: Formula) -> bytes:
        made: dict[str, str] = {}
        for term in formula.terms:
            made[term.feature] = self._text(term.value, made)
        scaled = [(term, self._text(value, made)) for term, value in formula.scaled()]
        margins = ",\n  ".join(
            f"{_number(intercept)} + {_sum([f'{_number(term.weights[k])} * {text}' for term, text in scaled])} AS {_margin(margin)}"
            for k, (intercept, margin) in enumerate(zip(formula.intercepts, formula.margins, strict=True))
        )
        outputs = ",\n  ".join(f"{self._text(value, made)} AS {_name(name)}" for name, value in formula.outputs.items())
        return (
            f"-- {formula.model}, run {formula.run}. {_comment(formula.statement)}\n"
            f"WITH scored AS MATERIALIZED (\nSELECT *,\n  {margins}\n"
            f"FROM {_name(self.table)}\n)\nSELECT *,\n  {outputs}\nFROM scored\n"
        ).encode()

    def _text(self, operand: Operand, made: dict[str, str]) -> str:
        if not isinstance(operand, Expression):
            return _literal(operand) if isinstance(operand, str) else _number(operand)
        op, parts = operand.op, operand.operands
        if op in OF_COLUMN:
            return self._column(op, _name(str(parts[0])), [_literal(str(text)) for text in parts[1:]])
        if op in ("feature", "margin"):
            return made[str(parts[0])] if op == "feature" else _margin(operand)
        pattern = OF_DIALECT[self.dialect].get(op) or PATTERNS[op]
        return pattern.format(*(self._text(part, made) for part in parts))

    def _column(self, op: str, name: str, texts: list[str]) -> str:
        read = {kind: pattern.format(name) for kind, pattern in DIALECTS[self.dialect].items()}
        if op == "number":
            return f"CASE WHEN {read['number']} - {read['number']} = 0 THEN {read['number']} END"  # which infinities and NaN are not
        if op in ("level", "other"):
            text = f"CAST({name} AS VARCHAR)"
            held = f"{text} = {texts[0]}" if op == "level" else f"{text} NOT IN ({', '.join(texts)})"
            return f"CASE WHEN {held} THEN 1.0 WHEN {name} IS NOT NULL THEN 0.0 END"
        if op in read:
            return f"CAST({read[op]} AS DOUBLE)"
        within = f"(({read['instant']} % {DAY} + {DAY}) % {DAY})"  # from 0 on, before 1970 too
        return f"CAST({within} AS DOUBLE)" if op == "clock" else f"(CAST({read['instant']} - {within} AS DOUBLE) / {float(DAY)!r})"


def _margin(margin: Expression) -> str:
    """The column of a margin; of several classes with the place of its class."""
    return "_".join(["nightfit_margin", *map(str, margin.operands)])


def _sum(products: list[str]) -> str:
    """A sum in the form of a balanced tree: databases refuse expressions that are nested a thousand times."""
    if len(products) == 1:
        return products[0]
    half = len(products) // 2
    return f"({_sum(products[:half])}\n  + {_sum(products[half:])})"


def _number(value: Any) -> str:
    """A float64, exactly, as a floating-point literal: 1.5 alone would be a decimal number in DuckDB."""
    text = repr(float(value))
    return f"({text if 'e' in text else text + 'e0'})" if math.copysign(1.0, value) < 0 else text if "e" in text else text + "e0"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _literal(text: str) -> str:
    if "\0" in text:
        raise NightfitError("a level holds the character NUL, which SQL cannot write: export to another format")
    return "'" + text.replace("'", "''") + "'"


def _comment(text: str) -> str:
    return " ".join(text.split())


EXAMPLES: tuple[Format, ...] = (Sql(), Sql(dialect="sqlite"))
