"""What a calibration says about level and scale, and what of it is believed. Imports complete_rows, numpy, scipy and constants.

A narrow clip of residuals finds the direction of slopes with little noise. But where large residuals go with large predictions it makes all
slopes too small, and it moves the intercept. Both are two numbers, and two numbers bear a wide clip.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from nightfit.methods.auto.complete_rows import believed_share
from nightfit.methods.auto.constants.level import (
    GROWTH_MARGIN,
    LEAST_LOG_GROWTH,
    LEAST_VARIANCE,
    MOST_GROWTH,
    PREDICTION_CLIP,
    PRIOR_NODES,
    PRIOR_NOISE,
    PRIOR_RANGE,
    SCALE_PRECISION,
    SCALE_SPREAD,
    SKEWNESS,
    VARIANCE_SPREAD,
    WIDEST_PREDICTION_CLIP,
)
from nightfit.queries.calibration import CALIBRATION_SIZE, INCREMENTS
from nightfit.queries.second_moments import DIAGONAL, OTHERS, matrix_of
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationChange:
    """What a calibration says.

    Parameters
    ----------
    level, level_deviation : float
        The mean residual and the standard deviation of its noise.
    scale, deviation : float
        The relative change of scale and the standard deviation of its noise.
    mean : float
        The mean of clipped predictions, in units of their clip.
    predicted : float
        The standard deviation of predictions inside their clip.
    growth : float
        How many times its old size the level of predictions surely is.
    times, moved : float
        The clamp of columns that predictions should have, as a multiple of the present one, and how far it moves the mean of predictions
        before their change of scale, in units of their clip. `scale`, `deviation` and `predicted` are of predictions with that clamp.
    """

    level: float
    level_deviation: float
    scale: float
    deviation: float
    mean: float
    predicted: float
    growth: float = 1.0
    times: float = 1.0
    moved: float = 0.0

    @property
    def expected_scale(self) -> float:
        """The posterior mean of the change of scale.

        A priori 1 + change is zero with probability 0.1 (shrinkage takes some noise for slopes), and else its logarithm is U + N(0,
        log(2)^2) with U uniform between zero and log(growth): where residuals are in proportion to predictions, as those of amounts and
        counts are, clips make slopes too small by as much as the level.
        """
        if self.deviation == 0.0:
            return self.scale
        far = math.log(self.growth) / SCALE_SPREAD
        places = np.linspace(-PRIOR_RANGE, PRIOR_RANGE + far, PRIOR_NODES)
        prior = ndtr(places) - ndtr(places - far) if far > LEAST_LOG_GROWTH else np.exp(-(places**2) / 2)
        factors, prior = np.r_[0.0, np.exp(SCALE_SPREAD * places)], np.r_[PRIOR_NOISE, (1 - PRIOR_NOISE) * prior / prior.sum()]
        unlikely = ((factors - 1 - self.scale) / self.deviation) ** 2
        masses = prior * np.exp((unlikely.min() - unlikely) / 2)
        return float(masses @ factors / masses.sum()) - 1


def calibration_cap(level: float, weight: float) -> float:
    """sqrt(2 (level^2 + weight^2)), the largest norm of the calibration's vector u."""
    return math.sqrt(2) * math.hypot(level, weight)


def change(
    answer: Array,
    deviation: float,
    clip: float,
    middle: float,
    level: float,
    weight: float,
    size: float,
    width: float = PREDICTION_CLIP,
    shift: float = 0.0,
    clamps: tuple[float, ...] = (1.0,),
) -> CalibrationChange:
    """The change of level and scale from a calibration's answer, with noise of this standard deviation on its diagonal.

    With M = E u u', the regression of r on s has the slope (M_sr - M_1s M_1r) / (M_ss - M_1s^2), wherever the middle is. M_11 is the
    share of records that are not null: all is divided by it, if noise cannot have made it smaller than one. Rows were centred and their
    second moment is paid, so M_1s is near zero and M_ss near 1 / width^2, within 0.4 of that: both are shrunk towards that by as much as
    their noise asks for.

    `clip`, `middle`, `level` and `weight` are the query's, `size` is the standard deviation of predictions and `width` where they were
    clipped, in units of size. Where residuals have a curvature of their own, `shift` is how far it moves the mean of predictions, in units
    of their clip. Among several `clamps` the best is chosen.
    """
    M = matrix_of(answer, CALIBRATION_SIZE + len(clamps) - 1)
    complete = believed_share(float(M[0, 0]), deviation) if level else 1.0
    M, deviation = M / complete, deviation / complete
    beside = deviation * DIAGONAL / OTHERS
    unit = clip / math.hypot(level, weight)
    mean, residual, product = level * float(M[0, 1]) / weight, level * float(M[0, 2]) * unit, float(M[1, 2]) * unit / weight
    mean *= max(0.0, 1 - (beside / weight / mean) ** 2) if mean else 0.0
    apart, noise = float(M[1, 1]) / weight**2 - mean**2 - width**-2, (deviation / weight**2) ** 2
    usual = (VARIANCE_SPREAD / width**2) ** 2
    variance = max(width**-2 + apart * usual / (usual + noise), LEAST_VARIANCE / width**2)
    whole, covariance = variance * width * size, product - mean * residual - shift * (residual + middle)
    found = CalibrationChange(
        level=residual + middle,
        level_deviation=beside * unit,
        scale=covariance / whole if size else 0.0,
        deviation=beside / weight * math.hypot(unit, level * residual) / whole if size else 0.0,
        mean=mean + shift if size else 0.0,
        predicted=math.sqrt(variance) * width * size,
    )
    return best_clamp(M, found, clamps, beside / weight, level, weight, unit / (width * size), width * size) if size else found


def best_clamp(
    M: Array, found: CalibrationChange, clamps: tuple[float, ...], noise: float, level: float, weight: float, unit: float, size: float
) -> CalibrationChange:
    """The change with the clamp at which predictions explain most.

    A prediction with another clamp is s + D, D the sum of the increments between. Its covariance with the target is
    A = (1 + scale) Var s + Cov(D, s) + Cov(D, r), its variance S = Var s + 2 Cov(D, s) + Var D, so its best scale is A / S, and it
    explains A^2 / S. The widest is chosen unless another explains more by a standard deviation of the difference's noise.

    Parameters
    ----------
    M : Array
        The second moment of (level, w s, b r / clip, w e_1, ..., w e_k) of complete rows.
    found : CalibrationChange
        What it says of the present clamp, which is the multiple 1 in `clamps`.
    noise : float
        The standard deviation of the noise beside the diagonal, over w.
    unit, size : float
        clip / b, in units of the clip of predictions, and that clip.
    """
    here, variance, apart = clamps.index(1.0), (found.predicted / size) ** 2, INCREMENTS * weight
    added = M[:, CALIBRATION_SIZE:] / apart
    means = level * added[0]
    with_s = added[1] / weight - found.mean * means
    with_y = with_s + unit * (added[2] - level * M[0, 2] * means)
    among = added[CALIBRATION_SIZE:] / apart - np.outer(means, means)

    def at(place: int) -> tuple[float, CalibrationChange]:
        between = np.arange(len(means))
        D = 1.0 * ((between >= here) & (between < place)) - 1.0 * ((between < here) & (between >= place))
        whole = max(variance + float(2 * D @ with_s + D @ among @ D), LEAST_VARIANCE * variance)
        scale = max(0.0, (1 + found.scale) * variance + float(D @ with_y)) / whole
        steps = math.hypot(unit, scale / apart) * noise / INCREMENTS
        doubt = 2 * scale * math.sqrt(len(means) - place) * steps
        deviation = math.hypot(found.deviation * variance, math.sqrt(np.abs(D).sum()) * steps) / whole
        predicted = math.sqrt(whole) * size
        chosen = replace(found, scale=scale - 1, deviation=deviation, predicted=predicted, times=clamps[place], moved=float(D @ means))
        return scale**2 * whole - doubt, found if place == here else chosen

    return max((at(place) for place in range(len(clamps))), key=lambda one: one[0])[1]


def prediction_width(noise: float, growth: float) -> float:
    """Where predictions are clipped, in their standard deviations: at two, or up to eight while the noise of the scale stays below a
    tenth of the growth that is expected of it, that of the level. `noise` is the scale's for a clip of one standard deviation.
    """
    return min(max(SCALE_PRECISION * (growth - 1) / noise, PREDICTION_CLIP), WIDEST_PREDICTION_CLIP)


def growth_of_level(level: float, deviation: float, intercept: float, usual: float) -> float:
    """How many times the intercept the level of predictions surely is after a change by `level` with noise of this standard deviation.

    At most 32. One if residuals, of the mean magnitude `usual`, are not skewed: then the intercept's own noise would count as growth.
    """
    if level * intercept <= 0 or abs(level) < SKEWNESS * usual:
        return 1.0
    return 1 + min(max(abs(level) - GROWTH_MARGIN * deviation, 0.0) / abs(intercept), MOST_GROWTH - 1)
