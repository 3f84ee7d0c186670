"""Where to clip a residual, from a paid distribution of residuals: bias against noise. Imports numpy and quantiles."""

import numpy as np

from pipeline.recipe.quantiles import Sides, Sizes
from pipeline.types import Array

LOWEST_QUANTILE = 0.35
LEAST_INSIDE = 0.3
FINER = 4
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
    return np.maximum(residuals.below(bounds), LEAST_INSIDE)


def for_scales(residuals: Sides, noise: float, wide: float, size: float, most: float) -> tuple[float, float]:
    """The clips b and c of residuals below and above zero that minimise the error of level and scale, with h = (b + c) / 2 the half and
    m = (c - b) / 2 the middle of what is left, because a number in [-b, c] is told with the noise of h.

    Level: (E(r - c)_+ - E(-r - b)_+)^2 + (noise h)^2, and a quarter of the squares of both, because tails are known badly. Scale:
    o S / (o + S) + S lost^2, with o = (wide noise)^2 (h^2 + 2 m^2) and S = size^2 the variance of predictions: a slope is the product of
    deviations from means, and the residual's is m away. `lost` counts for 0.3: sizes of residuals that grow in proportion to predictions
    are the worst case. Neither clip is beyond `most`.
    """
    low, high = _allowed(residuals.below, most)[:, None], _allowed(residuals.above, most)[None, :]
    above, below = residuals.share * residuals.above.beyond(high[0]), (1 - residuals.share) * residuals.below.beyond(low[:, 0])
    half, middle, signal = (low + high) / 2, (high - low) / 2, size**2
    level = (above[None, :] - below[:, None]) ** 2 + UNSURE * (above[None, :] ** 2 + below[:, None] ** 2) + (noise * half) ** 2
    weights = residuals.share * residuals.above.mean, (1 - residuals.share) * residuals.below.mean
    lost = weights[0] * residuals.above.lost(high[0])[None, :] + weights[1] * residuals.below.lost(low[:, 0])[:, None]
    off = (wide * noise) ** 2 * (half**2 + 2 * middle**2)
    scale = off * signal / (off + signal + 1e-300) + PROPORTIONAL * signal * (lost / sum(weights)) ** 2
    best = np.unravel_index((level + scale).argmin(), half.shape)
    return float(low[best[0], 0]), float(high[0, best[1]])


def for_medians(residuals: Sizes, units: int, noise: float, most: float) -> float:
    """The clip c that minimises the variance of a Huber estimate, [E min(r^2, c^2) / n + (noise c)^2] / P(|r| <= c)^2."""
    bounds = _allowed(residuals, most)
    slope = np.maximum(residuals.below(bounds), 1e-3)
    return float(bounds[((residuals.squares(bounds) / units + (noise * bounds) ** 2) / slope**2).argmin()])


def for_intercepts(residuals: Sizes, noise: float) -> float:
    """The clip c that minimises the squared error of a mean, (E(|r| - c)_+)^2 + (noise c)^2."""
    bounds = _allowed(residuals, np.inf)
    return float(bounds[(residuals.beyond(bounds) ** 2 + (noise * bounds) ** 2).argmin()])


def for_norms(norms: Sizes, noise: float, sampling: float) -> float:
    """The cap R on rows' norms that minimises the variance of a slope, (noise R / h)^2 + sampling / h, h = E min(||z||, R)^2 / E||z||^2.

    Rows beyond R weigh R^2 / ||z||^2, so h is the curvature that is left of one: a small cap has little noise and little curvature.
    Where all rows have one norm it is that norm. `noise` is that of a unit cap, `sampling` what drawing other records does.
    """
    norms = norms.finer(FINER)
    bounds = norms.grid.upper[np.cumsum(norms.shares) >= LOWEST_QUANTILE]
    left = norms.squares(bounds) / norms.squares(np.array([np.inf]))
    return float(bounds[((noise * bounds / left) ** 2 + sampling / left).argmin()])
