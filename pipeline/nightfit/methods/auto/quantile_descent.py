"""Newton steps towards a quantile. Imports descent and below."""

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from nightfit.methods.auto.calibration import change
from nightfit.methods.auto.constants.level import PREDICTION_CLIP
from nightfit.methods.auto.constants.outcomes import LAST_QUANTILE_WIDTH, MOST_QUANTILE_WIDTH, QUANTILE_WIDTH
from nightfit.methods.auto.descent import AskedGradient, Beginning, Descent
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.methods.auto.level_and_scale import Calibrated
from nightfit.methods.auto.residuals import TargetMean
from nightfit.problem.losses import Loss, QuantileLoss
from nightfit.queries.second_moments import DIAGONAL
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class QuantileDescent(Descent):
    """Steps on the smoothed quantile loss. Residuals y - z are asked for to choose how widely it is smoothed; what a record adds to a
    gradient is quantile or quantile - 1 beyond that, however far off its target is.

    The clip of a step is the half-width h of the smoothing, and the slope the density of residuals there, P(|y - z| <= h) / (2 h).
    """

    @property
    def quantile(self) -> float:
        """The share of targets below the prediction."""
        return cast(QuantileLoss, self.plan.loss).quantile

    @property
    def share(self) -> float:
        """The share of residuals that the loss is smoothed over."""
        return min(QUANTILE_WIDTH * min(self.quantile, 1 - self.quantile), MOST_QUANTILE_WIDTH)

    def near(self, level: float) -> float:
        """A level that paid answers suggest, at most half of the way from the stated quantile to 0 or 1: beyond it noise decides."""
        most = min(self.quantile, 1 - self.quantile) / 2
        return min(max(level, self.quantile - most), self.quantile + most)

    def smoothed(self, width: float) -> Loss:
        """The loss, smoothed over [y - width, y + width]."""
        return cast(QuantileLoss, self.plan.loss).smoothed(width)

    def gradient_loss(self, clip: float) -> Loss:
        return self.smoothed(clip)

    def begin(self) -> tuple[Descent, Beginning]:
        """The distribution of targets about the start; its quantile is the first change of the level, and the paid share of targets below
        that level corrects it.
        """
        queries, v = self.queries, self.start.copy()
        targets = queries.signed(1, v) if self.plan.asks_targets else None
        if not self.plan.asks_targets:
            return self, Beginning(v=v, known=None, mean=None)
        shift = targets.quantile(self.quantile) if targets else 0.0
        v[-1] += shift
        width, middle = self.width_of(targets, shift, self.share), self.quantile - 0.5
        bounds = {"loss": self.smoothed(width), "clip": 0.5, "middle": middle}
        answer = self.plan.ask(self.gate, "target", rows=self.coordinates.rows, weights=self.maps.scaled(v), **bounds)
        found = float(answer[0]) / self.coordinates.complete + middle
        if targets:
            v[-1] += targets.quantile(self.near(self.quantile + found)) - shift
        mean = TargetMean(residual=found, intercept=float(v[-1]), deviation=math.inf)
        return self, Beginning(v=v, known=None, mean=mean)

    def width_of(self, residuals: SignedDistribution | None, centre: float, share: float) -> float:
        """Half the width of the interval about `centre` that holds a share of the residuals."""
        if residuals is None:
            return self.queries.hidden_clip
        return max(residuals.half_width(centre, share), self.queries.hidden_clip)

    def clip(self, step: int, residuals: MagnitudeDistribution | None, v: Array, most: float) -> tuple[float, float]:
        """The half-width of the smoothing and the density of residuals inside it."""
        if residuals is None:
            return self.queries.hidden_clip, 1.0
        width = residuals.quantile(self.share)
        return width, self.share / (2 * width)

    def ask_gradient(self, label: str, v: Array, clip: float, slope: float) -> tuple[Descent, AskedGradient]:
        """The gradient, clipped where it is bounded; the step's own clip is the width of the smoothing."""
        at, loss = self.coordinates, self.smoothed(clip)
        bounds = {"clip": loss.lipschitz, "cap": at.cap}
        paid = self.plan.gradient(self.gate, label, rows=at.rows, rotation=at.rotation, loss=loss, weights=v, **bounds)
        answer = AskedGradient(at=v, gradient=paid.mean, deviation=paid.deviation, clip=clip, slope=slope)
        if paid.moment is None:
            return self, answer
        return replace(self, coordinates=at.with_moment(paid.moment, paid.moment_noise)), answer

    def sampling_variance(self, residuals: MagnitudeDistribution | None, clip: float, slope: float) -> float:
        """q (1 - q) / (n f^2) for the density f."""
        return self.quantile * (1 - self.quantile) / (self.plan.units * slope**2)

    def calibrate(self, v: Array, residuals: SignedDistribution | None, far_out: float, before: TargetMean | None) -> Calibrated:
        """v with the level at which the stated share of targets lies below, and the scale of its predictions.

        The share below is asked for; how far the level must move for it is read from the distribution of residuals.
        """
        plan, maps, free = self.plan, self.maps, list(self.coordinates.free)
        slopes, size = v.copy(), math.sqrt(maps.signal(v))
        slopes[free] = 0.0
        noise, level, weight = plan.deviation("calibration") / DIAGONAL, plan.level, plan.scale_weight
        share, middle = LAST_QUANTILE_WIDTH * self.share, self.quantile - 0.5
        width = self.width_of(residuals, 0.0, share)
        direction = maps.scaled(slopes) / (PREDICTION_CLIP * size) if size > 0.0 else np.zeros(plan.columns)
        bounds = {"direction": direction, "clip": 0.5, "middle": middle, "loss": self.smoothed(width)}
        answer = plan.ask(self.gate, "calibration", rows=maps.coordinates.rows, weights=maps.scaled(v), **bounds)
        found = change(answer, noise, 0.5, middle, level, weight, size)
        density = share / (2 * width)
        found = replace(found, scale=found.scale / density, deviation=found.deviation / density)
        moved = v + found.expected_scale * slopes
        if free and residuals:
            below = residuals.share_below(0.0) + found.level
            moved[-1] += residuals.quantile(self.near(below)) - found.expected_scale * found.mean * PREDICTION_CLIP * size
        return Calibrated(at=moved, clip=width, change=found)
