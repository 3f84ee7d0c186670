"""Trimmed means of each coordinate of the gradients, with their smooth sensitivity. Imports kernels and below."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import rint
from nightfit.problem.losses import Loss
from nightfit.queries.base import SMOOTHNESS_SLACK, drawn_of
from nightfit.queries.kernels import gradients
from nightfit.queries.rows import Rows, scaled_by
from nightfit.types import WHOLE, Array, Block, Integers, Part

ABSENT = 2**62
"""Stands for a value that a chunk does not have: larger than every value, and its negation still fits in int64."""


@dataclass(frozen=True, kw_only=True)
class TrimmedGradients:
    """Per coordinate, the mean of all but the m = `trimmed` smallest and the m largest of the units' gradients, each clipped to
    [-bound, bound] and rounded to whole steps; and the smallest `smoothness`-smooth bound of how far a neighbour moves it.

    A chunk's integers are, per coordinate, its m + 1 smallest values, its m + 1 largest ones (ABSENT where it has fewer units), their
    sum and the number of units: what merges exactly, in any order, and suffices for the answer.

    A part's number of units may change with a replaced unit's id. So fewer than `expected` units are filled up with zeros, and the bound
    divides by the fewest middle values that there can be, W = expected - 2m.

    With n values x_(1) <= ... <= x_(n), x_(i) = -bound for i < 1 and bound for i > n, w = n - 2m, H_q = x_(n-m+q), L_p = x_(m+1-p):
        f = (x_(m+1) + ... + x_(n-m)) / w
        S = max over p, q >= 0 with p + q >= 1 of e^(-smoothness (p + q - 1)) (H_q - L_p) / W.
    Neither p nor q beyond m + 1 adds anything (Bun, Steinke 2019, sec. 3.1; (n - 2m) LS at distance k is the maximum at k = p + q - 1).

    Guarantee: let one value rise to make x' of x (a fall is the mirror image). Every order statistic rises, to the next one at most:
    x_(i) <= x'_(i) <= x_(i+1). So 0 <= w (f' - f) <= sum x_(i+1) - x_(i) = H_1 - L_0 <= W S(x), W <= w. H'_q - L'_p <= H_(q+1) - L_p, whose
    exponent is larger by one, hence S(x') <= e^smoothness S(x); from x' the value falls, and H_q - L_p <= H'_q - L'_(p+1) gives
    S(x) <= e^smoothness S(x') and f' - f <= S(x'). S plus one step is as smooth, and a step is more than what doubles round.
    A unit that leaves where n <= expected becomes a zero: one value changes. Where n > expected, let x' be x without its value of rank r:
    x'_(i) is x_(i) for i < r and x_(i+1) from there on. f' - f = (f - v) / (w - 1) for a v in [L_0, H_0], so it is at most
    (H_0 - L_0) / W <= S(x); and with f' in [L'_0, H'_0] and v in [L'_1, L'_0], [L'_0, H'_0] or [H'_0, H'_1] also
    |v - f'| / w <= S(x'). H'_q - L'_p <= H_q - L_p, so S(x') <= S(x). H_q is H'_q or, only if r is at the upper end, at most H'_(q+1);
    L_p is L'_p or, only if r is at the lower end, at least L'_(p+1); not both, so S(x) <= e^smoothness S(x'). One pair of smoothness and
    shift serves replacements and removals. n is not released.
    The printed scale (Wang et al. 2020, alg. 2) is not smooth. Broken by test_the_bound_of_a_trimmed_mean_is_smooth_and_holds and
    test_one_huge_record_shows_with_the_printed_scale_and_not_with_ours; for a unit that comes or goes, by
    test_the_bound_of_a_trimmed_mean_holds_for_a_unit_that_leaves.

    Parameters
    ----------
    loss, weights : Loss, Array
        Of the gradient.
    bound, bits : float, int
        Coordinates are clipped to the bound, which is 2^bits steps.
    trimmed : int
        m.
    expected : int
        The public number of units that is expected, above 2m.
    smoothness : float
        The exponent of the smooth bound.
    key, draw : bytes, Part
        Which records take part.
    rows : Rows or None
        Paid scales: the query is then of scaled rows.
    """

    reads_codes: ClassVar[bool] = False
    loss: Loss
    bound: float
    weights: Array
    bits: int
    trimmed: int
    expected: int
    smoothness: float
    key: bytes = field(default=b"", repr=False)
    draw: Part = WHOLE
    rows: Rows | None = None

    def __post_init__(self) -> None:
        if self.trimmed < 0 or not self.smoothness > 2 * SMOOTHNESS_SLACK:
            raise ValueError("a trimmed mean needs trimmed >= 0 and a positive smoothness")
        if self.expected <= 2 * self.trimmed:
            raise ValueError(f"{self.expected} expected units leave nothing between {self.trimmed} trimmed at either end")

    @property
    def coordinates(self) -> int:
        return len(self.weights)

    @property
    def grid(self) -> float:
        return self.bound / 2.0**self.bits

    def chunk(self, block: Block) -> Integers:
        """Row j: the kept smallest, ascending; the kept largest, ascending; the sum; the count."""
        block = scaled_by(self.rows, drawn_of(block, self.key, self.draw))
        columns = block.X.shape[1]
        kept = self.trimmed + 1
        room = min(2 * kept, kept + max(1, block.units))
        low = np.full((columns, room), ABSENT, dtype=np.int64)
        high = np.full((columns, room), ABSENT, dtype=np.int64)  # of negated values: the largest become the smallest
        held_low, held_high = np.full(columns, kept), np.full(columns, kept)
        sums = np.zeros(columns, dtype=np.int64)
        for _, X, slopes, _ in gradients(block, self.weights, self.loss):
            _collect(X, slopes, 2.0**self.bits / self.bound, 2.0**self.bits, kept, low, held_low, high, held_high, sums)
        return _joined(_smallest(low, kept), _smallest(high, kept), sums, np.full(columns, block.units))

    def merge(self, one: Integers, other: Integers) -> Integers:
        kept = self.trimmed + 1
        low = np.concatenate([one[:, :kept], other[:, :kept]], axis=1)
        high = np.concatenate([-one[:, kept : 2 * kept], -other[:, kept : 2 * kept]], axis=1)
        return _joined(_smallest(low, kept), _smallest(high, kept), one[:, -2] + other[:, -2], one[:, -1] + other[:, -1])

    def finalise(self, total: Integers) -> tuple[Array, Array]:
        m, kept, top = self.trimmed, self.trimmed + 1, 2**self.bits
        units = max(int(total[0, -1]), self.expected)
        zeros = np.zeros((self.coordinates, min(kept, units - int(total[0, -1]))), dtype=np.int64)
        low = _smallest(np.hstack([total[:, :kept], zeros]), kept)
        high = -_smallest(np.hstack([-total[:, kept : 2 * kept], zeros]), kept)[:, ::-1]
        middle = total[:, -2] - low[:, :m].sum(axis=1) - high[:, 1:].sum(axis=1)
        edge = np.full((self.coordinates, 1), top)
        largest, smallest = np.hstack([high, edge]), np.hstack([low[:, ::-1], -edge])
        spans = np.array([widest(*pair, self.smoothness - SMOOTHNESS_SLACK) for pair in zip(largest, smallest, strict=True)])
        return middle / (units - 2 * m) * self.grid, (spans / (self.expected - 2 * m) + 1) * self.grid


def widest(largest: Integers, smallest: Integers, smoothness: float) -> float:
    """max over p, q >= 0, p + q >= 1, of e^(-smoothness (p + q - 1)) (largest[q] - smallest[p]), for `largest` ascending and `smallest`
    descending.

    For a fixed p the best q falls as p rises: e^(-s q) (H_q - L) - e^(-s r) (H_r - L) is monotone in L. So the best q of the middle p
    halves the range that the other p must search: O(m log m) differences of whole numbers.
    """
    discount = np.exp(-smoothness * np.arange(len(largest) + len(smallest)))
    return max(_best(largest[1:], smallest[:1], discount), _best(largest, smallest[1:], discount))


@compiled
def _best(largest, smallest, discount):  # type: ignore[no-untyped-def]
    """max over p, q of discount[p + q] (largest[q] - smallest[p])."""
    best = 0.0
    waiting = [(0, len(smallest) - 1, 0, len(largest) - 1)]
    while len(waiting) > 0:
        first, last, least, most = waiting.pop()
        if first > last:
            continue
        p = (first + last) // 2
        found, place = -1.0, least
        for q in range(least, most + 1):
            value = discount[p + q] * (largest[q] - smallest[p])
            if value > found:
                found, place = value, q
        best = max(best, found)
        waiting.append((first, p - 1, place, most))
        waiting.append((p + 1, last, least, place))
    return best


def _joined(low: Integers, negated: Integers, sums: Integers, rows: Integers) -> Integers:
    return np.column_stack([low, -negated[:, ::-1], sums, rows])


def _smallest(values: Integers, kept: int) -> Integers:
    """The `kept` smallest of each row, ascending."""
    return np.sort(np.partition(values, kept - 1, axis=1)[:, :kept], axis=1)


@compiled
def _collect(X, slopes, steps, top, kept, low, held_low, high, held_high, sums):  # type: ignore[no-untyped-def]
    """Add a tile's values. low[j] holds the `kept` smallest values of the last cut, the largest of them last, then candidates since."""
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    edge = np.uintp(kept - 1)
    for i in range(rows):
        slope = slopes[i] * steps
        for j in range(columns):
            step = rint(slope * X[i, j])
            step = min(max(step, -top), top)
            value = np.int64(step) if step == step else np.int64(0)
            sums[j] += value
            if value < low[j, edge]:
                held_low[j] = _kept(value, kept, low[j], held_low[j])
            if -value < high[j, edge]:
                held_high[j] = _kept(-value, kept, high[j], held_high[j])


@compiled
def _kept(value, kept, held, count):  # type: ignore[no-untyped-def]
    """Append a candidate to the `count` values held, and cut to the `kept` smallest when the buffer is full; returns the new count."""
    held[count] = value
    if count + 1 < len(held):
        return count + 1
    held.sort()  # Numba compiles np.partition for six seconds
    held[kept:] = ABSENT
    return kept
