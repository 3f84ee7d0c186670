"""Types that all packages share. Imports numpy only."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class NightfitError(Exception):
    """An error whose message a user may see: what went wrong and what to do, made from schema, row counts and configuration only."""


RECORD, LABEL = "record", "label"


def person_of(unit: str) -> str | None:
    """The column that identifies persons if the privacy unit is a person; None for the units `record` and `label`."""
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
        """The number of contributions in which two neighbours differ: the old and the new one of a replaced unit, else a single one."""
        return 2 if self is Adjacency.REPLACE_ONE else 1


@dataclass(frozen=True, slots=True)
class Part:
    """The units whose keyed hash, in steps of 2^-32, lies in [low, high). Disjoint intervals share no unit."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 2**32:
            raise ValueError(f"a part needs 0 <= low < high <= 2^32, got {self.low} and {self.high}")

    @property
    def fraction(self) -> float:
        """The expected share of all units."""
        return (self.high - self.low) / 2**32


WHOLE = Part(0, 2**32)


def parts_of(count: int) -> tuple[Part, ...]:
    """`count` disjoint parts that cover everything, of equal size up to 2^-32."""
    edges = [2**32 * i // count for i in range(count + 1)]
    return tuple(Part(low, high) for low, high in itertools.pairwise(edges))


@dataclass(frozen=True, slots=True)
class Sample:
    """A Poisson sample: each unit with probability `rate`, independently for every `number`."""

    rate: float
    number: int

    def __post_init__(self) -> None:
        if not (0 < self.rate < 1 and self.number >= 0):
            raise ValueError(f"a sample needs a rate between 0 and 1 and a number from 0, got {self.rate} and {self.number}")

    @property
    def fraction(self) -> float:
        """The expected share of all units."""
        return self.rate


Draw = Part | Sample


class Answer(StrEnum):
    """The kind of a private estimate. A solver declares which kinds it can take a step with."""

    GRADIENT = "gradient"
    VERTEX = "vertex"
    WEIGHTS = "weights"


PIECE_BYTES = 2**24
"""Rows that a query sees at a time where they are made dense first: small beside a worker, large beside a query's own matrices."""


class Units:
    """Base of rows that belong to privacy units: rows starts[u] to starts[u + 1] are unit u, or every row is one."""

    __slots__ = ()
    y: Array
    slots: npt.NDArray[np.uint64]
    starts: Integers | None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def units(self) -> int:
        """The number of privacy units."""
        return len(self) if self.starts is None else len(self.starts) - 1

    @property
    def owners(self) -> npt.NDArray[np.uint64]:
        """The slot of each unit."""
        return self.slots if self.starts is None else self.slots[self.starts[:-1]]


@dataclass(frozen=True, slots=True)
class Block(Units):
    """Preprocessed rows of one chunk. The repr shows no value, because Dask prints the arguments of a failed task.

    Parameters
    ----------
    X : C-contiguous array, rows x columns
        Features, clamped and scaled.
    y : array, one per row
        Targets.
    slots : array of uint64, one per row
        The key of each row's pseudo-randomness (`numerics.prf`); rows of one person share it.
    starts : array of int64, optional
        Rows starts[u] to starts[u + 1] are unit u: all rows of one person. None means that every row is a unit.
    """

    X: Array
    y: Array
    slots: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    starts: Integers | None = None

    def __repr__(self) -> str:
        return "Block(...)"

    @property
    def rows_of_unit(self) -> Integers:
        """The number of rows of each row's unit."""
        if self.starts is None:
            return np.ones(len(self), dtype=np.int64)
        counts = np.diff(self.starts)
        return np.repeat(counts, counts)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What is kept of the rows, in the order of a file."""
        return self.X, self.y, self.slots

    def select_units(self, rows: npt.NDArray[np.bool_]) -> "Block":
        """The block of the selected rows; the mask must select all rows of a unit or none."""
        slots = self.slots[rows]
        return Block(self.X[rows], self.y[rows], slots, None if self.starts is None else runs_of(slots))

    def first(self, rows: int) -> "Block":
        """The first rows; each is a unit."""
        return Block(self.X[:rows], self.y[:rows], self.slots[:rows])

    def joined(self, others: Sequence["Block"]) -> "Block":
        """The rows of this block and of others."""
        X, y, slots = (np.concatenate(arrays) for arrays in zip(self.arrays, *(other.arrays for other in others), strict=True))
        return Block(X, y, slots, None if self.starts is None else runs_of(slots))

    def dense(self) -> "Block":
        """The block itself, whose rows have all columns."""
        return self

    def pieces(self, most: int = PIECE_BYTES) -> Iterator[tuple[slice, "Block"]]:
        """Blocks of at most so many bytes, and which units they are; persons are not cut."""
        step = max(1, most // max(1, self.X.itemsize * self.X.shape[1])) if self.starts is None else len(self)
        if step >= len(self):
            yield slice(0, self.units), self
            return
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, Block(self.X[rows], self.y[rows], self.slots[rows])


def runs_of(slots: npt.NDArray[np.uint64]) -> Integers:
    """The first row of each run of equal slots, followed by the number of rows."""
    if not len(slots):
        return np.zeros(1, dtype=np.int64)
    return np.concatenate([[0], np.flatnonzero(slots[1:] != slots[:-1]) + 1, [len(slots)]]).astype(np.int64)
