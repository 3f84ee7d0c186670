"""The nouns every room shares. Imports numpy only."""

import itertools
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class NightfitError(Exception):
    """What went wrong and how to cure it, in words fit for a user: made from schema, row counts and configuration, never from values."""


RECORD, LABEL = "record", "label"


def person_of(unit: str) -> str | None:
    """The column that identifies persons, if they are the privacy unit; a record, or a record's label, has none."""
    return None if unit in (RECORD, LABEL) else unit


class Adjacency(StrEnum):
    """Which two data sets are neighbours.

    replace_one: the number of units is public and one unit's rows change arbitrarily.
    zero_out: the number of units is public and one unit's rows become null (it contributes zero).
    add_remove: one unit's rows come or go; the number of units is not public.
    """

    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"
    ADD_REMOVE = "add_remove"

    @property
    def contributions_changed(self) -> int:
        """How many contributions of one unit stand between two neighbours: the old and the new one, or a single one."""
        return 2 if self is Adjacency.REPLACE_ONE else 1


@dataclass(frozen=True, slots=True)
class Part:
    """The records whose keyed hash, in units of 2^-32, lies in [low, high): parts that do not overlap share no record."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 2**32:
            raise ValueError(f"a part needs 0 <= low < high <= 2^32, got {self.low} and {self.high}")

    @property
    def fraction(self) -> float:
        return (self.high - self.low) / 2**32


WHOLE = Part(0, 2**32)


def parts_of(count: int) -> tuple[Part, ...]:
    """Disjoint parts of equal size (to one unit of 2^-32) that together are everything."""
    edges = [2**32 * i // count for i in range(count + 1)]
    return tuple(Part(low, high) for low, high in itertools.pairwise(edges))


@dataclass(frozen=True, slots=True)
class Sample:
    """Each record with probability `rate`, by coins of its own for every number (Poisson sampling)."""

    rate: float
    number: int

    def __post_init__(self) -> None:
        if not (0 < self.rate < 1 and self.number >= 0):
            raise ValueError(f"a sample needs a rate between 0 and 1 and a number from 0, got {self.rate} and {self.number}")

    @property
    def fraction(self) -> float:
        return self.rate


Draw = Part | Sample


class Answer(StrEnum):
    """What a private estimate is, and what a solver can step with."""

    GRADIENT = "gradient"
    VERTEX = "vertex"
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one chunk, clamped and scaled: X is C-contiguous with one row per record, y its targets, slots who they are.

    Every row is a unit by itself; or, where `starts` are given, rows starts[u] to starts[u + 1] are the unit u: all rows of one person,
    who has one slot. The repr shows no value, because Dask prints the arguments of a failed task.
    """

    X: Array
    y: Array
    slots: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    starts: Integers | None = None

    def __repr__(self) -> str:
        return "Block(...)"

    def __len__(self) -> int:
        return len(self.y)

    @property
    def units(self) -> int:
        return len(self) if self.starts is None else len(self.starts) - 1

    @property
    def owners(self) -> npt.NDArray[np.uint64]:
        """The slot of each unit."""
        return self.slots if self.starts is None else self.slots[self.starts[:-1]]

    @property
    def rows_of_unit(self) -> Integers:
        """For each row, how many rows its unit has."""
        if self.starts is None:
            return np.ones(len(self), dtype=np.int64)
        counts = np.diff(self.starts)
        return np.repeat(counts, counts)

    def select_units(self, rows: npt.NDArray[np.bool_]) -> "Block":
        """Some of the units: all rows of each of them."""
        slots = self.slots[rows]
        return Block(self.X[rows], self.y[rows], slots, None if self.starts is None else runs_of(slots))


def runs_of(slots: npt.NDArray[np.uint64]) -> Integers:
    """Where runs of one slot begin, and last the number of rows."""
    if not len(slots):
        return np.zeros(1, dtype=np.int64)
    return np.concatenate([[0], np.flatnonzero(slots[1:] != slots[:-1]) + 1, [len(slots)]]).astype(np.int64)
