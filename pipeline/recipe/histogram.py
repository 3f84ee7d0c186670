"""Counts of a record's sizes on a public logarithmic grid. Imports rows, losses and what query.py imports."""

import math
from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np

from pipeline.exact import margins
from pipeline.losses import Loss
from pipeline.query import Summed
from pipeline.recipe.rows import RESOLUTION, Rotation, Rows
from pipeline.types import WHOLE, Adjacency, Array, Block, Draw, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Bins [2^(low + i step), 2^(low + (i + 1) step)), i = 0 .. bins - 1: public, the same for every data set.

    End-bin rule: what is larger than the last bin counts in it, what is smaller than the first but above zero counts in it, zero
    and what is not a number count nowhere.
    """

    low: float
    step: float
    bins: int

    @property
    def edges(self) -> Array:
        """The lower edge of each bin."""
        return np.exp2(self.low + self.step * np.arange(self.bins))

    @property
    def upper(self) -> Array:
        return self.edges * 2.0**self.step

    @property
    def middles(self) -> Array:
        return self.edges * 2.0 ** (self.step / 2)


COLUMN_GRID = Grid(low=-20.0, step=0.5, bins=121)
NORM_GRID = Grid(low=-8.0, step=0.25, bins=89)
RESIDUAL_GRID = Grid(low=-20.0, step=0.5, bins=121)


class Measure(Protocol):
    """Sizes of a record, each at least zero, from that record alone."""

    @property
    def sizes(self) -> int:
        """How many numbers a record has."""

    def of(self, block: Block) -> Array:
        """Rows x sizes."""


@dataclass(frozen=True, kw_only=True)
class ColumnSizes:
    """|x_j - centre_j| of the chosen columns; a row of zeros (a null record) has none."""

    columns: tuple[int, ...]
    centre: Array

    @property
    def sizes(self) -> int:
        return len(self.columns)

    def of(self, block: Block) -> Array:
        values = np.abs(block.X[:, self.columns] - self.centre)
        values[~block.X.any(axis=1)] = 0.0
        return values


@dataclass(frozen=True, kw_only=True)
class Norm:
    """||x|| of the scaled row, or ||A x|| of the rotated one; the last row of A is left out if it only carries the intercept."""

    rows: Rows
    rotation: Rotation | None = None
    sizes: int = 1

    def of(self, block: Block) -> Array:
        out = np.empty((len(block), 1))
        unused = np.zeros(self.rows.columns)
        for place, q in self.rows.tiles(block, len(block)):
            turned = q if self.rotation is None else self.rotation.applied(q)
            squares = np.empty(len(q))
            margins(turned, unused, np.empty(len(q)), squares)
            out[place, 0] = np.sqrt(squares) * (2.0**-RESOLUTION if self.rotation is None else self.rotation.step)
        return out


@dataclass(frozen=True, kw_only=True)
class Residual:
    """|slope(y, x . weights)| of the scaled row."""

    rows: Rows
    loss: Loss
    weights: Array
    sizes: int = 1

    def of(self, block: Block) -> Array:
        out = np.empty((len(block), 1))
        for place, q in self.rows.tiles(block, len(block)):
            products = np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, np.empty(len(q)))
            with np.errstate(all="ignore"):
                out[place, 0] = np.where(q.any(axis=1), np.abs(self.loss.slope(block.y[place], products)), 0.0)
        return out


@dataclass(frozen=True, kw_only=True)
class Histogram(Summed):
    """For each size of a row, floor(2^bits / k) in the bin where it lies, k being the number of rows of its unit: sizes x bins counts,
    flattened. So units count alike, and what is counted is the sizes of one row of each, whichever it may be.

    Guarantee: a unit adds at most 2^bits, in all, to the bins of each size, whatever its rows, so it adds a vector of norm at most
    sqrt(sizes) 2^bits; its old and its new vector have no negative entry, so their distance is at most sqrt(2 sizes) 2^bits. A null
    record adds nothing. Broken by test_a_neighbour_moves_a_recipe_question_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_a_recipe_question_by_at_most_its_sensitivity.
    """

    measure: Measure
    grid_of_sizes: Grid
    bits: int
    draw: Draw = WHOLE

    @property
    def grid(self) -> float:
        return 2.0**-self.bits

    @property
    def coordinates(self) -> int:
        return self.measure.sizes * self.grid_of_sizes.bins

    def sensitivity(self, adjacency: Adjacency) -> float:
        return counted(self.measure.sizes, self.bits, adjacency)

    def divisor(self, units: int) -> float:
        return 1.0

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros((self.measure.sizes, self.grid_of_sizes.bins), dtype=np.int64)
        if len(block):
            _count(self.measure.of(block), self.grid_of_sizes.edges, 2**self.bits // block.rows_of_unit, counts)
        return counts.ravel()

    def finish(self, total: Integers) -> Integers:
        return total


def counted(sizes: int, bits: int, adjacency: Adjacency) -> float:
    """sqrt(moved sizes) 2^bits, rounded up."""
    return math.nextafter(math.sqrt(adjacency.moved * sizes), math.inf) * 2.0**bits


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _count(values, edges, each, counts):  # type: ignore[no-untyped-def]
    rows, sizes = values.shape
    for i in range(rows):
        for k in range(sizes):
            value = values[i, k]
            if value > 0.0:
                place = np.searchsorted(edges, value, side="right") - 1
                counts[k, max(place, 0)] += each[i]
