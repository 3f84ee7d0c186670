"""What noisy counts still tell: which bins are real, quantiles, expectations. Imports numpy, scipy and the grid of a histogram."""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression

from nightfit.queries.histograms import Grid
from nightfit.types import Array

WIDEST = 40
UNSEEN = -1e6
SURELY = 1.5
MISSING = 4.0
PRICE = 0.5
TAIL, AT_MOST = 0.25, 3.0
FINER = 4


def level_of(bins: int, deviation: float) -> float:
    """What the largest of so many Gaussians stays below, but for a chance that the half added makes small."""
    return (math.sqrt(2 * math.log(max(2, bins))) + 0.5) * deviation


def significant(counts: Array, deviation: float, most: float, among: int = 1, surely: float = SURELY, price: float = 0.0) -> Array:
    """What noise alone would not show of counts: windows of bins that stand out by far, and the slopes beside them.

    An indicator lies in one bin, a heavy-tailed column in twenty: w bins that hold as much each stand out sqrt(w) times as clearly as one
    of them, so all windows of up to 40 bins are looked at. A lone bin of noise far out would set a quantile to 2^40: a window needs
    `surely` deviations more than the largest of noise, which at 1.5 noise passes in about one of 8,000 histograms. All counts add to
    `most` at most, so a wide window of little and much noise does not stand out by more than that. `among` histograms are read together,
    and noise shows in none. `price` is what a window pays for its width, so that mild noise beside what is there is
    not counted in: a column's scale needs little of that, a tail that sets a clip much.
    """
    level = level_of(len(counts) * among, 1.0)
    kept, left = np.zeros(len(counts), dtype=bool), counts / deviation
    while (window := _clearest(left, _rest(counts, kept, deviation, most) / deviation, level + surely, price)) is not None:
        kept[window], left[window] = True, UNSEEN
    above = np.where(kept, np.maximum(counts, 0.0), 0.0)
    shown: Array = above * (max(counts[kept].sum(), 0.0) / max(above.sum(), 1e-300))
    edges = np.flatnonzero(np.diff(kept)) + 1
    for run in np.split(np.arange(len(counts)), edges) if kept.any() else ():
        if not kept[run[0]]:
            after = _slope(counts[run], deviation, level) if run[0] > 0 else 0.0
            before = _slope(counts[run[::-1]], deviation, level)[::-1] if run[-1] < len(counts) - 1 else 0.0
            shown[run] = np.maximum(after, before)
    beside = shown[~kept].sum()
    shown[~kept] *= min(1.0, _rest(counts, kept, deviation, most) / max(beside, 1e-300))
    return shown


def _rest(counts: Array, kept: npt.NDArray[np.bool_], deviation: float, most: float) -> float:
    """What is left of `most` beside the kept counts, and two deviations of their noise more."""
    return max(0.0, most - float(counts[kept].sum()) + 2 * deviation * math.sqrt(kept.sum()))


def _clearest(counts: Array, most: float, level: float, price: float) -> slice | None:
    """Of the windows that stand out by more than the level, the one where (sum of counts) / sqrt(width) - price log(width) is largest."""
    first, after = _windows(len(counts))
    until, width = np.r_[0.0, np.cumsum(counts)], after - first
    clear = np.minimum(until[after] - until[first], most) / np.sqrt(width)
    best = int(np.where(clear > level, clear - price * np.log(width), -np.inf).argmax())
    return slice(int(first[best]), int(after[best])) if clear[best] > level else None


@cache
def _windows(bins: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The first bin of every window, and the one after its last."""
    first, width = np.meshgrid(np.arange(bins), np.arange(1, WIDEST + 1))
    inside = first + width <= bins
    return first[inside], (first + width)[inside]


def _slope(counts: Array, deviation: float, level: float) -> Array:
    """The counts beside a window as what falls with the distance from it: least squares makes that a number of steps, and those up to
    the last that stands out are kept. Counts of noise far away cannot rise above those between, so they are averaged with them.
    """
    fitted = isotonic_regression(counts, increasing=False)
    steps = np.diff(fitted.blocks)
    heights = fitted.x[fitted.blocks[:-1]]
    clear = np.flatnonzero(heights * np.sqrt(steps) > (level + np.log(steps)) * deviation)
    last = fitted.blocks[clear[-1] + 1] if len(clear) else 0
    slope: Array = np.where(np.arange(len(counts)) < last, fitted.x, 0.0)
    return slope


def _with_hidden(seen: Array, hidden: float, grid: Grid, deviation: float) -> Array:
    """What is visible and what noise may hide above and below it, so that a threshold is not chosen as if nothing were there.

    Above: half of the hidden records, falling to a quarter with each octave (as of a distribution that barely has a variance). The next
    bin has no more than would have been seen there, nor more than three times what falling so fast leaves of the last visible one, which
    is known badly. Below: the rest, but no more than if sizes were as dense there as in the first visible bin, which makes each bin below
    it 2^-step of the next.
    """
    made, first, last = seen.copy(), int(np.flatnonzero(seen)[0]), int(np.flatnonzero(seen)[-1])
    above, hidden = np.arange(last + 1, grid.bins), max(0.0, hidden)
    decay = TAIL ** (grid.step * np.arange(len(above)))
    most = min(level_of(grid.bins, deviation), AT_MOST * float(seen[last]) * TAIL**grid.step)
    put = min(hidden / 2, most * decay.sum())
    made[above] += put * decay / max(decay.sum(), 1.0)
    dense = float(seen[first]) * 2.0 ** (-grid.step * np.arange(first, 0, -1))
    made[:first] += dense * min(1.0, (hidden - put) / max(dense.sum(), 1e-300))
    return made


def quantile(counts: Array, grid: Grid, level: float) -> float | None:
    """The level-quantile of cleaned counts, interpolated in the logarithm inside its bin; None of none."""
    total = counts.sum()
    if not total > 0:
        return None
    cumulative = np.cumsum(counts) / total
    place = min(int(np.searchsorted(cumulative, level)), len(counts) - 1)
    below = cumulative[place - 1] if place else 0.0
    inside = (level - below) / max(cumulative[place] - below, 1e-12)
    return float(grid.edges[place] * 2.0 ** (grid.step * min(max(inside, 0.0), 1.0)))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A distribution of sizes on a grid's bins: shares that add to one."""

    grid: Grid
    shares: Array

    @classmethod
    def of(cls, counts: Array, grid: Grid, deviation: float, units: int) -> "Sizes | None":
        """From noisy counts of `units` records; None if nothing is significant.

        Records in no significant bin lie below or above the visible ones.
        """
        seen = significant(counts, deviation, units, price=PRICE)
        if not seen.any():
            return None
        seen = _with_hidden(seen, units - seen.sum(), grid, deviation)
        return cls(grid=grid, shares=seen / seen.sum())

    def quantile(self, level: float) -> float:
        return quantile(self.shares, self.grid, level) or float(self.grid.edges[0])

    def finer(self) -> "Sizes":
        """The same on bins divided into four, each with as much of its bin."""
        grid = Grid(low=self.grid.low, step=self.grid.step / FINER, bins=self.grid.bins * FINER)
        return Sizes(grid=grid, shares=np.repeat(self.shares / FINER, FINER))

    def smoothed(self, parts: int) -> "Sizes":
        """The same on bins divided into so many parts: counts up to a size are interpolated by monotone cubics in its logarithm."""
        grid = Grid(low=self.grid.low, step=self.grid.step / parts, bins=self.grid.bins * parts)
        until = PchipInterpolator(np.arange(self.grid.bins + 1), np.r_[0.0, np.cumsum(self.shares)])
        return Sizes(grid=grid, shares=np.maximum(np.diff(until(np.arange(grid.bins + 1) / parts)), 0.0))

    def cdf(self, bounds: Array) -> Array:
        """P(size <= bound)."""
        return (self.grid.middles <= bounds[:, None]) @ self.shares

    def squares(self, bounds: Array) -> Array:
        """E min(size, bound)^2."""
        return np.minimum(self.grid.middles, bounds[:, None]) ** 2 @ self.shares

    def beyond(self, bounds: Array) -> Array:
        """E (size - bound)_+."""
        return np.maximum(self.grid.middles - bounds[:, None], 0.0) @ self.shares

    def lost(self, bounds: Array) -> Array:
        """E size 1(size > bound) / E size."""
        return (self.grid.middles > bounds[:, None]) @ (self.shares * self.grid.middles) / (self.shares @ self.grid.middles)

    def spread_of_labels(self) -> float:
        """E size (1 - size) of sizes in [0, 1]: E p (1 - p) where size is 1 - P(the label)."""
        middles = np.minimum(self.grid.middles, 1.0)
        return float(self.shares @ (middles * (1 - middles)))

    @property
    def mean(self) -> float:
        """E size."""
        return float(self.shares @ self.grid.middles)


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Sizes above and below zero, and the share of records above."""

    above: Sizes
    below: Sizes
    share: float

    @classmethod
    def of(cls, counts: Array, grid: Grid, deviation: float, units: int, if_missing: float = SURELY) -> "Sides | None":
        """From noisy counts of both; None if nothing is significant. If nothing is on one side, what noise may hide there is as large as
        what is seen on the other. If records surely are in no visible bin (four deviations of what is in those), windows that stand out
        less are read as well: by `if_missing` deviations more than the largest of noise.
        """

        def standing_out(surely: float) -> list[Array]:
            return [significant(row, deviation, units, among=2, surely=surely, price=PRICE) for row in counts.reshape(2, -1)]

        seen = standing_out(SURELY)
        if units - np.sum(seen) > MISSING * deviation * math.sqrt(np.count_nonzero(seen) or 1):
            seen = standing_out(if_missing)
        if not any(side.any() for side in seen):
            return None
        hidden = max(0.0, units - sum(float(side.sum()) for side in seen))
        if not all(side.any() for side in seen):
            few = min(max(hidden, deviation), units / 2)
            seen = [side if side.any() else few * other / other.sum() for side, other in zip(seen, seen[::-1], strict=True)]
            hidden = max(0.0, hidden - few)
        above, below = (_with_hidden(side, hidden / 2, grid, deviation) for side in seen)
        share = float(above.sum() / (above.sum() + below.sum()))
        return cls(above=Sizes(grid=grid, shares=above / above.sum()), below=Sizes(grid=grid, shares=below / below.sum()), share=share)

    @classmethod
    def alike(cls, sizes: Sizes) -> "Sides":
        """As if both sides were."""
        return cls(above=sizes, below=sizes, share=0.5)

    def smoothed(self, parts: int) -> "Sides":
        """The same on bins divided into so many parts."""
        return replace(self, above=self.above.smoothed(parts), below=self.below.smoothed(parts))

    @property
    def ends(self) -> Array:
        """Where intervals of residuals may begin and end: the edges of bins on both sides, ascending."""
        return np.r_[-self.below.grid.upper[::-1], self.above.grid.upper]

    @property
    def values(self) -> Array:
        """The middles of bins on both sides, ascending."""
        return np.r_[-self.below.grid.middles[::-1], self.above.grid.middles]

    @property
    def masses(self) -> Array:
        """The share of records at each of the values."""
        return np.r_[(1 - self.share) * self.below.shares[::-1], self.share * self.above.shares]

    @property
    def mean(self) -> float:
        """E residual."""
        return float(self.masses @ self.values)

    def between(self, few: float) -> tuple[float, float]:
        """The ends of the bins beyond which fewer than this share lies on each side."""
        below, above = -self.below.grid.upper, self.above.grid.upper
        under, over = np.cumsum((1 - self.share) * self.below.shares[::-1])[::-1], np.cumsum(self.share * self.above.shares[::-1])[::-1]
        return (
            float(below[np.flatnonzero(under >= few)[-1]]) if under[0] >= few else 0.0,
            float(above[np.flatnonzero(over >= few)[-1]]) if over[0] >= few else 0.0,
        )

    @property
    def together(self) -> Sizes:
        return Sizes(grid=self.above.grid, shares=self.share * self.above.shares + (1 - self.share) * self.below.shares)
