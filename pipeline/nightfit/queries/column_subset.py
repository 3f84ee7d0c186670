"""Queries on some of the columns. Imports gradient_sums and below."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nightfit.queries.base import Summed, SumQuery
from nightfit.queries.gradient_sums import GradientSum
from nightfit.types import Adjacency, Block, Draw, Integers


def narrowed(block: Block, columns: Sequence[int] | Integers) -> Block:
    """The block with these columns only, in this order."""
    return replace(block, X=np.ascontiguousarray(block.X[:, columns]))


class OfQuery(Summed):
    """Base of a query that is another one on fewer columns: draw, grid, divisor and finalising are those of the query inside."""

    query: SumQuery

    @property
    def draw(self) -> Draw:
        return self.query.draw

    @property
    def grid(self) -> float:
        return self.query.grid

    def divisor(self, units: int) -> float:
        return self.query.divisor(units)

    def finalise(self, total: Integers) -> Integers:
        return self.query.finalise(total)


@dataclass(frozen=True, kw_only=True)
class ColumnSubset(OfQuery):
    """A query of narrower records: it is handed some columns only.

    Guarantee: a record without some of its columns is a record, so the query is no more sensitive than the one inside. Broken by
    test_a_query_of_some_columns_is_the_query_of_a_narrower_record and
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    query : SumQuery
        What is asked of the narrower records.
    columns : tuple of int
        Which columns they have, in this order.
    """

    query: SumQuery
    columns: tuple[int, ...]

    @property
    def coordinates(self) -> int:
        return self.query.coordinates

    def sensitivity(self, adjacency: Adjacency) -> float:
        return self.query.sensitivity(adjacency)

    def chunk(self, block: Block) -> Integers:
        return self.query.chunk(narrowed(block, self.columns))


@dataclass(frozen=True, kw_only=True)
class ChosenColumns(OfQuery):
    """A sum of bounded gradients whose coordinates are some columns; the margin still uses every column with a non-zero weight.

    Guarantee: one unit adds a vector of len(places) bounded coordinates, whose norm is at most `bounding.l2_bound` of so many; the
    places are public (chosen and paid for before) and each stands once. Broken by
    test_a_neighbour_moves_chosen_columns_by_at_most_the_sensitivity.

    Parameters
    ----------
    query : GradientSum
        The sum over all columns.
    places : Integers
        The columns that are released.
    """

    query: GradientSum
    places: Integers

    def __post_init__(self) -> None:
        held = len(self.query.weights)
        if len(np.unique(self.places)) != len(self.places) or not np.all((self.places >= 0) & (self.places < held)):
            raise ValueError(f"places must be different columns among {held}")

    @property
    def coordinates(self) -> int:
        return len(self.places)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * self.query.bounding.l2_bound(self.coordinates, self.query.bits)

    def chunk(self, block: Block) -> Integers:
        """Reads only the needed columns: one whose weight is zero adds nothing to a margin."""
        weights, rows = self.query.weights, self.query.rows
        needed = np.union1d(self.places, np.flatnonzero(weights))
        sums = replace(self.query, weights=weights[needed], rows=rows and rows.only(needed)).chunk(narrowed(block, needed))
        return sums[:, np.searchsorted(needed, self.places)]
