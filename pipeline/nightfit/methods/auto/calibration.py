"""The level and scale of a fit, asked for by themselves with a wide clip. Imports second_moment and what it imports.

A narrow clip of residuals finds the direction of slopes with little noise, but where large residuals go with large predictions it
makes all slopes too small, and it moves the intercept. Both are two numbers, and two numbers bear a wide clip.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from nightfit.queries.calibration import SIZE
from nightfit.queries.second_moments import DIAGONAL, OTHERS, matrix_of
from nightfit.types import Array

WIDE, WIDEST_SCALE, SURE = 2.0, 8.0, 0.1
SURELY_LESS = 3.0
SPREAD, WIDEST, NODES = math.log(2), 5.0, 20_000
NOISE = 1 / 10
MOST_GROWTH, SKEWED, HARDLY = 32.0, 0.2, 1e-6
APART, LEAST = 0.4, 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a calibration says: the mean of residuals, the relative change of scale, the deviations of their noise, the mean of s, the
    deviation of predictions inside their clip, and how many times its old size the level of predictions surely is."""

    level: float
    level_deviation: float
    scale: float
    deviation: float
    mean: float
    predicted: float
    growth: float = 1.0

    @property
    def likely(self) -> float:
        """The posterior mean of the change of scale. Before anything was asked, 1 + change is zero for one in ten (shrinkage takes some
        noise for slopes), and else its logarithm is U + N(0, log(2)^2) with U uniform between zero and log(growth). Slopes were shrunk as
        they deserve already, so where clips left the level alone a fit that is four times too small or too large is rare, and none has
        the wrong sign. Where residuals are in proportion to predictions, as those of amounts and counts are, clips make slopes too small
        by as much as the level.
        """
        if self.deviation == 0.0:
            return self.scale
        far = math.log(self.growth) / SPREAD
        places = np.linspace(-WIDEST, WIDEST + far, NODES)
        prior = ndtr(places) - ndtr(places - far) if far > HARDLY else np.exp(-(places**2) / 2)
        factors, prior = np.r_[0.0, np.exp(SPREAD * places)], np.r_[NOISE, (1 - NOISE) * prior / prior.sum()]
        unlikely = ((factors - 1 - self.scale) / self.deviation) ** 2
        masses = prior * np.exp((unlikely.min() - unlikely) / 2)
        return float(masses @ factors / masses.sum()) - 1


def cap_of(level: float, weight: float) -> float:
    """The largest norm of u."""
    return math.sqrt(2) * math.hypot(level, weight)


def change(
    answer: Array, deviation: float, clip: float, middle: float, level: float, weight: float, size: float, wide: float = WIDE
) -> Change:
    """From the answer (with this deviation on its diagonal) of a calibration whose direction is that of slopes over `wide` sizes.

    With M = E u u', the regression of r on s has the slope (M_sr - M_1s M_1r) / (M_ss - M_1s^2), wherever the middle is. M_11 is the
    share of records that are not null: one, unless noise cannot have made it smaller. Rows were centred and their second moment is paid,
    so M_1s is near zero and M_ss near 1 / wide^2, within 0.4 of that: they are shrunk towards that by as much as their noise asks for.
    """
    M, beside = matrix_of(answer, SIZE), deviation * DIAGONAL / OTHERS
    unit = clip / math.hypot(level, weight)
    mean, residual, product = level * float(M[0, 1]) / weight, level * float(M[0, 2]) * unit, float(M[1, 2]) * unit / weight
    present = float(M[0, 0]) if M[0, 0] < 1 - SURELY_LESS * deviation else 1.0
    mean *= max(0.0, 1 - (beside / weight / mean) ** 2) if mean else 0.0
    apart, noise = float(M[1, 1]) / weight**2 - mean**2 - wide**-2, (deviation / weight**2) ** 2
    usual = (APART / wide**2) ** 2
    variance = max(wide**-2 + apart * usual / (usual + noise), LEAST / wide**2)
    whole = variance * wide * size
    return Change(
        level=residual + middle * present,
        level_deviation=beside * unit,
        scale=(product - mean * residual) / whole if size else 0.0,
        deviation=beside / weight * math.hypot(unit, level * residual) / whole if size else 0.0,
        mean=mean if size else 0.0,
        predicted=math.sqrt(variance) * wide * size,
    )


def width_of(noise: float, grown: float) -> float:
    """At how many of their sizes predictions are clipped: at two, or up to eight while the scale stays known within a tenth of what it is
    expected to grow by, as the level does (`grown` times); `noise` is that of the scale for a clip of one size. Of heavy-tailed
    predictions much of the variance lies beyond two sizes, and a truth that levels off has a smaller scale there than inside. Where
    residuals are not skewed the steps have found the scale, and what a wider clip adds to its noise is not worth it.
    """
    return min(max(SURE * (grown - 1) / noise, WIDE), WIDEST_SCALE)


def growth_of_level(level: float, deviation: float, intercept: float, usual: float) -> float:
    """How many times its old size, the intercept, the level of predictions surely is if it changes by `level` (with noise of this
    deviation), 32 at most. One if residuals (of this mean size) are not skewed, so that their mean is less than a fifth of that: then
    the intercept's own noise would be taken for growth.
    """
    if level * intercept <= 0 or abs(level) < SKEWED * usual:
        return 1.0
    return 1 + min(max(abs(level) - 2 * deviation, 0.0) / abs(intercept), MOST_GROWTH - 1)
