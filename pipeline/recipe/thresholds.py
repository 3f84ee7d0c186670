"""Where to clip a residual, from a paid distribution of residuals: bias against noise. Imports numpy and quantiles."""

import numpy as np

from pipeline.recipe.quantiles import Sizes
from pipeline.types import Array

LOWEST_QUANTILE = 0.35


def _allowed(residuals: Sizes, most: float) -> Array:
    """Candidate thresholds: upper edges of the bins from the 0.35 quantile up to `most` (one at least). Below a third of all
    residuals the clipped loss is the absolute one, whose curvature the steps do not know."""
    bounds = residuals.grid.upper
    kept = bounds[(bounds >= residuals.quantile(LOWEST_QUANTILE)) & (bounds <= most)]
    return kept if len(kept) else np.array([residuals.quantile(LOWEST_QUANTILE)])


def for_means(residuals: Sizes, units: int, columns: int, noise: float, intercept_noise: float, signal: float, most: float) -> float:
    """The clip c that minimises the prediction error of a fit of conditional means:

    a S / (a + S) + (E(|r| - c)_+)^2 + (intercept_noise c)^2, with a = columns (E min(r^2, c^2) / n + (noise c)^2).

    a is the error of all slopes before shrinkage (sampling and noise); shrinkage caps it by the signal S there is; the bias of
    clipping moves the intercept. Both noises are those of a unit clip.
    """
    bounds = _allowed(residuals, most)
    slopes = columns * (residuals.squares(bounds) / units + (noise * bounds) ** 2)
    risk = slopes * signal / (slopes + signal) + residuals.beyond(bounds) ** 2 + (intercept_noise * bounds) ** 2
    return float(bounds[risk.argmin()])


def for_medians(residuals: Sizes, units: int, noise: float, most: float) -> float:
    """The clip c that minimises the variance of a Huber estimate, [E min(r^2, c^2) / n + (noise c)^2] / P(|r| <= c)^2."""
    bounds = _allowed(residuals, most)
    inside = np.maximum(residuals.below(bounds), 1e-3)
    return float(bounds[((residuals.squares(bounds) / units + (noise * bounds) ** 2) / inside**2).argmin()])


def for_intercepts(residuals: Sizes, noise: float, most: float) -> float:
    """The clip c that minimises the squared error of a mean, (E(|r| - c)_+)^2 + (noise c)^2."""
    bounds = _allowed(residuals, most)
    return float(bounds[(residuals.beyond(bounds) ** 2 + (noise * bounds) ** 2).argmin()])


def for_norms(norms: Sizes, noise: float, sampling: float) -> float:
    """The cap R on rows' norms that minimises the variance of a slope, (noise R / h)^2 + sampling / h, h = E min(||z||, R)^2 / E||z||^2.

    Rows beyond R weigh R^2 / ||z||^2, so h is the curvature that is left of one: a small cap has little noise and little curvature.
    Where all rows have one norm it is that norm. `noise` is that of a unit cap, `sampling` what drawing other records does.
    """
    bounds = norms.grid.upper[np.cumsum(norms.shares) >= LOWEST_QUANTILE]
    left = norms.squares(bounds) / norms.squares(np.array([np.inf]))
    return float(bounds[((noise * bounds / left) ** 2 + sampling / left).argmin()])
