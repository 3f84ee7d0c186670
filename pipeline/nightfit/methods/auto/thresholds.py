"""Where to clip residuals and rows, from their paid distributions: bias against noise. Imports distributions and below."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.methods.auto.constants.numerical import POSITIVE
from nightfit.methods.auto.constants.steps import (
    LEAST_HUBER_SLOPE,
    LEAST_INSIDE,
    LOWEST_CLIP_QUANTILE,
    SCALE_LOSS,
    TAIL_DOUBT,
)
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.types import Array


def _candidates(residuals: MagnitudeDistribution, most: float) -> Array:
    """The upper edges of bins from the 0.35 quantile up to `most`; that quantile if there is none."""
    bounds = residuals.grid.upper
    lowest = residuals.quantile(LOWEST_CLIP_QUANTILE)
    kept = bounds[(bounds >= lowest) & (bounds <= most)]
    return kept if len(kept) else np.array([lowest])


def for_means(
    residuals: MagnitudeDistribution, units: int, columns: int, noise: float, signal: float, direction_loss: float, most: float
) -> float:
    """The clip c of a least-squares step that minimises the prediction error of slopes,

    e + a S / (a + S) + direction_loss S lost^2, with e = (E min(r^2, c^2) / n + (noise c)^2) / P(|r| <= c)^2, a = columns e and
    lost = E |r| 1(|r| > c) / E |r|.

    a is the error of all slopes before shrinkage, from sampling and from noise; shrinkage limits it to the signal S. e alone, the
    intercept's, is not shrunk. `lost` is what a clip takes from slopes if residuals grow in proportion to predictions.

    Parameters
    ----------
    residuals : MagnitudeDistribution
        Paid magnitudes of residuals.
    units, columns : int
        n and d.
    noise : float
        The standard deviation of a slope's noise for a clip of one.
    signal : float
        S, the variance that slopes explain.
    direction_loss : float
        How much of what a clip takes counts: one, or less where the scale is asked for afterwards.
    most : float
        The largest clip.
    """
    bounds = _candidates(residuals, most)
    one = (residuals.squares(bounds) / units + (noise * bounds) ** 2) / inside(residuals, bounds) ** 2
    slopes = columns * one
    risk = one + slopes * signal / (slopes + signal) + direction_loss * signal * residuals.lost(bounds) ** 2
    return float(bounds[risk.argmin()])


def inside(residuals: MagnitudeDistribution, bounds: Array) -> Array:
    """P(|r| <= c), the curvature of the clipped squared loss; at least 0.3."""
    return np.maximum(residuals.cdf(bounds), LEAST_INSIDE)


def for_scales(residuals: SignedDistribution, noise: float, width: float, size: float) -> tuple[float, float]:
    """The ends b < c of the calibration's clip that minimise the error of level and scale, with h = (c - b) / 2 and m = (b + c) / 2:

    level: (E(r - c)_+ - E(b - r)_+)^2 + ((E(r - c)_+)^2 + (E(b - r)_+)^2) / 4 + (noise h)^2,
    scale: o S / (o + S) + 0.3 S lost^2, with o = (width noise)^2 (h^2 + 2 (m - E r)^2), S = size^2 and lost = E |r| outside / E |r|.

    A number in [b, c] has the noise of h. A slope is the product of deviations from means, and the residual's is m - E r away.

    Parameters
    ----------
    residuals : SignedDistribution
        Paid residuals.
    noise : float
        The standard deviation of the level's noise for a clip of one.
    width : float
        Where predictions are clipped, in their standard deviations, over their weight.
    size : float
        The standard deviation of predictions.
    """
    ends = CandidateClips.of(residuals)
    level = (ends.above - ends.below) ** 2 + TAIL_DOUBT * (ends.above**2 + ends.below**2) + (noise * ends.half) ** 2
    signal, mean = size**2, residuals.mean
    off = (width * noise) ** 2 * (ends.half**2 + 2 * (ends.middle - mean) ** 2)
    scale = off * signal / (off + signal + POSITIVE) + SCALE_LOSS * signal * ends.lost**2
    return ends.best(level + scale)


def for_intercepts(residuals: SignedDistribution, noise: float) -> tuple[float, float]:
    """The ends b < c that minimise the squared error of a mean, (E(r - c)_+ + E(b - r)_+)^2 + (noise (c - b) / 2)^2."""
    ends = CandidateClips.of(residuals)
    return ends.best((ends.above + ends.below) ** 2 + (noise * ends.half) ** 2)


@dataclass(frozen=True, kw_only=True)
class CandidateClips:
    """All intervals [b, c] between edges of bins: a row for each b, a column for each c.

    `allowed` marks those that hold 35% of the residuals. `above` is E(r - c)_+, `below` E(b - r)_+ and `lost` E |r| outside / E |r|.
    """

    ends: Array
    allowed: npt.NDArray[np.bool_]
    above: Array
    below: Array
    lost: Array

    @classmethod
    def of(cls, residuals: SignedDistribution) -> "CandidateClips":
        ends, values, masses = residuals.ends, residuals.values, residuals.masses
        under, magnitudes = values < ends[:, None], masses * np.abs(values)
        inside = under @ masses
        held = (inside[None, :] - inside[:, None] >= LOWEST_CLIP_QUANTILE) & (ends[None, :] > ends[:, None])
        return cls(
            ends=ends,
            allowed=held,
            above=(np.maximum(values - ends[:, None], 0.0) @ masses)[None, :],
            below=(np.maximum(ends[:, None] - values, 0.0) @ masses)[:, None],
            lost=((~under @ magnitudes)[None, :] + (under @ magnitudes)[:, None]) / magnitudes.sum(),
        )

    @property
    def half(self) -> Array:
        """Half the length of each interval."""
        return (self.ends[None, :] - self.ends[:, None]) / 2

    @property
    def middle(self) -> Array:
        """The middle of each interval."""
        return (self.ends[None, :] + self.ends[:, None]) / 2

    def best(self, risk: Array) -> tuple[float, float]:
        """The allowed interval with the smallest risk."""
        first, last = np.unravel_index(np.where(self.allowed, risk, np.inf).argmin(), risk.shape)
        return float(self.ends[first]), float(self.ends[last])


def for_medians(residuals: MagnitudeDistribution, units: int, noise: float, most: float) -> float:
    """The clip c that minimises the variance of a Huber estimate, [E min(r^2, c^2) / n + (noise c)^2] / P(|r| <= c)^2."""
    bounds = _candidates(residuals, most)
    slope = np.maximum(residuals.cdf(bounds), LEAST_HUBER_SLOPE)
    return float(bounds[((residuals.squares(bounds) / units + (noise * bounds) ** 2) / slope**2).argmin()])


def for_norms(norms: MagnitudeDistribution, noise: float, sampling: float) -> float:
    """The cap R on row norms that minimises the variance of a slope, (noise R / h)^2 + sampling / h, h = E min(||z||, R)^2 / E ||z||^2.

    Rows beyond R have the weight R^2 / ||z||^2, so h is the curvature that is left: a small cap has little noise and little curvature.
    Where all rows have one norm the cap is that norm.

    Parameters
    ----------
    norms : MagnitudeDistribution
        Paid norms of whitened rows.
    noise : float
        The standard deviation of a slope's noise for a cap of one.
    sampling : float
        The variance of a slope that drawing other records gives.
    """
    norms = norms.finer()
    bounds = norms.grid.upper[np.cumsum(norms.shares) >= LOWEST_CLIP_QUANTILE]
    left = norms.squares(bounds) / norms.squares(np.array([np.inf]))
    return float(bounds[((noise * bounds / left) ** 2 + sampling / left).argmin()])
