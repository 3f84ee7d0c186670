"""The level and scale of a fit, asked for by themselves with a wide clip. Imports calibration, residuals and below."""

import math
from dataclasses import dataclass, replace

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.calibration import CalibrationChange, change, growth_of_level, prediction_width
from nightfit.methods.auto.constants.level import LEVEL_MARGIN, PREDICTION_CLIP
from nightfit.methods.auto.distributions import SignedDistribution
from nightfit.methods.auto.residuals import ResidualQueries, TargetMean
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The weights after the calibration, the largest residual that its clip kept, and its answer."""

    at: Array
    clip: float
    change: CalibrationChange


def calibrate(
    queries: ResidualQueries, v: Array, residuals: SignedDistribution | None, far_out: float, before: TargetMean | None
) -> Calibrated:
    """v with the level and scale of its predictions as a wide clip finds them.

    Parameters
    ----------
    residuals : SignedDistribution or None
        Paid residuals at v, which set the clip.
    far_out : float
        A clip beyond this may be opened by noise that looks like a tail. Then the level is believed if it is three standard deviations
        from zero or has less noise than `before`.
    before : TargetMean or None
        The mean of the start, which is believed otherwise.
    """
    plan, maps, free = queries.plan, queries.maps, list(queries.maps.coordinates.free)
    slopes, size = v.copy(), math.sqrt(maps.signal(v))
    slopes[free] = 0.0
    noise = plan.deviation("calibration") / DIAGONAL
    level, weight = plan.level, plan.scale_weight
    unit = noise * DIAGONAL / OTHERS / math.hypot(level, weight)
    low, high = _ends(queries, residuals, unit, weight, size)
    clip, middle = (high - low) / 2, (high + low) / 2
    usual, intercept = residuals.magnitudes.mean if residuals else 0.0, level * float(v[-1])
    growth = growth_of_level(residuals.mean, 0.0, intercept, usual) if residuals else 1.0
    width = prediction_width(unit / weight * clip / size, growth) if size > 0.0 else PREDICTION_CLIP
    direction = maps.scaled(slopes) / (width * size) if size > 0.0 else np.zeros(plan.columns)
    bounds = {"direction": direction, "clip": clip, "middle": middle, "free": maps.unbounded}
    answer = plan.ask(queries.gate, "calibration", rows=maps.coordinates.rows, weights=maps.scaled(v), **bounds)
    found = change(answer, noise, clip, middle, level, weight, size, width, clamps=plan.clamps)
    doubtful = max(-low, high) > far_out and abs(found.level) < LEVEL_MARGIN * found.level_deviation
    if before and doubtful and found.level_deviation > before.deviation:
        found = replace(found, level=before.intercept - float(v[-1]) - found.mean * width * size)
    found = replace(found, growth=growth_of_level(found.level, found.level_deviation, intercept, usual))
    moved = v + found.expected_scale * slopes
    if free:
        grown = found.expected_scale * (found.mean + found.moved) + found.moved
        moved[-1] += found.level - grown * width * size
    return Calibrated(at=moved, clip=max(high - found.level, found.level - low), change=found)


def _ends(queries: ResidualQueries, residuals: SignedDistribution | None, unit: float, weight: float, size: float) -> tuple[float, float]:
    """The ends of the clip; symmetric where there is no level."""
    low, high = -queries.hidden_clip, queries.hidden_clip
    if residuals:
        low, high = thresholds.for_scales(residuals, unit, PREDICTION_CLIP / weight, size)
    return (low, high) if queries.plan.level else (-max(-low, high), max(-low, high))
