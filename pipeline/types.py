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
    def moved(self) -> int:
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

    The repr shows no value, because Dask prints the arguments of a failed task.
    """

    X: Array
    y: Array
    slots: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def __repr__(self) -> str:
        return "Block(...)"

    def __len__(self) -> int:
        return len(self.y)
