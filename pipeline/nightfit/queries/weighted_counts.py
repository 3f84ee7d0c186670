"""The base of histograms of predictions and of checks of rows: weighted counts, by group if wanted. Imports histograms and below."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.queries.histograms import Counts
from nightfit.records.columns.category import Category
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array, Block, Integers

TILE_ROWS = 2**14
"""Rows whose errors are computed at once, so that no second matrix of the block's size exists. No result depends on it."""

MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The group of each row: the level of one category, read from its indicators.

    Guarantee: every row is in one group, which is a function of that row alone and of public facts. Broken by
    test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    column : str
        The category.
    names : tuple of str
        Its groups. One that has no indicator, the reference, comes last: it holds the rows without any.
    places : tuple of int
        The block's columns of the indicators.
    middles : tuple of float
        What an indicator exceeds where it is set, in the block's units.
    """

    column: str
    names: tuple[str, ...]
    places: tuple[int, ...]
    middles: tuple[float, ...]

    @classmethod
    def of_category(cls, shape: Preprocessing, column: str) -> "Groups":
        """The groups of blocks that a preprocessing makes.

        Raises
        ------
        ValueError
            If the column is no category, with those that are.
        """
        encoding = shape.encoded
        kind = encoding.described.get(column)
        if not isinstance(kind, Category):
            known = [name for name, other in encoding.columns if isinstance(other, Category)]
            raise ValueError(f"by names a category of data.columns, {', '.join(known) or 'of which there is none'}; got {column!r}")
        within = encoding.places[column]
        places = tuple(range(within.start, within.stop))
        names = (*kind.shown, *((MISSING,) if kind.marks else ()), *((kind.reference,) if kind.reference is not None else ()))
        middles = tuple((0.5 - shape.centre[place]) / shape.scale[place] for place in places)
        return cls(column=column, names=names, places=places, middles=middles)

    def of(self, X: Array) -> Integers:
        """The place of each row's group among the names."""
        found = X[:, list(self.places)] > np.array(self.middles)
        return np.where(found.any(axis=1), found.argmax(axis=1), len(self.names) - 1)


class WeightedCounts(Counts):
    """Base of histograms of rows: tiles of a block with the steps of each row, null rows left out; every group has counts of its own.

    Guarantee: a unit of k rows has 2^bits / k steps, rounded down, to give for each row, so its counts have a norm of at most 1 if each
    row's share has: `squared_norm` is 1. A row is in one group and counts there alone, so groups are one more axis and add nothing.
    Broken by test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and
    test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.
    """

    bits: int
    groups: Groups | None

    @property
    def squared_norm(self) -> float:
        return 1.0

    @property
    @abstractmethod
    def width(self) -> int:
        """How many counts a group has."""

    @property
    def coordinates(self) -> int:
        return self.width if self.groups is None else self.width * len(self.groups.names)

    def divisor(self, units: int) -> float:
        return 1.0

    def tiles(self, block: Block) -> Iterator[tuple[Array, Array, Integers, Integers]]:
        """Of the rows that are not null: features, targets, 2^bits over the number of rows of each row's unit, and the place of the first
        count of each row's group.
        """
        each = 2**self.bits // block.rows_of_unit
        for start in range(0, len(block), TILE_ROWS):
            X, y, most = (of[start : start + TILE_ROWS] for of in (block.X, block.y, each))
            present = (X != 0).any(axis=1)
            kept = X[present]
            first = np.zeros(len(kept), dtype=np.int64) if self.groups is None else self.groups.of(kept) * self.width
            yield kept, y[present], most[present], first
