"""Counts of a record's sizes on a public logarithmic grid. Imports rows, losses and what query.py imports."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.base import Summed, drawn_of
from nightfit.queries.kernels import bucket_counts
from nightfit.queries.rows import RESOLUTION, Rotation, Rows
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers


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


COLUMN_GRID = Grid(low=-32.0, step=0.5, bins=145)
NORM_GRID = Grid(low=-8.0, step=0.25, bins=89)
RESIDUAL_GRID = Grid(low=-32.0, step=0.5, bins=145)
OCTAVES = Grid(low=-32.0, step=1.0, bins=73)
DOUBLE_OCTAVES = Grid(low=-32.0, step=2.0, bins=37)
ROUND_DOWN = 1 - 2.0**-50


class Measure(Protocol):
    """Sizes of a record, each at least zero, from that record alone."""

    @property
    def sizes(self) -> int:
        """How many numbers a record has."""

    def of(self, block: Block) -> Array:
        """Rows x sizes."""


@dataclass(frozen=True, kw_only=True)
class ColumnSizes:
    """|x_j| of the chosen columns; zero for those that are `known`."""

    columns: tuple[int, ...]
    known: npt.NDArray[np.bool_]

    @property
    def sizes(self) -> int:
        return len(self.columns)

    def of(self, block: Block) -> Array:
        values: Array = np.abs(block.X[:, self.columns])
        values[:, self.known] = 0.0
        return values


@dataclass(frozen=True, kw_only=True)
class ColumnSpreads:
    """|x_j - centre_j| of the chosen columns, at least the smallest size that is counted, so that every record weighs alike in every
    column; a row of zeros (a null record) has none.
    """

    columns: tuple[int, ...]
    centre: Array

    @property
    def sizes(self) -> int:
        return len(self.columns)

    def of(self, block: Block) -> Array:
        values = np.maximum(np.abs(block.X[:, self.columns] - self.centre), COLUMN_GRID.edges[0])
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
    """|slope(y, x . weights)| of the scaled row, at least the smallest size that is counted, because a target of zero is one too; a row
    of zeros (a null record) has none.
    """

    rows: Rows
    loss: Loss
    weights: Array
    sizes: int = 1

    def of(self, block: Block) -> Array:
        return counted(np.abs(self.signed(block)))[:, None]

    def signed(self, block: Block) -> Array:
        """-slope(y, x . weights), not a number for a null record."""
        out = np.empty(len(block))
        for place, q in self.rows.tiles(block, len(block)):
            products = np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, np.empty(len(q)))
            with np.errstate(all="ignore"):
                out[place] = np.where(q.any(axis=1), -self.loss.slope(block.y[place], products), math.nan)
        return out


@dataclass(frozen=True, kw_only=True)
class SignedResidual(Residual):
    """The same in two sizes, above and below zero, one of which is none, so that both cost no more than one."""

    sizes: int = 2

    def of(self, block: Block) -> Array:
        signed = self.signed(block)
        sizes = counted(np.abs(signed))
        return np.column_stack([np.where(signed >= 0.0, sizes, 0.0), np.where(signed < 0.0, sizes, 0.0)])


def counted(residuals: Array) -> Array:
    """Sizes that are counted, the smallest of them for a smaller one; zero, which is not, for what is not a number."""
    return np.where(np.isnan(residuals), 0.0, np.maximum(residuals, RESIDUAL_GRID.edges[0]))


@dataclass(frozen=True, kw_only=True)
class Histogram(Summed):
    """For each of a row's m sizes above zero, floor(2^bits / (k sqrt(m))) in the bin where it lies, k being the number of rows of its
    unit: sizes x bins counts, flattened. So units count alike, and what is counted is the sizes of one row of each, whichever it may be.

    A row with few sizes above zero counts more in each of them. Any weight of at most 1 / sqrt(m) has the sensitivity of one size, and
    this one is the largest of them. If all sizes counted one, noise would grow with the root of their number; so a row counts less by the
    root of its own sizes above zero, which are few where columns are indicators of a category or counts of rare things.

    Guarantee: a row adds a vector of norm at most 2^bits / k, and so a unit one of at most 2^bits; its old and its new vector have no
    negative entry, so their distance is at most sqrt(2) 2^bits. A null record adds nothing. Broken by
    test_a_neighbour_moves_a_recipe_question_by_at_most_its_sensitivity,
    test_a_row_s_counts_have_a_norm_of_at_most_one_however_many_of_its_columns_are_zero and, for persons, by
    test_a_person_moves_a_recipe_question_by_at_most_its_sensitivity and
    test_a_person_s_counts_have_a_norm_of_at_most_one_however_many_columns_of_each_row_are_zero.
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
        return math.nextafter(math.sqrt(adjacency.contributions_changed), math.inf) * 2.0**self.bits

    def divisor(self, units: int) -> float:
        return 1.0

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros((self.measure.sizes, self.grid_of_sizes.bins), dtype=np.int64)
        if len(block):
            _count(self.measure.of(block), self.grid_of_sizes.edges, 2**self.bits // block.rows_of_unit, counts)
        return counts.ravel()

    def finalise(self, total: Integers) -> Integers:
        return total


@compiled
def _count(values, edges, each, counts):  # type: ignore[no-untyped-def]
    rows, sizes = values.shape
    for i in range(rows):
        above = 0
        for k in range(sizes):
            above += values[i, k] > 0.0
        share = each[i] if above < 2 else np.int64(each[i] / math.sqrt(above) * ROUND_DOWN)
        for k in range(sizes):
            value = values[i, k]
            if value > 0.0:
                place = np.searchsorted(edges, value, side="right") - 1
                counts[k, max(place, 0)] += share


@dataclass(frozen=True, kw_only=True)
class BucketCounts(Summed):
    """Counts of each coordinate of the gradients in public buckets, one count being 2^bits steps.

    Guarantee: a record is in one bucket of each coordinate, so replacing it moves two counts by one each and the whole by
    sqrt(2 columns) counts; nulling or removing it moves one, sqrt(columns). Broken by
    test_a_neighbour_moves_the_counts_by_at_most_the_sensitivity.
    """

    loss: Loss
    weights: Array
    bound: float
    buckets: int
    bits: int
    draw: Draw
    key: bytes = field(repr=False)

    @property
    def grid(self) -> float:
        return 2.0**-self.bits

    @property
    def coordinates(self) -> int:
        return len(self.weights) * self.buckets

    def sensitivity(self, adjacency: Adjacency) -> float:
        return 2.0**self.bits * math.nextafter(math.sqrt(adjacency.contributions_changed * len(self.weights)), math.inf)

    def divisor(self, units: int) -> float:
        return units * self.draw.fraction

    def chunk(self, block: Block) -> Integers:
        block = drawn_of(block, self.key, self.draw)
        width = 2 * self.bound / self.buckets
        return bucket_counts(block, self.weights, self.loss, -self.bound, width, self.buckets).ravel() * np.int64(2**self.bits)

    def finalise(self, total: Integers) -> Integers:
        return total
