"""Distributions of norms and residuals, read from noisy histograms. Imports noisy_histograms, numpy and scipy."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from nightfit.methods.auto.constants.histograms import (
    BIN_PARTS,
    MISSING_MARGIN,
    SIGNIFICANCE_MARGIN,
    TAIL_DECAY,
    TAIL_EXCESS,
    WINDOW_PRICE,
)
from nightfit.methods.auto.constants.labels import BISECTIONS
from nightfit.methods.auto.constants.numerical import POSITIVE, SMALLEST_BIN
from nightfit.methods.auto.noisy_histograms import noise_level, significant
from nightfit.queries.magnitudes import LogGrid
from nightfit.types import Array


def quantile(counts: Array, grid: LogGrid, level: float) -> float | None:
    """The level-quantile of non-negative counts, interpolated in the logarithm inside its bin; None if all are zero."""
    total = counts.sum()
    if not total > 0:
        return None
    cumulative = np.cumsum(counts) / total
    place = min(int(np.searchsorted(cumulative, level)), len(counts) - 1)
    below = cumulative[place - 1] if place else 0.0
    inside = (level - below) / max(cumulative[place] - below, SMALLEST_BIN)
    return float(grid.edges[place] * 2.0 ** (grid.step * min(max(inside, 0.0), 1.0)))


def _with_hidden(visible: Array, hidden: float, grid: LogGrid, deviation: float) -> Array:
    """The visible counts with the records that noise may hide above and below them, so that no threshold is chosen as if there were none.

    Above: half of the hidden records, falling to a quarter with each octave. The first bin there has no more than the noise level, nor
    more than three times what such a fall leaves of the last visible one. Below: the rest, as dense as the first visible bin at most,
    which gives each bin 2^-step of the next.
    """
    filled, first, last = visible.copy(), int(np.flatnonzero(visible)[0]), int(np.flatnonzero(visible)[-1])
    above, hidden = np.arange(last + 1, grid.bins), max(0.0, hidden)
    decay = TAIL_DECAY ** (grid.step * np.arange(len(above)))
    most = min(noise_level(grid.bins, deviation), TAIL_EXCESS * float(visible[last]) * TAIL_DECAY**grid.step)
    tail = min(hidden / 2, most * decay.sum())
    filled[above] += tail * decay / max(decay.sum(), 1.0)
    dense = float(visible[first]) * 2.0 ** (-grid.step * np.arange(first, 0, -1))
    filled[:first] += dense * min(1.0, (hidden - tail) / max(dense.sum(), POSITIVE))
    return filled


@dataclass(frozen=True, kw_only=True)
class MagnitudeDistribution:
    """A distribution of magnitudes on the bins of a grid: shares that add to one.

    Expectations take every record at the middle of its bin.
    """

    grid: LogGrid
    shares: Array

    @classmethod
    def of(cls, counts: Array, grid: LogGrid, deviation: float, units: float) -> "MagnitudeDistribution | None":
        """From noisy counts of `units` records; None if none is significant."""
        visible = significant(counts, deviation, units, price=WINDOW_PRICE)
        if not visible.any():
            return None
        filled = _with_hidden(visible, units - visible.sum(), grid, deviation)
        return cls(grid=grid, shares=filled / filled.sum())

    def quantile(self, level: float) -> float:
        return quantile(self.shares, self.grid, level) or float(self.grid.edges[0])

    def finer(self) -> "MagnitudeDistribution":
        """The same with each bin divided evenly into four."""
        grid = LogGrid(low=self.grid.low, step=self.grid.step / BIN_PARTS, bins=self.grid.bins * BIN_PARTS)
        return MagnitudeDistribution(grid=grid, shares=np.repeat(self.shares / BIN_PARTS, BIN_PARTS))

    def smoothed(self, parts: int) -> "MagnitudeDistribution":
        """The same with bins divided into so many parts: the distribution function is interpolated by monotone cubics."""
        grid = LogGrid(low=self.grid.low, step=self.grid.step / parts, bins=self.grid.bins * parts)
        until = PchipInterpolator(np.arange(self.grid.bins + 1), np.r_[0.0, np.cumsum(self.shares)])
        return MagnitudeDistribution(grid=grid, shares=np.maximum(np.diff(until(np.arange(grid.bins + 1) / parts)), 0.0))

    def cdf(self, bounds: Array) -> Array:
        """P(magnitude <= bound)."""
        return (self.grid.middles <= bounds[:, None]) @ self.shares

    def squares(self, bounds: Array) -> Array:
        """E min(magnitude, bound)^2."""
        return np.minimum(self.grid.middles, bounds[:, None]) ** 2 @ self.shares

    def lost(self, bounds: Array) -> Array:
        """E magnitude 1(magnitude > bound) / E magnitude."""
        return (self.grid.middles > bounds[:, None]) @ (self.shares * self.grid.middles) / (self.shares @ self.grid.middles)

    def label_variance(self) -> float:
        """E p (1 - p), where the magnitude of a label's residual is 1 - P(the label)."""
        middles = np.minimum(self.grid.middles, 1.0)
        return float(self.shares @ (middles * (1 - middles)))

    @property
    def mean(self) -> float:
        """E magnitude."""
        return float(self.shares @ self.grid.middles)


@dataclass(frozen=True, kw_only=True)
class SignedDistribution:
    """The distribution of residuals: those above zero, the magnitudes of those below, and the share of records above."""

    above: MagnitudeDistribution
    below: MagnitudeDistribution
    share: float

    @classmethod
    def of(
        cls, counts: Array, grid: LogGrid, deviation: float, units: float, if_missing: float = SIGNIFICANCE_MARGIN
    ) -> "SignedDistribution | None":
        """From noisy counts of both signs; None if none is significant.

        If one sign has no significant bin, the records that noise may hide there have the magnitudes of the other. If records are surely
        missing from the significant bins, windows are read again with the margin `if_missing`.
        """

        def standing_out(margin: float) -> list[Array]:
            return [significant(row, deviation, units, among=2, margin=margin, price=WINDOW_PRICE) for row in counts.reshape(2, -1)]

        visible = standing_out(SIGNIFICANCE_MARGIN)
        if units - np.sum(visible) > MISSING_MARGIN * deviation * math.sqrt(np.count_nonzero(visible) or 1):
            visible = standing_out(if_missing)
        if not any(sign.any() for sign in visible):
            return None
        hidden = max(0.0, units - sum(float(sign.sum()) for sign in visible))
        if not all(sign.any() for sign in visible):
            few = min(max(hidden, deviation), units / 2)
            visible = [sign if sign.any() else few * other / other.sum() for sign, other in zip(visible, visible[::-1], strict=True)]
            hidden = max(0.0, hidden - few)
        above, below = (_with_hidden(sign, hidden / 2, grid, deviation) for sign in visible)
        share = float(above.sum() / (above.sum() + below.sum()))
        return cls(
            above=MagnitudeDistribution(grid=grid, shares=above / above.sum()),
            below=MagnitudeDistribution(grid=grid, shares=below / below.sum()),
            share=share,
        )

    @classmethod
    def symmetric(cls, magnitudes: MagnitudeDistribution) -> "SignedDistribution":
        """Of residuals whose sign is not known."""
        return cls(above=magnitudes, below=magnitudes, share=0.5)

    @property
    def cumulative(self) -> tuple[Array, Array]:
        """Edges of bins, ascending, and the share of records below each."""
        edges = np.r_[-self.below.grid.upper[::-1], 0.0, self.above.grid.upper]
        return edges, np.r_[0.0, np.cumsum(self.masses)]

    def quantile(self, level: float) -> float:
        """The value below which the share `level` of records lies, evenly spread inside a bin."""
        edges, below = self.cumulative
        return float(np.interp(level, below, edges))

    def share_below(self, value: float) -> float:
        """The share of records below a value."""
        edges, below = self.cumulative
        return float(np.interp(value, edges, below))

    def half_width(self, centre: float, share: float) -> float:
        """h such that the share of records lies in [centre - h, centre + h], by bisection."""
        low, high = 0.0, float(self.above.grid.upper[-1])
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            inside = self.share_below(centre + middle) - self.share_below(centre - middle)
            low, high = (low, middle) if inside >= share else (middle, high)
        return high

    def smoothed(self, parts: int) -> "SignedDistribution":
        """The same with bins divided into so many parts."""
        return replace(self, above=self.above.smoothed(parts), below=self.below.smoothed(parts))

    @property
    def ends(self) -> Array:
        """The edges of bins of both signs, ascending: where a clip may begin and end."""
        return np.r_[-self.below.grid.upper[::-1], self.above.grid.upper]

    @property
    def values(self) -> Array:
        """The middles of bins of both signs, ascending."""
        return np.r_[-self.below.grid.middles[::-1], self.above.grid.middles]

    @property
    def masses(self) -> Array:
        """The share of records at each of the values."""
        return np.r_[(1 - self.share) * self.below.shares[::-1], self.share * self.above.shares]

    @property
    def mean(self) -> float:
        """E residual."""
        return float(self.masses @ self.values)

    def range_without(self, few: float) -> tuple[float, float]:
        """The ends of the bins beyond which less than the share `few` lies on each side."""
        below, above = -self.below.grid.upper, self.above.grid.upper
        under, over = np.cumsum((1 - self.share) * self.below.shares[::-1])[::-1], np.cumsum(self.share * self.above.shares[::-1])[::-1]
        return (
            float(below[np.flatnonzero(under >= few)[-1]]) if under[0] >= few else 0.0,
            float(above[np.flatnonzero(over >= few)[-1]]) if over[0] >= few else 0.0,
        )

    @property
    def magnitudes(self) -> MagnitudeDistribution:
        """The distribution of magnitudes, whatever the sign."""
        return MagnitudeDistribution(grid=self.above.grid, shares=self.share * self.above.shares + (1 - self.share) * self.below.shares)
