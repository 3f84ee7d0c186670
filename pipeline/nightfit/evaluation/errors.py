"""Metrics of numbers, counts and amounts from the noisy answer to an error histogram. Imports axes, judging and below."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.evaluation.axes import ONE, Axis
from nightfit.evaluation.estimates import Estimate, exactly, unknown
from nightfit.evaluation.judging import Judge

LEAST_UNITS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorMetrics:
    """What the axes of an error histogram say about a fit.

    Parameters
    ----------
    judge : Judge
        By what the fit was judged.
    axes : list of Axis
        Losses, losses of a constant, targets about it, predictions within a tenth; and the change against an earlier model.
    constant : float
        The constant margin.
    scale : float
        The user's units of the target in one scaled unit.
    """

    judge: Judge
    axes: list[Axis]
    constant: float
    scale: float

    def metrics(self) -> dict[str, Any]:
        """Metrics of the fit, of the constant, and the change against the earlier model, as plain data."""
        judge, units = self.judge, self.units
        top, spread = self.axes[0].top(False), self.best_constant()
        if top is None or spread is None or units.value < LEAST_UNITS:
            hidden = unknown(-1.0, 1.0, 0.0)
            return {"metrics": {judge.main: hidden}, "constant": {judge.main: exactly(0.0)}, "change": hidden}
        lost = self.axes[0].mean(units.value, top)
        share = lost.over(spread)
        main = Estimate(1 - share.value, share.variance)
        found = {judge.main: main.interval(high=1.0), **self._sizes(lost, top), "within_10": self._within()}
        return {
            "metrics": found,
            "constant": {judge.main: exactly(0.0), **self._constant_sizes(spread)},
            "change": self._change(spread),
        }

    @property
    def units(self) -> Estimate:
        """The number of complete held-out units, by how many are within a tenth and how many are not."""
        axis = self.axes[3]
        return Estimate(float(axis.positive[ONE] + axis.positive[0]), 2 * axis.deviation**2)

    def best_constant(self) -> Estimate | None:
        """The mean loss of the best constant: that of the constant c that was asked for, less D(mean, c).

        For the losses of a mean, E loss(y, c) - E loss(y, mean) = loss(mean, c) where loss(m, m) = 0: they are Bregman divergences
        (Banerjee, Guo, Wang 2005, theorem 1). Of other losses the constant stays what it is.
        """
        top, signed_top = self.axes[1].top(False), self.axes[2].top(True)
        if top is None or self.units.value < LEAST_UNITS:
            return None
        spread = self.axes[1].mean(self.units.value, top)
        if not self.judge.of_means or signed_top is None:
            return spread if spread.value > 0 else None
        about = self.axes[2].mean(self.units.value, signed_top, signed=True)
        saved = self._divergence(about.value)
        step = max(math.sqrt(about.variance), 1e-9 * abs(about.value), 1e-300)
        steepness = (self._divergence(about.value + step) - self._divergence(about.value - step)) / (2 * step)
        best = Estimate(spread.value - saved, spread.variance + steepness**2 * about.variance)
        return best if best.value > 0 else None

    def _divergence(self, about: float) -> float:
        """loss(mean, c) of a mean that exceeds the constant prediction by `about`."""
        loss = self.judge.loss
        mean = float(loss.link.inverse(np.array([self.constant]))[0]) + about
        found = float(loss.value(np.array([mean]), np.array([self.constant]))[0])
        return found if math.isfinite(found) else 0.0

    def _sizes(self, lost: Estimate, top: int) -> dict[str, dict[str, float]]:
        if not self.judge.squared:
            return {self.judge.size: lost.scaled(self.scale).interval(low=0.0)}
        absolute = self.axes[0].mean(self.units.value, top, root=True).scaled(math.sqrt(2.0) * self.scale)
        return {"rmse": lost.scaled(2 * self.scale**2).root(), "mae": absolute.interval(low=0.0)}

    def _constant_sizes(self, spread: Estimate) -> dict[str, dict[str, float]]:
        if not self.judge.squared:
            return {self.judge.size: spread.scaled(self.scale).interval(low=0.0)}
        return {"rmse": spread.scaled(2 * self.scale**2).root()}

    def _within(self) -> dict[str, float]:
        """a / (a + b) of the counts a within a tenth and b that are not: noise s^2 (a^2 + b^2) / n^4 and p (1 - p) / n."""
        axis, units = self.axes[3], self.units.value
        inside, outside = float(axis.positive[ONE]), float(axis.positive[0])
        share = min(max(inside / units, 0.0), 1.0)
        noise = axis.deviation**2 * (inside**2 + outside**2) / units**4
        return Estimate(share, noise + share * (1 - share) / units).interval(0.0, 1.0)

    def _change(self, spread: Estimate) -> dict[str, float] | None:
        return change_of_loss(self.axes[4], self.units.value, spread) if len(self.axes) > 4 else None


def change_of_loss(axis: Axis, units: float, spread: Estimate) -> dict[str, float]:
    """By how much the share of the loss that is explained rose against an earlier model, on the same units."""
    top = axis.top(True)
    return unknown(-1.0, 1.0, 0.0) if top is None else axis.mean(units, top, signed=True).over(spread).interval()
