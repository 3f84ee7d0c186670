"""Losses, one per file: what a margin costs, how fast that cost grows, and what target it is made for. Imports links and targets."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np

from nightfit.numerics.fused_loops import pointwise
from nightfit.problem.links import Link
from nightfit.records.targets import Target
from nightfit.types import Array

Formula = tuple[Callable[..., Any], tuple[float, ...]]


class Estimand(StrEnum):
    """What the minimiser of a loss estimates, for methods that estimate it by other means than descending along this very loss.

    mean: the mean of a real target; the slope is z - y.
    median: the middle of a real target, whatever its tails; the slope is odd in z - y, rises with it and is bounded.
    log_odds: those of the label 1; the slope is -y / (1 + exp(y z)).
    class_log_odds: those of several classes; there is one margin for each contrast between them.
    log_mean: the logarithm of the mean of a target from 0; the slope is exp(z) - y inside the loss's range.
    log_mean_of_ratios: the same of a target above 0; the slope is 1 - y exp(-z) inside the loss's range.
    quantile: the value below which a stated share of a real target lies; the slope rises from -share to 1 - share.
    margin: a score whose sign is the label; the slope is -y where y z < 1, else 0.
    column_means: no fit; the gradient is that of the columns themselves.
    """

    MEAN = "mean"
    MEDIAN = "median"
    LOG_ODDS = "log_odds"
    CLASS_LOG_ODDS = "class_log_odds"
    LOG_MEAN = "log_mean"
    LOG_MEAN_OF_RATIOS = "log_mean_of_ratios"
    QUANTILE = "quantile"
    MARGIN = "margin"
    COLUMN_MEANS = "column_means"


LOG_MEANS = (Estimand.LOG_MEAN, Estimand.LOG_MEAN_OF_RATIOS)
"""Estimands whose loss is a `LogMeanLoss`."""


class Loss(Protocol):
    """A cost of a margin z = x.w at a target y, with the facts that planning, preprocessing and predictions ask for.

    `name` is what configurations, plans and releases call it. `target` is the domain of y and its encoding. `scalable` says whether a
    real target may be centred and scaled first. `link` turns a margin into a prediction. `estimand` is None where only this very loss
    will do: then `auto` does not fit it, and the loop does.
    """

    name: ClassVar[str]
    target: ClassVar[Target]
    scalable: ClassVar[bool]
    link: ClassVar[Link]
    estimand: ClassVar[Estimand | None]
    convex: ClassVar[bool]

    @property
    def smoothness(self) -> float:
        """The supremum of |d slope / dz|, infinite where the slope jumps."""

    @property
    def lipschitz(self) -> float:
        """The supremum of |slope|, infinite where there is none."""

    def value(self, y: Array, z: Array) -> Array:
        """The loss of each row from its encoded target y and margin z, whatever the other rows are; it is never negative."""

    def slope(self, y: Array, z: Array) -> Array:
        """d value / dz of each row; like value, it neither raises nor warns on any float."""

    def formula(self) -> Formula | None:
        """slope(y, z, *numbers) of one row, marked `register_jitable`, and its numbers, equal to `slope` to the last bit.

        A pass over rows takes it into its compiled loop. None where there is none: then the pass calls `slope`.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointwise:
    """Base of losses whose value and slope are formulas of a row's y and z and of the loss's own numbers, its fields in their order."""

    value_of: ClassVar[Callable[..., Any]]
    slope_of: ClassVar[Callable[..., Any]]

    @np.errstate(all="ignore")
    def value(self, y: Array, z: Array) -> Array:
        values: Array = self.value_of(y, z, *astuple(self))
        return values

    def slope(self, y: Array, z: Array) -> Array:
        return pointwise(self.slope_of)(y, z, *astuple(self))

    def formula(self) -> Formula:
        return self.slope_of, astuple(self)


class LogMeanLoss(Loss, Protocol):
    """A loss of a mean whose logarithm is linear: mean and target are clamped to [low, high]."""

    @property
    def low(self) -> float:
        """The least mean."""

    @property
    def high(self) -> float:
        """The largest mean."""

    def within(self, low: float, high: float) -> "LogMeanLoss":
        """The loss with its range cut to [low, high]."""


class QuantileLoss(Loss, Protocol):
    """A smoothed loss of a quantile."""

    @property
    def quantile(self) -> float:
        """The share of targets below it."""

    def smoothed(self, width: float) -> "QuantileLoss":
        """The loss smoothed over [y - width, y + width]."""
