"""Formulas as data: what a column kind or a link computes, so that other systems can compute it. Imports nothing.

An expression is an operation and its operands. Its value is a float64 or missing (`null`); an operation whose operand is missing is
missing, unless it says otherwise. `docs/guides/export.md` documents every operation; each export format has a line for each of them.
"""

from dataclasses import dataclass
from typing import Any, Union

Operand = Union["Expression", float, str]


@dataclass(frozen=True, slots=True)
class Expression:
    """An operation and its operands: other expressions, numbers, names.

    Of one raw column:
        number(name)            its value; missing where it is not finite
        level(name, text)       1 if it is this text, else 0
        other(name, *texts)     1 if it is none of these texts, else 0
        days(name)              of an instant: whole days since 1970-01-01, rounded down
        clock(name)             microseconds since the beginning of its day
        year(name)              of the Gregorian calendar
        month(name)             from 0 for January to 11
        weekday(name)           from 0 for Monday to 6
    Of a record:
        feature(name)           one that was computed before
        margin()                x' . w; of several classes margin(place), with the place as text
    Arithmetic:
        add sub mul div (a, b), floor log log1p sqrt exp sin cos (a)
        max(a, bound), clip(a, low, high)
    Choices:
        lt le eq (a, b)         conditions; both operands are there, or the condition is false
        either(a, b)            whether one of two conditions holds
        when(condition, a)      a, or missing where the condition is false
        choose(condition, a, b) a, or b where the condition is false
        finite(a)               a, or missing where it is infinite
        missing(a)              1 where a is missing, else 0; itself never missing
        coalesce(a, b)          a, or b where a is missing
    """

    op: str
    operands: tuple[Operand, ...]

    def __add__(self, other: Operand) -> "Expression":
        return of("add", self, other)

    def __sub__(self, other: Operand) -> "Expression":
        return of("sub", self, other)

    def __mul__(self, other: Operand) -> "Expression":
        return of("mul", self, other)

    def __truediv__(self, other: Operand) -> "Expression":
        return of("div", self, other)

    def as_list(self) -> list[Any]:
        """As JSON has it: ["add", ["number", "age"], 1.0]."""
        return [self.op, *(part.as_list() if isinstance(part, Expression) else part for part in self.operands)]


def of(op: str, *operands: Operand) -> Expression:
    """An expression; whole numbers become floats."""
    return Expression(op, tuple(float(part) if isinstance(part, int | float) else part for part in operands))


def clipped(a: Expression, low: float, high: float) -> Expression:
    """min(max(a, low), high)."""
    return of("clip", a, low, high)


def calendar(part: str, days: Expression) -> Expression:
    """The year, month or weekday of a day since 1970-01-01, for a format that has no calendar.

    Years are counted from March, so that the leap day is the last of its year: 146,097 days are 400 years, and after d days of a year
    (5 d + 2) / 153 months have passed. Numbers are whole and far below 2^53, so that every quotient's floor is exact.
    """
    if part == "weekday":
        since = days + 3.0  # 1970-01-01 was a Thursday
        return since - _floor(since / 7.0) * 7.0
    since = days + 719_468.0  # 0000-03-01
    era = _floor(since / 146_097.0)
    day = since - era * 146_097.0
    year = _floor((day - _floor(day / 1460.0) + _floor(day / 36_524.0) - _floor(day / 146_096.0)) / 365.0)
    of_year = day - (year * 365.0 + _floor(year / 4.0) - _floor(year / 100.0))
    months = _floor((of_year * 5.0 + 2.0) / 153.0)
    january = of("le", 10, months)
    return era * 400.0 + year + of("choose", january, 1, 0) if part == "year" else months + of("choose", january, -10, 2)


def _floor(a: Expression) -> Expression:
    return of("floor", a)
