"""Column kinds, one per file: from a raw column of an export to the numbers of a model. Imports numpy, plugins and types.

A kind says how the reader hands over its column (`reading`), which features it makes of it, and how. Strings and dates are parsed by the
reader; a kind sees numbers, whole codes or instants. A value that is missing, unparsable or not finite is NaN here, in every kind, and
never an error: one record must not be able to stop a run.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from nightfit.plugins import described, member
from nightfit.records.expressions import Expression
from nightfit.types import Array

Codes = npt.NDArray[np.int64]
Instants = npt.NDArray[np.int64]

ABSENT = "null"  # the Arrow type of a column without any value, which every kind reads as missing
DICTIONARY = "dictionary<values="
DIGITS = re.compile(r"-?[1-9]\d*|0|-?\d+\.\d+")  # of a number as it is read: 47, never 047
NULL = -1  # the code of a missing category
NEVER = np.iinfo(np.int64).min  # the instant of a missing date, as numpy's NaT


@dataclass(frozen=True, slots=True)
class Numbers:
    """Read as float64; NaN where missing."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Read as whole codes: the index of the level, len(levels) for any other value, NULL where missing."""

    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """Read as microseconds since 1970-01-01T00:00 by the wall clock of a time zone; NEVER where missing."""

    zone: str = "UTC"


Reading = Numbers | Levels | Clock


class Missing(StrEnum):
    """What a missing value counts as.

    mean: the column's centre, so that the record stays in. indicator: the same, and 1 in a feature of its own. drop: the whole record
    adds nothing. Fields hold the word itself, as configurations and releases do.
    """

    MEAN = "mean"
    INDICATOR = "indicator"
    DROP = "drop"


IMPUTED = (Missing.MEAN, Missing.INDICATOR)
"""The policies by which a missing value counts as the column's centre."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Feature:
    """A column of the model. An indicator is 0 or 1, so its scale is public; `low` and `high` clamp any other, where they are known. Where
    `imputed`, it may be missing in a record that counts: then it is NaN, and counts as the feature's centre.
    """

    name: str
    indicator: bool = False
    low: float | None = None
    high: float | None = None
    imputed: bool = False


class Column(Protocol):
    """What is publicly known of a raw column, and what is made of it."""

    name: ClassVar[str]

    @property
    def reading(self) -> Reading | None:
        """How the reader hands the column over; None for a kind that is made of other columns."""

    @property
    def one_hot(self) -> bool:
        """Whether in every record at most one of its features is 1 and the others are 0, so that a code can tell which."""

    @property
    def of(self) -> tuple[str, ...]:
        """The columns that it is made of, for a kind that reads none itself."""

    @property
    def drops(self) -> bool:
        """Whether a record with a missing value here adds nothing."""

    def accepts(self, arrow_type: str) -> bool:
        """Whether a column of this Arrow type can be of this kind."""

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        """What it makes of the column of this name, in order; `factors` are the features of the columns that it is made of."""

    def encode(self, values: Any, out: Array) -> None:
        """Fill `out` (rows x features) from what the reader handed over, or from the encoded columns that it is made of; NaN where
        missing.
        """

    def expressions(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Expression, ...]:
        """What `encode` computes, as formulas for other systems: one for each of `features(name, *factors)`."""


def as_dict(column: Column) -> dict[str, Any]:
    """A column by its kind and fields, as releases store it."""
    return described(column)


def from_dict(stored: Mapping[str, Any]) -> Column:
    """The column that `as_dict` described."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items() if name != "kind"}
    column: Column = member(sys.modules[__name__], stored["kind"])(**fields)
    return column


def check_missing(missing: str) -> None:
    """Refuse a word that is no policy for missing values."""
    if missing not in set(Missing):
        raise ValueError(f"{missing!r} is not one of {', '.join(Missing)}: say so what a missing value counts as")


def numeric(arrow_type: str) -> bool:
    """Whether an Arrow type, by its name, is a number or a boolean, or a dictionary of these."""
    return _held(arrow_type).startswith(("bool", "int", "uint", "float", "double", "halffloat", "decimal"))


def textual(arrow_type: str) -> bool:
    """Whether an Arrow type, by its name, is text or a dictionary of text."""
    return _held(arrow_type) in ("string", "large_string", "string_view")


def coded(arrow_type: str) -> bool:
    """Whether an Arrow type, by its name, is text, or a number or a boolean that may be a code."""
    return textual(arrow_type) or numeric(arrow_type)


def temporal(arrow_type: str) -> bool:
    """Whether an Arrow type, by its name, is a date or a time stamp."""
    return arrow_type.startswith(("date32", "date64", "timestamp"))


def dictionary(arrow_type: str) -> bool:
    """Whether an Arrow type, by its name, is a dictionary."""
    return arrow_type.startswith(DICTIONARY)


def occurs(level: str, arrow_type: str) -> bool:
    """Whether a column of this Arrow type, by its name, can hold a level: booleans are true and false, numbers are read by their digits."""
    if not numeric(arrow_type):
        return True
    return level in ("true", "false") if _held(arrow_type) == "bool" else DIGITS.fullmatch(level) is not None


def _held(arrow_type: str) -> str:
    """The type of the values, of a dictionary too."""
    return arrow_type.removeprefix(DICTIONARY).split(",")[0] if dictionary(arrow_type) else arrow_type
