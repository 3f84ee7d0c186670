"""Minimisers of hashed blocks of records, and the smooth sensitivity of their centre. Imports problem, base and below."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import margins
from nightfit.numerics.prf import Slots, groups_of
from nightfit.problem.accelerated import minimise, nesterov
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.queries.base import SMOOTHNESS_SLACK, Summed
from nightfit.queries.rows import Rows, scaled_by
from nightfit.types import WHOLE, Array, Block, Integers, Part

MINIMISER_BITS = 30
"""The radius is 2^30 steps: distances between points are exact in float64 up to 2^22 columns, and rounding is below any noise."""

ITERATIONS = 300
"""Steps of the accelerated method. A fixed number, so that a block's minimiser depends on its rows alone."""

POWER_ITERATIONS = 30
"""Steps of the power method for the largest curvature."""

ENLARGED = 1.2
"""The estimated curvature times this: after so few power iterations the estimate may be too small, and a step would diverge."""

NOT_ZERO = 1e-300
"""Added or taken as a minimum where a divisor may be zero."""


@dataclass(frozen=True, kw_only=True)
class BlockMinimisers(Summed):
    """The weights that minimise loss + penalty on each of m = `blocks` blocks of records, projected to the l2 ball of `radius`, in
    whole steps of radius / 2^30; of these, the one whose ball around the larger half of them is the smallest.

    Every row of a unit of k rows has the weight 1 / k, so that all units count the same. A block's minimiser z_b is a function of its own
    rows, ordered by slot: Nesterov's method with restarts and a fixed number of iterations. An empty block, or one whose iterates are not
    finite, has the centre 0. Integers are m x columns, and zero where a chunk has no record of a block.

    With s = `touched`, t0 = floor((m + s) / 2) + 1, r_b(t) the distance of z_b to the t-th nearest of all, itself the first, and
    q(t, j) the j-th smallest r_b(t), at most the diameter, and the diameter where t or j exceeds m:
        g = z_i with the smallest r_i(t0)
        S = max over k >= 0 of e^(-smoothness k) min(diameter, q(t0 + k s, k s + 1) + q(t0 + (k + 1) s, (k + 1) s + 1)).

    Guarantee: a unit keeps its slot and so touches s = 1 block; if it may change its id, s = 2. Let z and z' differ in s entries. The
    ball around g with radius r(t0) holds t0 entries of z, that around g' t0 of z'; 2 t0 > m + s, so they share an unchanged one and
    ||g - g'|| <= min_b r_b(t0) + min_b r'_b(t0). A ball around an unchanged entry that holds t + s entries of z holds t of z', and of
    j + s entries at least j are unchanged: q'(t, j) <= q(t + s, j + s). So min_b r'_b(t0) <= q(t0 + s, s + 1), ||g - g'|| <= S(z), and the
    k-th term of S(z') is at most the (k + 1)-th of S(z) times e^smoothness. S plus one step is as smooth, and a step is more than what
    doubles round. Printed (Wang et al. 2020, alg. 1) is a mean of the largest radii, without the diameter: not smooth. Broken by
    test_the_bound_of_the_aggregate_is_smooth_and_holds and test_the_printed_mean_of_largest_radii_is_not_smooth.

    Parameters
    ----------
    loss, penalty, features : Loss, Penalty, int
        What a block minimises; the penalty applies to the first `features` weights.
    coordinates : int
        The number of weights.
    radius : float
        Of the ball that minimisers are projected to.
    blocks, touched : int
        m and s.
    smoothness : float
        The exponent of the smooth bound.
    key, draw : bytes, Part
        The run's key, from which blocks are drawn, and which records take part.
    rows : Rows or None
        Paid scales: the query is then of scaled rows.
    """

    loss: Loss
    penalty: Penalty
    features: int
    coordinates: int
    radius: float
    blocks: int
    touched: int
    smoothness: float
    key: bytes = field(default=b"", repr=False)
    draw: Part = WHOLE
    rows: Rows | None = None

    def __post_init__(self) -> None:
        if not (
            math.isfinite(self.radius)
            and self.radius > 0
            and self.blocks >= 1
            and self.touched >= 1
            and self.smoothness > 2 * SMOOTHNESS_SLACK
        ):
            raise ValueError("block minimisers need a positive finite radius, blocks, touched >= 1 and a positive smoothness")
        if len(self.key) != 16:
            raise ValueError("blocks are drawn from the run's key of 16 bytes")

    @property
    def grid(self) -> float:
        return self.radius / 2.0**MINIMISER_BITS

    def block_of(self, slots: Slots) -> Integers:
        return groups_of(self.key, self.blocks, slots)

    def chunk(self, block: Block) -> Integers:
        """The minimisers of the blocks in this chunk, which holds all records of each."""
        block = scaled_by(self.rows, block)
        of_row = self.block_of(block.slots)
        order = ordered(block, of_row)
        edges = np.searchsorted(of_row[order], np.arange(self.blocks + 1))
        out = np.zeros((self.blocks, self.coordinates), dtype=np.int64)
        shares = 1 / block.rows_of_unit
        for number, (start, stop) in enumerate(itertools.pairwise(edges)):
            if start < stop:
                rows = order[start:stop]
                fitted = minimiser(self.loss, self.penalty, self.features, block.X[rows], block.y[rows], shares[rows])
                out[number] = self._steps(fitted)
        return out

    def _steps(self, weights: Array) -> Integers:
        """The weights projected to the ball, in whole steps: their norm is at most 2^30 + sqrt(columns) / 2."""
        inside = projected(weights, self.radius)
        return np.rint(inside * (2.0**MINIMISER_BITS / self.radius)).astype(np.int64)

    def finalise(self, total: Integers) -> tuple[Array, Array]:
        diameter = 2 * (2.0**MINIMISER_BITS + math.sqrt(self.coordinates))
        place, bound = centre(total, self.touched, self.smoothness - SMOOTHNESS_SLACK, diameter)
        return total[place] * self.grid, np.full(self.coordinates, (bound + 1) * self.grid)


def centre(points: Integers, touched: int, smoothness: float, diameter: float) -> tuple[int, float]:
    """(i, S) of the guarantee of BlockMinimisers, in the points' units."""
    many = len(points)
    half = (many + touched) // 2 + 1
    if half > many:
        return 0, diameter
    radii = _distances(points)
    radii.sort(axis=1)
    place = int(np.argmin(radii[:, half - 1]))
    ranked = np.sort(radii[:, half - 1 :: touched], axis=0)
    reached = [ranked[k * touched, k] if k * touched < many else diameter for k in range(ranked.shape[1])]
    q = np.minimum([*reached, diameter, diameter], diameter)
    terms = np.minimum(q[:-1] + q[1:], diameter) * np.exp(-smoothness * np.arange(len(q) - 1))
    return place, float(terms.max())


def projected(weights: Array, radius: float) -> Array:
    """The vector of the ball that is nearest to `weights`; zero if any coordinate is not finite."""
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(weights))
    if not np.isfinite(weights).all() or not math.isfinite(norm):
        return np.zeros_like(weights)
    return weights * min(1.0, radius / norm) if norm > 0 else weights


@np.errstate(all="ignore")
def minimiser(loss: Loss, penalty: Penalty, features: int, X: Array, y: Array, shares: Array) -> Array:
    """argmin_w sum_i share_i loss(y_i, x_i.w) / sum_i share_i + penalty(w without the intercept), by ITERATIONS steps of Nesterov's method
    with restarts where the momentum points uphill (O'Donoghue, Candes 2015, sec. 3.2).

    The result depends on the rows, in their order, and on nothing else: products and sums are taken one after the other.
    """
    columns, shares = X.shape[1], shares * (len(y) / _total(shares))
    products, squares, gradient = np.empty(len(y)), np.empty(len(y)), np.empty(columns)
    step = 1 / max(loss.smoothness * _curvature(X, shares, products, squares, gradient), NOT_ZERO)

    def slope_at(weights: Array) -> Array:
        margins(X, weights, products, squares)
        _mean_of(X, shares * loss.slope(y, products), gradient)
        return gradient

    return minimise(slope_at, penalty, features, np.zeros(columns), step, iterations=ITERATIONS, momentum=nesterov)


def _curvature(X: Array, shares: Array, products: Array, squares: Array, out: Array) -> float:
    """The largest eigenvalue of X' diag(shares) X / rows by the power method, enlarged by a fifth; at most the trace."""
    vector = np.cos(np.arange(1.0, X.shape[1] + 1))
    value = 0.0
    for _ in range(POWER_ITERATIONS):
        margins(X, vector, products, squares)
        _mean_of(X, shares * products, out)
        value = float(np.abs(out).max())
        vector = out / max(value, NOT_ZERO)
    margins(X, vector, products, squares)
    rayleigh = _total(shares * products * products) / max(_total(vector * vector) * len(products), NOT_ZERO)
    return min(ENLARGED * rayleigh, _total(shares * squares) / len(products))


def ordered(block: Block, of_row: Integers) -> Integers:
    """The order of rows by block, then slot, then (where records share a slot) values: never the order of arrival. A person's rows keep
    their order, which was fixed when they were brought together.
    """
    by_slot = np.lexsort((block.slots, of_row))
    if block.starts is not None:
        return by_slot
    slots = block.slots[by_slot]
    if not (slots[1:] == slots[:-1]).any():
        return by_slot
    return np.lexsort((*block.X.T, block.y, block.slots, of_row))


@compiled
def _mean_of(X, slopes, out):  # type: ignore[no-untyped-def]
    """out = (1 / rows) sum_i slopes[i] X[i]."""
    rows, columns = X.shape
    out[:] = 0.0
    for i in range(rows):
        for j in range(columns):
            out[j] += slopes[i] * X[i, j]
    out /= rows


@compiled
def _total(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for value in values:
        total += value
    return total


@compiled
def _distances(points):  # type: ignore[no-untyped-def]
    many, columns = points.shape
    out = np.zeros((many, many))
    for a in range(many):
        for b in range(a):
            total = 0.0
            for j in range(columns):
                difference = np.float64(points[a, j] - points[b, j])
                total += difference * difference
            out[a, b] = out[b, a] = np.sqrt(total)
    return out
