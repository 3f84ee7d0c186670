"""Newton steps towards the logarithm of a mean, for counts and amounts. Imports descent and below."""

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.calibration import CalibrationChange, change, prediction_width
from nightfit.methods.auto.constants.level import PREDICTION_CLIP
from nightfit.methods.auto.constants.outcomes import (
    BEYOND_MEANS,
    LARGEST_TILT,
    LEAST_MEAN,
    MOST_LEVEL_CHANGE,
    SCALE_SPREAD_OF_RATIOS,
    WIDEST_MEAN,
)
from nightfit.methods.auto.constants.steps import DIRECTION_LOSS, LEAST_SIGNAL, SIGNAL_QUANTILE, UNKNOWN_SIGNAL
from nightfit.methods.auto.descent import AskedGradient, Beginning, Descent
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.methods.auto.level_and_scale import Calibrated
from nightfit.methods.auto.residuals import TargetMean
from nightfit.problem.losses import Estimand, LogMeanLoss, Loss
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class LogMeanDescent(Descent):
    """Steps of counts (residual y - m) and amounts (residual y / m - 1) with the mean m = exp(z).

    Parameters
    ----------
    ranged : Loss or None
        The loss with the paid range of means; None before it is paid.
    mean : float
        The paid mean of all targets.
    """

    ranged: LogMeanLoss | None = None
    mean: float = 1.0

    @property
    def loss(self) -> Loss:
        return self.ranged or self.plan.residual_loss

    @property
    def relative(self) -> bool:
        """Whether residuals are relative, y / m - 1."""
        return self.plan.loss.estimand is Estimand.LOG_MEAN_OF_RATIOS

    @property
    def unit(self) -> float:
        """The residual of a record whose target is twice its mean: one, or the mean of all targets."""
        return 1.0 if self.relative else self.mean

    def begin(self) -> tuple[Descent, Beginning]:
        """The distribution and the mean of targets, asked at the margin 0, where a residual is y - 1.

        The intercept is log(mean) - s^2 / 2, so that E exp(z) is the mean if margins are normal with the variance s^2 that the start's
        slopes have.
        """
        queries, nothing = self.queries, np.zeros(len(self.start))
        targets = queries.signed(1, nothing) if self.plan.asks_targets else None
        found = queries.target_mean(nothing, targets)[1]
        if found is None:
            return self, Beginning(v=self.start, known=None, mean=None)
        public = cast(LogMeanLoss, self.plan.loss)
        mean = float(np.clip(1 + found.residual, max(public.low, found.deviation), public.high))
        v = self.start.copy()
        v[-1] = math.log(mean) - self.maps.signal(self.start) / 2
        level = replace(found, intercept=float(v[-1]), deviation=found.deviation / mean)
        here = replace(self, ranged=public.within(*self.range_of(targets, mean)), mean=mean)
        return here, Beginning(v=v, known=None, mean=level)

    def range_of(self, targets: SignedDistribution | None, mean: float) -> tuple[float, float]:
        """The paid range of means: up to where hardly any target is, at least eight times and at most a thousandth of their mean."""
        high = 1 + targets.range_without(BEYOND_MEANS)[1] if targets else 0.0
        return LEAST_MEAN * mean, max(high, WIDEST_MEAN * mean)

    def clip(self, step: int, residuals: MagnitudeDistribution | None, v: Array, most: float) -> tuple[float, float]:
        """The clip of residuals, and the mean slope of the clipped residual in the margin: the mean where nothing is clipped."""
        plan, unit = self.plan, self.unit
        if residuals is None:
            return self.queries.hidden_clip, unit
        noise = plan.adjacency.contributions_changed * self.coordinates.cap / (plan.units * plan.gradient_mu)
        variance = float(residuals.squares(residuals.quantile(SIGNAL_QUANTILE) * np.ones(1))[0])
        known = unit**2 * self.maps.signal(v - self.start)
        signal = max(known, LEAST_SIGNAL * variance) if step else UNKNOWN_SIGNAL * variance
        clip = thresholds.for_means(residuals, plan.units, len(v), noise, signal, DIRECTION_LOSS, most)
        return clip, unit * float(thresholds.inside(residuals, np.array([clip]))[0])

    def newton_step(self, step: AskedGradient) -> tuple[Array, float]:
        """Where the Newton step leads. Weighted by the mean, normal rows of covariance H have the same covariance and the mean H w: so a
        step of counts takes the mean of the weighted rows, H w, from them first.
        """
        to, deviation = super().newton_step(step)
        free = list(self.coordinates.free)
        if self.relative or not free:
            return to, deviation
        slopes, moved = step.at.copy(), to - step.at
        slopes[free] = 0.0
        size = math.sqrt(self.maps.signal(step.at))
        tilt = slopes * min(1.0, LARGEST_TILT / size) if size > 0.0 else slopes
        shifted = moved - tilt * float(moved[-1])
        shifted[-1] = moved[-1] - float(self.tilted_means(tilt) @ shifted)
        return step.at + shifted, deviation

    def believed_scale(self, found: CalibrationChange) -> float:
        """The posterior mean of the change of scale: normal a priori where residuals are relative, else as for numbers."""
        if not self.relative:
            return found.expected_scale
        return found.scale * SCALE_SPREAD_OF_RATIOS**2 / (SCALE_SPREAD_OF_RATIOS**2 + found.deviation**2)

    def tilted_means(self, tilt: Array) -> Array:
        """H w of the slopes w, zero for the intercept: the mean of rows weighted by exp(w . z)."""
        means: Array = self.coordinates.curvature.matrix @ tilt
        means[list(self.coordinates.free)] = 0.0
        return means

    def calibrate(self, v: Array, residuals: SignedDistribution | None, far_out: float, before: TargetMean | None) -> Calibrated:
        """v with the level and scale of its predictions as a wide clip of residuals finds them.

        With e the mean residual over the mean, the level changes by log(1 + e). Rows of counts are weighted by their mean: their
        predictions have, beside the mean E s of all, s^2 of their own variance.
        """
        plan, maps, free = self.plan, self.maps, list(self.coordinates.free)
        slopes, size = v.copy(), math.sqrt(maps.signal(v))
        slopes[free] = 0.0
        noise = plan.deviation("calibration") / DIAGONAL
        level, weight = plan.level, plan.scale_weight
        unit = noise * DIAGONAL / OTHERS / math.hypot(level, weight)
        low, high = -self.queries.hidden_clip, self.queries.hidden_clip
        if residuals:
            low, high = thresholds.for_scales(residuals, unit, PREDICTION_CLIP / weight, size * self.unit)
        clip, middle = (high - low) / 2, (high + low) / 2
        width = prediction_width(unit / weight * clip / (size * self.unit), 1.0) if size > 0.0 else PREDICTION_CLIP
        direction = maps.scaled(slopes) / (width * size) if size > 0.0 else np.zeros(plan.columns)
        bounds = {"direction": direction, "clip": clip, "middle": middle, "loss": self.loss}
        answer = plan.ask(self.gate, "calibration", rows=maps.coordinates.rows, weights=maps.scaled(v), **bounds)
        found = change(answer, noise, clip, middle, level, weight, size, width, 0.0 if self.relative else size / width)
        mean = 1.0 if self.relative else max(self.mean - found.level, (1 - MOST_LEVEL_CHANGE) * self.mean)
        found = replace(found, scale=found.scale / mean, deviation=found.deviation / mean, level_deviation=found.level_deviation / mean)
        grown = self.believed_scale(found)
        moved = v + grown * slopes
        if free:
            relative = float(np.clip(found.level / mean, -MOST_LEVEL_CHANGE, MOST_LEVEL_CHANGE / (1 - MOST_LEVEL_CHANGE)))
            moved[-1] += math.log1p(relative) - grown * found.mean * width * size
        return Calibrated(at=moved, clip=max(high - found.level, found.level - low), change=found)
