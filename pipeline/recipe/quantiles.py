"""What noisy counts still tell: which bins are real, quantiles, expectations. Imports numpy and the grid of a histogram."""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.recipe.histogram import Grid
from pipeline.types import Array

WINDOW = 5
SURELY = 1.5
TAIL = 0.25


def level_of(bins: int, deviation: float) -> float:
    """What the largest of so many Gaussians stays below, but for a chance that the half added makes small."""
    return (math.sqrt(2 * math.log(max(2, bins))) + 0.5) * deviation


def significant(counts: Array, deviation: float, gap: int, among: int = 1, surely: float = SURELY) -> Array:
    """The counts that noise alone would not show: the bin, or window of five bins, that stands out most, significant bins connected to
    it, and others that stand out by far.

    An indicator lies in one bin; most residuals lie in a window of five bins of half an octave, where they stand out up to sqrt(5)
    times as clearly as in single bins. A lone bin of noise far out would set a quantile to 2^40: the one that stands out most, and any
    beyond the gap (a count's zeros can lie far from the rest), need `surely` deviations more, which at 1.5 noise passes in fewer than
    one of 10,000 histograms. `among` histograms are read together, and noise shows in none.
    """
    level = level_of(len(counts) * among, deviation)
    windows = np.convolve(counts, np.ones(WINDOW), mode="same") / math.sqrt(WINDOW)
    half = WINDOW // 2 if windows.max() > counts.max() else 0
    mode = int(windows.argmax() if half else counts.argmax())
    if not max(windows.max(), counts.max()) > level + surely * deviation:
        return np.zeros(len(counts))
    first, last = max(0, mode - half), min(len(counts) - 1, mode + half)
    kept = counts > level + surely * deviation
    kept[first : last + 1] = True
    for direction, edge in ((1, last), (-1, first)):
        place = edge + direction
        while 0 <= place < len(counts) and abs(place - edge) <= gap:
            if counts[place] > level:
                kept[place], edge = True, place
            place += direction
    return np.where(kept, np.maximum(counts, 0.0), 0.0)


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

        What the noise hides: records in no significant bin lie below or above the visible ones. Half of them, but in the next bin no
        more than would have been seen there, are put above the last visible bin, falling to a quarter with each octave (as of a
        distribution that barely has a variance), so that a threshold is not chosen as if the tail were not there.
        """
        seen = significant(counts, deviation, gap=3)
        if not seen.any():
            return None
        above = np.arange(int(np.flatnonzero(seen)[-1]) + 1, grid.bins)
        decay = TAIL ** (grid.step * np.arange(len(above)))
        hidden = min(max(0.0, units - seen.sum()) / 2, level_of(grid.bins, deviation) * decay.sum())
        seen[above] += hidden * decay / max(decay.sum(), 1.0)
        return cls(grid=grid, shares=seen / seen.sum())

    def quantile(self, level: float) -> float:
        return quantile(self.shares, self.grid, level) or float(self.grid.edges[0])

    def finer(self, parts: int) -> "Sizes":
        """The same on bins divided into so many, each with as much of its bin."""
        grid = Grid(low=self.grid.low, step=self.grid.step / parts, bins=self.grid.bins * parts)
        return Sizes(grid=grid, shares=np.repeat(self.shares / parts, parts))

    def below(self, bounds: Array) -> Array:
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
