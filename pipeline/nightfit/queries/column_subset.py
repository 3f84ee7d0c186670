"""A question about some of the columns. Imports what query.py imports."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nightfit.queries.base import Summed
from nightfit.queries.gradient_sums import GradientSum
from nightfit.types import Adjacency, Block, Draw, Integers


@dataclass(frozen=True, kw_only=True)
class ColumnSubset(Summed):
    """A question that sees some columns of a record only.

    Guarantee: a record without some of its columns is a record, so the question is no more sensitive than the one inside. Broken by
    test_a_question_of_some_columns_is_the_question_of_a_narrower_record.
    """

    query: Any
    columns: tuple[int, ...]

    @property
    def draw(self) -> Draw:
        drawn: Draw = self.query.draw
        return drawn

    @property
    def grid(self) -> float:
        return float(self.query.grid)

    @property
    def coordinates(self) -> int:
        return int(self.query.coordinates)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return float(self.query.sensitivity(adjacency))

    def divisor(self, units: int) -> float:
        return float(self.query.divisor(units))

    def chunk(self, block: Block) -> Integers:
        narrow: Integers = self.query.chunk(replace(block, X=np.ascontiguousarray(block.X[:, self.columns])))
        return narrow

    def finalise(self, total: Integers) -> Integers:
        finished: Integers = self.query.finalise(total)
        return finished


@dataclass(frozen=True, kw_only=True)
class ChosenColumns(Summed):
    """A sum of bounded gradients on the columns at `places` alone; the others are read only where a weight is not zero.

    Guarantee: one record adds a vector of len(places) bounded coordinates, whose norm is at most `bounding.norm` of so many; the
    places are public (chosen and paid for before) and each stands once. Broken by
    test_a_neighbour_moves_chosen_columns_by_at_most_the_sensitivity.
    """

    sums: GradientSum
    places: Integers

    def __post_init__(self) -> None:
        held = len(self.sums.weights)
        if len(np.unique(self.places)) != len(self.places) or not np.all((self.places >= 0) & (self.places < held)):
            raise ValueError(f"places must be different columns among {held}")

    @property
    def draw(self) -> Draw:
        return self.sums.draw

    @property
    def grid(self) -> float:
        return self.sums.grid

    @property
    def coordinates(self) -> int:
        return len(self.places)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * self.sums.bounding.l2_bound(self.coordinates, self.sums.bits)

    def divisor(self, units: int) -> float:
        return self.sums.divisor(units)

    def chunk(self, block: Block) -> Integers:
        """Of the needed columns only: a column whose weight is zero adds nothing to a margin."""
        weights = self.sums.weights
        needed = np.union1d(self.places, np.flatnonzero(weights))
        narrow = replace(block, X=np.ascontiguousarray(block.X[:, needed]))
        return replace(self.sums, weights=weights[needed]).chunk(narrow)[:, np.searchsorted(needed, self.places)]

    def finalise(self, total: Integers) -> Integers:
        return self.sums.finalise(total)
