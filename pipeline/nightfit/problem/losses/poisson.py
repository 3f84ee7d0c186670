"""The Poisson loss of counts: the logarithm of their mean is linear in the features. Imports numerics, links and targets."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.problem.links import Link
from nightfit.problem.links.log import Log
from nightfit.problem.losses import Estimand, Loss, Pointwise
from nightfit.problem.losses.log_ranges import LARGEST_MARGIN, MOST, check_range, clamped, mean_at
from nightfit.records.targets import Target


@compiled_ufunc
def _value(y: float, z: float, low: float, high: float) -> float:
    """m - y log m + y log y - y with m = exp(z) clamped to [low, high]; beyond the range the line that goes on from there."""
    m, y = mean_at(z, low, high), clamped(y, low, high)
    inside = math.log(m) if m > 0.0 else 0.0
    rest = 0.0 if low < m < high and abs(z) < LARGEST_MARGIN else (m - y) * (z - inside)
    fitted = m - (y * inside if y > 0.0 else 0.0)
    return max(fitted + (y * math.log(y) - y if y > 0.0 else 0.0) + rest, 0.0)


@register_jitable
def _slope(y: float, z: float, low: float, high: float) -> float:
    """exp(z) - y, both clamped to [low, high]."""
    return mean_at(z, low, high) - clamped(y, low, high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Poisson(Pointwise):
    """m - y log m up to a constant, for counts y with the mean m = exp(z).

    The curvature exp(z) has no bound, and steps need one: mean and count are clamped to a public or paid range [low, high], beyond which
    the loss is linear and still convex. Only the mean of a count must be right, not its distribution: estimates of log E(y | x) are
    consistent for overdispersed counts too (Gourieroux, Monfort, Trognon 1984).
    """

    name: ClassVar[str] = "poisson"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    low: float = 0.0
    high: float = MOST
    target: ClassVar[Target] = Target.COUNTS
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Log()
    estimand: ClassVar[Estimand | None] = Estimand.LOG_MEAN
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range(self.name, self.low, self.high)

    @property
    def smoothness(self) -> float:
        return self.high

    @property
    def lipschitz(self) -> float:
        return self.high - self.low

    def within(self, low: float, high: float) -> "Poisson":
        """The loss with its range cut to [low, high]."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))


EXAMPLES: tuple[Loss, ...] = (Poisson(), Poisson(high=20.0), Poisson(low=0.5, high=3.0))
