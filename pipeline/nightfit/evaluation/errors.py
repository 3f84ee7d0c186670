"""Metrics of numbers, counts and amounts from noisy error histograms. Imports axes, judging and below."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.evaluation.axes import BEYOND, ONE, Axis, node_above
from nightfit.evaluation.estimates import Estimate, exactly
from nightfit.evaluation.judging import Judge
from nightfit.evaluation.models import HIDDEN
from nightfit.queries.evaluations import nodes

LEAST_UNITS = 1.0

MEANS = 8.0
"""Of squares of normal errors one in 200 is larger than so many times their mean."""

SMALLEST_SHARE = 0.01
"""Of the constant: the smallest target of a positive domain that the top of the constant's losses has room for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Where numbers are clipped, and the constant to compare with: post-processing of the first, small part of the budget.

    Parameters
    ----------
    constant : float
        The margin of the best constant.
    tops : tuple of int
        The top nodes of losses, losses of the constant, predictions within a tenth and, if there is an earlier model, of the change.
    excess : float
        By how much the noise in the constant makes its mean loss larger than that of the best one, on average.
    """

    constant: float
    tops: tuple[int, ...]
    excess: float = 0.0


def sizes_of(axes: list[Axis], judge: Judge, constant: float, units: float) -> Sizes | None:
    """Tops and constant from the axes of `LossSizes`: losses, targets about a first constant, and the change; None if noise hides them.

    Losses are clipped where noise hides them, but not below MEANS of their mean: a heavy tail is thin everywhere, and hidden where it
    still matters. For losses of a mean the best constant is the mean of targets. Where errors are squared, targets are clipped about the
    first constant as far as errors are, so that constant and model are judged alike; other means are clipped where they are known best.
    Losses that are of no mean keep the first constant, the prediction in the middle of all features.

    Parameters
    ----------
    axes : list of Axis
        The paid sizes.
    judge : Judge
        By what the fit is judged.
    constant : float
        The first constant margin.
    units : float
        The expected number of held-out units.
    """
    top, about = axes[0].top(False), axes[1].top(True)
    if top is None or about is None:
        return None
    first, farthest = _predicted(judge, constant), float(nodes()[about - BEYOND])  # an octave of an error is two of its square
    top = max(top, node_above(MEANS * axes[0].mean(units, top).value))
    end = node_above(math.sqrt(2 * float(nodes()[top])))
    mean = axes[1].clipped_mean(units, end, about) if judge.squared else axes[1].quiet_mean(units, about)
    middle = first + mean.value if judge.of_means else first
    if not judge.loss.scalable:
        middle = max(middle, first * SMALLEST_SHARE, SMALLEST_SHARE / units)
    best = _margin(judge, middle)
    lowest = first - farthest if judge.loss.scalable else max(first - farthest, SMALLEST_SHARE * middle)
    lost = judge.loss.value(np.array([lowest, first + farthest]), np.full(2, best))
    change = [] if len(axes) < 3 else [axes[2].top(True) or top]
    more = excess(judge, middle, math.sqrt(mean.variance)) if judge.of_means else 0.0
    return Sizes(constant=best, tops=(top, max(node_above(float(np.nanmax(lost))), top), ONE, *change), excess=more)


MOST_EXCESS = 0.5
"""Of the constant's mean loss: where noise is larger, its square says little, and the interval is wide."""

CURVATURE_STEP = 2.0**-4
"""Of a standard deviation: near enough to the mean for a second derivative, far enough for float64."""


def excess(judge: Judge, mean: float, deviation: float) -> float:
    """s^2 / 2 times the second derivative of the mean loss in a constant prediction, at the mean of the targets.

    These losses are, but for terms of the target alone, linear in the target or squares of an error, so their mean is that of the mean.
    """
    step = CURVATURE_STEP * min(deviation, mean if not judge.loss.scalable else deviation)
    if step <= 0:
        return 0.0
    margins = np.array([_margin(judge, mean + of * step) for of in (-1, 0, 1)])
    below, at, above = judge.loss.value(np.full(3, mean), margins).tolist()
    return max(float(below + above - 2 * at), 0.0) / 2 * (deviation / step) ** 2


def _predicted(judge: Judge, margin: float) -> float:
    return float(judge.loss.link.inverse(np.array([margin]))[0])


def _margin(judge: Judge, mean: float) -> float:
    """The margin of a constant prediction: links here are the identity and the logarithm."""
    return mean if judge.loss.scalable else math.log(mean)


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorMetrics:
    """What the axes of an error histogram say about a fit.

    Parameters
    ----------
    judge : Judge
        By what the fit was judged.
    axes : list of Axis
        Losses, losses of the constant, predictions within a tenth; and the change against the earlier model.
    sizes : Sizes
        Where they were clipped.
    scale : float
        The user's units of the target in one scaled unit.
    """

    judge: Judge
    axes: list[Axis]
    sizes: Sizes
    scale: float

    def metrics(self) -> dict[str, Any]:
        """Metrics of the fit, of the constant, and the change against the earlier model, as plain data."""
        judge, units = self.judge, self.units
        if units < LEAST_UNITS:
            return hidden(judge)
        lost, spread = (axis.mean(units, top) for axis, top in zip(self.axes[:2], self.sizes.tops, strict=False))
        if spread.value <= 0:
            return hidden(judge)
        more = min(self.sizes.excess, spread.value * MOST_EXCESS)
        spread = Estimate(spread.value - more, spread.variance + 2 * more**2)
        share = lost.over(spread)
        main = Estimate(1 - share.value, share.variance)
        return {
            "metrics": {judge.main: main.interval(high=1.0), **self._sizes_of(lost, self.axes[0]), "within_10": self._within()},
            "constant": {judge.main: exactly(0.0), **self._sizes_of(spread, self.axes[1])},
            "change": change_of_loss(self.axes[3], units, self.sizes.tops[3], spread) if len(self.axes) > 3 else None,
            "counted": Estimate(units, 2 * self.axes[2].deviation ** 2),
        }

    @property
    def units(self) -> float:
        """The number of complete held-out units, by how many are within a tenth and how many are not."""
        return float(self.axes[2].positive[ONE] + self.axes[2].positive[0])

    def _sizes_of(self, lost: Estimate, axis: Axis) -> dict[str, dict[str, float]]:
        """The mean loss in the user's units; of squares the root of their mean, and the mean of their roots."""
        if not self.judge.squared:
            return {self.judge.size: self._per_unit(lost).scaled(self.scale).interval(low=0.0)}
        top = self.sizes.tops[0 if axis is self.axes[0] else 1]
        absolute = self._per_unit(axis.mean(self.units, top, root=True)).scaled(math.sqrt(2.0) * self.scale)
        return {"rmse": self._per_unit(lost).scaled(2 * self.scale**2).root(), "mae": absolute.interval(low=0.0)}

    def _per_unit(self, mean: Estimate) -> Estimate:
        """A mean over the units, whose number is noisy too: two counts of it."""
        return Estimate(mean.value, mean.variance + 2 * (mean.value * self.axes[2].deviation / self.units) ** 2)

    def _within(self) -> dict[str, float]:
        """a / (a + b) of the counts a within a tenth and b that are not: noise s^2 (a^2 + b^2) / n^4 and p (1 - p) / n."""
        axis, units = self.axes[2], self.units
        inside, outside = float(axis.positive[ONE]), float(axis.positive[0])
        share = min(max(inside / units, 0.0), 1.0)
        noise = axis.deviation**2 * (inside**2 + outside**2) / units**4
        return Estimate(inside / units, noise + share * (1 - share) / units).interval(0.0, 1.0)


def hidden(judge: Judge) -> dict[str, Any]:
    """The metrics of a fit of which noise hides everything."""
    return {"metrics": {judge.main: HIDDEN}, "constant": {judge.main: exactly(0.0)}, "change": HIDDEN}


def change_of_loss(axis: Axis, units: float, top: int, spread: Estimate) -> dict[str, float]:
    """By how much the share of the loss that is explained rose against an earlier model, on the same units."""
    return axis.mean(units, top, signed=True).over(spread).interval()
