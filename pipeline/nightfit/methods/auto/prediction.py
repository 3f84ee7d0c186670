"""How much noise a fit will have, from public facts alone. Imports query_plan and below.

It is the root mean square, over rows, of what privacy and the drawing of records change in predictions: in residual standard deviations
(the median absolute residual over 0.6745, which equals the standard deviation of a normal one), or in log-odds for labels. It is no bound
on the error of a fit: clips, clamps and shrinkage have a bias that only the data tell, and shrinkage takes noise away.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from scipy.stats import norm

from nightfit.methods.auto.constants.intervals import (
    EXPECTED_HUBER_CLIP,
    EXPECTED_LABEL_CURVATURE,
    EXPECTED_SQUARED_CLIP,
    LARGE_NOISE,
    LARGEST_REMEDY,
    REMEDY_PRECISION,
)
from nightfit.methods.auto.constants.labels import LOGISTIC_CURVATURE
from nightfit.methods.auto.constants.outcomes import EXPECTED_LOG_MEAN_CLIP
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.problem.losses import Estimand, QuantileLoss
from nightfit.problem.losses.softmax import Softmax


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The expected noise of a fit: the part of privacy, the part of drawing the records, and their unit."""

    noise: float
    sampling: float
    unit: str

    @property
    def error(self) -> float:
        """sqrt(noise^2 + sampling^2)."""
        return math.hypot(self.noise, self.sampling)

    @property
    def large(self) -> bool:
        return self.error > LARGE_NOISE

    @property
    def lost(self) -> float:
        """The share of variance of a signal as large as the noise, e^2 / (1 + e^2)."""
        return self.error**2 / (1 + self.error**2)

    def explain(self) -> str:
        """The prediction in words."""
        return (
            f"Expected noise: about {self.error:.2g} {self.unit} (root mean square, in predictions; {self.noise / self.error:.0%} of it is "
            "privacy's, the rest that of drawing the records). The bias of clips, clamps and shrinkage is not in it. "
            f"Features that explain less than {self.lost:.2%} of the variance may not be seen."
        )


def predicted(plan: QueryPlan) -> Prediction:
    """The expected noise of a plan's fit.

    Every averaged gradient has noise of known standard deviation for a clip of c and rows of norm sqrt(d); d coordinates of it, over the
    slope of the loss, are the noise of predictions. Drawing other records adds d / n, over that slope for labels.
    """
    d, n = plan.columns, plan.units
    clip, slope, unit = _expected(plan)
    paid = sum(plan.noise_multiplier(f"gradient {step + 1}") ** -2 for step in range(plan.burn_in, plan.steps))
    noise = math.sqrt(d / paid) * plan.adjacency.contributions_changed * clip * math.sqrt(d) / n / slope
    return Prediction(noise=noise, sampling=math.sqrt(d / (n * slope)), unit=unit)


def _expected(plan: QueryPlan) -> tuple[float, float, str]:
    """The clip of residuals, the slope of the loss, and the unit of the noise."""
    if plan.several_classes:  # whose covariance has the eigenvalue 1 / k at equal shares, and p (1 - p) = 1 / 4 for two of them
        return plan.clip_of_labels, EXPECTED_LABEL_CURVATURE / LOGISTIC_CURVATURE / cast(Softmax, plan.loss).classes, "in log-odds"
    if plan.labels:
        return plan.clip_of_labels, EXPECTED_LABEL_CURVATURE, "in log-odds"
    if plan.log_mean:
        return EXPECTED_LOG_MEAN_CLIP, 1.0, "in the logarithm of the mean"
    if plan.loss.estimand is Estimand.QUANTILE:
        quantile = cast(QuantileLoss, plan.loss).quantile
        return plan.loss.lipschitz, float(norm.pdf(norm.ppf(quantile))), "residual standard deviations"
    return EXPECTED_HUBER_CLIP if plan.loss.estimand is Estimand.MEDIAN else EXPECTED_SQUARED_CLIP, 1.0, "residual standard deviations"


def remedies(plan: QueryPlan) -> Iterator[str]:
    """What would make noise small, each by itself: more rows, fewer columns, a larger epsilon."""
    shape = plan.preprocessing
    rows = _least_factor(lambda factor: replace(plan, units=int(plan.units * factor), largest_units=int(plan.largest_units * factor)))
    if rows is not None:
        yield f"more than {math.ceil(plan.units * rows):,} rows"
    for columns in range(len(shape.features) - 1, 0, -1):
        fewer = {part: getattr(shape, part)[:columns] for part in ("features", "centre", "scale", "reach")}
        if not predicted(replace(plan, preprocessing=replace(shape, encoding=None, **fewer))).large:
            yield f"at most {columns} columns"
            break
    epsilon = _least_factor(lambda factor: replace(plan, mu_squared=plan.mu_squared * factor**2))
    if epsilon is not None:
        yield f"an epsilon about {epsilon:.2g} times as large"


def _least_factor(changed: Callable[[float], QueryPlan]) -> float | None:
    """The least factor, to a hundredth of it, that makes noise small; None if the largest does not."""
    low, high = 1.0, LARGEST_REMEDY
    if predicted(changed(high)).large:
        return None
    while high / low > REMEDY_PRECISION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if predicted(changed(middle)).large else (low, middle)
    return high
