"""Where to clip a residual, from a paid distribution of residuals: bias against noise. Imports numpy and quantiles."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.methods.auto.quantiles import Sides, Sizes
from nightfit.types import Array

LOWEST_QUANTILE = 0.35
LEAST_INSIDE = 0.3
DIRECTION, PROPORTIONAL, UNSURE = 0.1, 0.3, 0.25


def _allowed(residuals: Sizes, most: float) -> Array:
    """Candidate thresholds: upper edges of the bins from the 0.35 quantile up to `most` (one at least). Below a third of all
    residuals the clipped loss is the absolute one, whose curvature the steps do not know."""
    bounds = residuals.grid.upper
    kept = bounds[(bounds >= residuals.quantile(LOWEST_QUANTILE)) & (bounds <= most)]
    return kept if len(kept) else np.array([residuals.quantile(LOWEST_QUANTILE)])


def for_means(residuals: Sizes, units: int, columns: int, noise: float, signal: float, counts: float, most: float) -> float:
    """The clip c that minimises the prediction error of slopes, before their scale is asked for:

    e + a S / (a + S) + counts S lost^2, with e = (E min(r^2, c^2) / n + (noise c)^2) / P(|r| <= c)^2, a = columns e and lost =
    E |r| 1(|r| > c) / E |r|.

    a is the error of all slopes before shrinkage (sampling, and noise, which is that of a unit clip); shrinkage caps it by the signal S
    there is, but not e, the intercept's. If the sizes of residuals grow in proportion to predictions, a clip takes `lost` from the
    slopes; where the scale is asked for afterwards a tenth of that counts, because a clip hardly turns slopes.
    """
    bounds = _allowed(residuals, most)
    one = (residuals.squares(bounds) / units + (noise * bounds) ** 2) / inside(residuals, bounds) ** 2
    slopes = columns * one
    risk = one + slopes * signal / (slopes + signal) + counts * signal * residuals.lost(bounds) ** 2
    return float(bounds[risk.argmin()])


def inside(residuals: Sizes, bounds: Array) -> Array:
    """P(|r| <= c), the slope of the clipped loss over that of the loss; 0.3 at least, below which noise makes it too uncertain."""
    return np.maximum(residuals.cdf(bounds), LEAST_INSIDE)


def for_scales(residuals: Sides, noise: float, wide: float, size: float) -> tuple[float, float]:
    """The ends b < c of the interval in which residuals are left as they are that minimise the error of level and scale, with
    h = (c - b) / 2 half its length and m = (b + c) / 2 its middle, because a number in [b, c] is told with the noise of h.

    Level: (E(r - c)_+ - E(b - r)_+)^2 + (noise h)^2, and a quarter of the squares of both, because tails are known badly. Scale:
    o S / (o + S) + S lost^2, with o = (wide noise)^2 (h^2 + 2 (m - E r)^2) and S = size^2 the variance of predictions: a slope is the
    product of deviations from means, and the residual's is m - E r away. `lost`, E |r| outside over E |r|, counts for 0.3: sizes of
    residuals that grow in proportion to predictions are the worst case.
    """
    ends = Intervals.of(residuals)
    level = (ends.above - ends.below) ** 2 + UNSURE * (ends.above**2 + ends.below**2) + (noise * ends.half) ** 2
    signal, mean = size**2, residuals.mean
    off = (wide * noise) ** 2 * (ends.half**2 + 2 * (ends.middle - mean) ** 2)
    scale = off * signal / (off + signal + 1e-300) + PROPORTIONAL * signal * ends.lost**2
    return ends.best(level + scale)


def for_intercepts(residuals: Sides, noise: float) -> tuple[float, float]:
    """The ends b < c that minimise the squared error of a mean, (E(r - c)_+ + E(b - r)_+)^2 + (noise (c - b) / 2)^2."""
    ends = Intervals.of(residuals)
    return ends.best((ends.above + ends.below) ** 2 + (noise * ends.half) ** 2)


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """All intervals [b, c] between edges of bins that hold a third of the residuals at least: a row for each b, a column for each c.

    Half the length, the middle, E(r - c)_+, E(b - r)_+ and E |r| outside over E |r|.
    """

    ends: Array
    allowed: npt.NDArray[np.bool_]
    above: Array
    below: Array
    lost: Array

    @classmethod
    def of(cls, residuals: Sides) -> "Intervals":
        ends, values, masses = residuals.ends, residuals.values, residuals.masses
        under, sizes = values < ends[:, None], masses * np.abs(values)
        inside = under @ masses
        held = (inside[None, :] - inside[:, None] >= LOWEST_QUANTILE) & (ends[None, :] > ends[:, None])
        return cls(
            ends=ends,
            allowed=held,
            above=(np.maximum(values - ends[:, None], 0.0) @ masses)[None, :],
            below=(np.maximum(ends[:, None] - values, 0.0) @ masses)[:, None],
            lost=((~under @ sizes)[None, :] + (under @ sizes)[:, None]) / sizes.sum(),
        )

    @property
    def half(self) -> Array:
        return (self.ends[None, :] - self.ends[:, None]) / 2

    @property
    def middle(self) -> Array:
        return (self.ends[None, :] + self.ends[:, None]) / 2

    def best(self, risk: Array) -> tuple[float, float]:
        first, last = np.unravel_index(np.where(self.allowed, risk, np.inf).argmin(), risk.shape)
        return float(self.ends[first]), float(self.ends[last])


def for_medians(residuals: Sizes, units: int, noise: float, most: float) -> float:
    """The clip c that minimises the variance of a Huber estimate, [E min(r^2, c^2) / n + (noise c)^2] / P(|r| <= c)^2."""
    bounds = _allowed(residuals, most)
    slope = np.maximum(residuals.cdf(bounds), 1e-3)
    return float(bounds[((residuals.squares(bounds) / units + (noise * bounds) ** 2) / slope**2).argmin()])


def for_norms(norms: Sizes, noise: float, sampling: float) -> float:
    """The cap R on rows' norms that minimises the variance of a slope, (noise R / h)^2 + sampling / h, h = E min(||z||, R)^2 / E||z||^2.

    Rows beyond R weigh R^2 / ||z||^2, so h is the curvature that is left of one: a small cap has little noise and little curvature.
    Where all rows have one norm it is that norm. `noise` is that of a unit cap, `sampling` what drawing other records does.
    """
    norms = norms.finer()
    bounds = norms.grid.upper[np.cumsum(norms.shares) >= LOWEST_QUANTILE]
    left = norms.squares(bounds) / norms.squares(np.array([np.inf]))
    return float(bounds[((noise * bounds / left) ** 2 + sampling / left).argmin()])
