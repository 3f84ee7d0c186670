"""Histograms of row magnitudes on a logarithmic grid, and of gradient coordinates in buckets. Imports kernels, magnitudes and below."""

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.problem.losses import Loss
from nightfit.queries.base import PlainSum, drawn_of, root_up
from nightfit.queries.kernels import gradients
from nightfit.queries.magnitudes import FRACTION, FRACTION_BITS, LogGrid, Measure
from nightfit.queries.rows import Rows, scaled_by
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers

ROUND_DOWN = 1 - 2.0**-50
"""More than the relative rounding error of 2^bits / sqrt(m): a share that is multiplied by it and truncated is never too large."""

NOWHERE = -1
"""The bin of a value that is not counted."""


class Counts(PlainSum):
    """Base of histograms: non-negative counts, one count being 2^bits steps.

    Guarantee: let a unit's vector of counts have a squared norm of at most `squared_norm`. Two such vectors have no negative entry, so
    their inner product is not negative and their squared distance is at most 2 squared_norm; one alone is at most squared_norm from
    zero. Hence the sensitivity is sqrt(contributions_changed squared_norm) counts. Broken by
    test_an_adversary_reaches_an_auto_query_s_sensitivity_and_goes_no_further and test_the_counts_reach_their_sensitivity.
    """

    bits: int

    @property
    @abstractmethod
    def squared_norm(self) -> float:
        """The largest squared norm of one unit's counts."""

    @property
    def grid(self) -> float:
        return 2.0**-self.bits

    def sensitivity(self, adjacency: Adjacency) -> float:
        return root_up(adjacency.contributions_changed * self.squared_norm) * 2.0**self.bits


@dataclass(frozen=True, kw_only=True)
class Histogram(Counts):
    """For each of a row's m positive magnitudes, floor(2^bits / (k sqrt(m))) in the bin where it lies, k being the number of rows of the
    row's unit: width x bins counts, flattened. So all units have the same weight, that of one row.

    A row with few positive magnitudes counts more in each of them: any weight of at most 1 / sqrt(m) has the sensitivity of one
    magnitude, and this is the largest. With a weight of one for all, noise would grow with the root of the number of columns; with this
    one it grows only with the root of a row's own non-zero columns, which are few where columns are indicators or rare counts.

    Guarantee: a row adds a vector of norm at most 2^bits / k, and so a unit one of at most 2^bits: `squared_norm` is 1. A null record
    adds nothing. Broken by test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity,
    test_a_row_s_counts_have_a_norm_of_at_most_one_however_many_of_its_columns_are_zero and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity and
    test_a_person_s_counts_have_a_norm_of_at_most_one_however_many_columns_of_each_row_are_zero.

    Parameters
    ----------
    measure : Measure
        The magnitudes of a row.
    log_grid : LogGrid
        The public bins.
    bits : int
        One count is 2^bits steps.
    """

    measure: Measure
    log_grid: LogGrid
    bits: int
    draw: Draw = WHOLE

    @property
    def squared_norm(self) -> float:
        return 1.0

    @property
    def coordinates(self) -> int:
        return self.measure.width * self.log_grid.bins

    def divisor(self, units: int) -> float:
        return 1.0

    def chunk(self, block: Block) -> Integers:
        of, bins = self.measure.distances(block), self.log_grid.of_bits()
        counted = np.zeros(of.values.shape[1], dtype=np.bool_)
        counted[of.columns] = ~of.known
        each = np.full(len(block), 2**self.bits) if block.starts is None else 2**self.bits // block.rows_of_unit
        counts = np.zeros((len(counted), 1 + self.log_grid.bins), dtype=np.int64)
        _add_rows(
            of.values, of.centre, counted, of.zeros, each, bins.low, bins.high, bins.parts, bins.first, bins.shift, bins.inside, counts
        )
        return counts[of.columns, 1:].ravel()


@compiled
def _add_rows(values, centre, counted, zeros, each, low, high, parts, first, shift, inside, counts):  # type: ignore[no-untyped-def]
    """counts[j, 1 + bin of |values[i, j] - centre[j]|] += floor(each[i] / sqrt(m)), m being the number of the row's magnitudes that count.

    What does not count goes to counts[j, 0], so that no branch depends on a value. The places of a row are found before any is counted,
    because LLVM vectorises the first loop and not the second.
    """
    rows, columns, width = np.uintp(values.shape[0]), np.uintp(values.shape[1]), counts.shape[1]
    roots = np.sqrt(np.arange(1 + values.shape[1]).astype(np.float64))
    flat, places = counts.reshape(counts.size), np.empty(values.shape[1], dtype=np.int64)
    for i in range(rows):
        present = not zeros
        if zeros:
            for j in range(columns):
                present |= values[i, j] != 0.0
        m = 0
        for j in range(columns):
            size = abs(values[i, j] - centre[j])
            counting = counted[j] & present & ((size > 0.0) | (zeros & (size == 0.0)))
            m += counting
            bits = np.float64(min(max(size, low), high)).view(np.int64)
            part = parts * (bits >> FRACTION_BITS)
            for edge in inside:
                part += bits & FRACTION >= edge
            places[j] = np.int64(j) * width + (1 + ((part - first) >> shift) if counting else 0)
        share = each[i] if m < 2 else np.int64(np.float64(each[i]) / roots[m] * ROUND_DOWN)
        for j in range(columns):
            flat[np.uintp(places[j])] += share


@compiled
def add_counts(places, each, counts):  # type: ignore[no-untyped-def]
    """counts[j, places[i, j]] += each[i], except where the place is NOWHERE."""
    rows, columns = places.shape
    for i in range(rows):
        for j in range(columns):
            if places[i, j] != NOWHERE:
                counts[j, places[i, j]] += each[i]


@dataclass(frozen=True, kw_only=True)
class BucketCounts(Counts):
    """Counts of each coordinate of the units' gradients in public buckets of one width, [-bound, bound] in `buckets` parts.

    A coordinate beyond the bound counts in the end bucket; one that is not finite, and a null unit, count nowhere.

    Guarantee: a unit is in at most one bucket of each coordinate, so `squared_norm` is the number of columns. Broken by
    test_a_neighbour_moves_the_counts_by_at_most_the_sensitivity.

    Parameters
    ----------
    loss, weights : Loss, Array
        Of the gradient.
    bound : float
        The buckets' range.
    buckets : int
        How many there are of each coordinate.
    bits : int
        One count is 2^bits steps.
    draw, key : Draw, bytes
        Which records take part.
    rows : Rows or None
        Paid scales: the query is then of scaled rows.
    """

    loss: Loss
    weights: Array
    bound: float
    buckets: int
    bits: int
    draw: Draw
    key: bytes = field(repr=False)
    rows: Rows | None = None

    @property
    def squared_norm(self) -> float:
        return float(len(self.weights))

    @property
    def coordinates(self) -> int:
        return len(self.weights) * self.buckets

    def divisor(self, units: int) -> float:
        return units * self.draw.fraction

    def chunk(self, block: Block) -> Integers:
        block, width = scaled_by(self.rows, drawn_of(block, self.key, self.draw)), 2 * self.bound / self.buckets
        counts = np.zeros((len(self.weights), self.buckets), dtype=np.int64)
        for _, X, slopes, squares in gradients(block, self.weights, self.loss):
            with np.errstate(all="ignore"):
                bucket = np.floor((slopes[:, None] * X + self.bound) / width)
            counts_here = np.isfinite(bucket) & (squares[: len(X), None] > 0.0)
            places = np.where(counts_here, np.clip(np.nan_to_num(bucket), 0, self.buckets - 1), NOWHERE).astype(np.int64)
            add_counts(places, np.full(len(X), 2**self.bits), counts)
        return counts.ravel()
