"""The gamma loss of amounts above zero: the logarithm of their mean is linear in the features. Imports numerics, links and targets."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.problem.links import Link
from nightfit.problem.links.log import Log
from nightfit.problem.losses import Estimand, Loss, Pointwise
from nightfit.problem.losses.log_ranges import LEAST, MOST, check_range, clamped, mean_at
from nightfit.records.targets import Target


@compiled_ufunc
def _value(y: float, z: float, low: float, high: float) -> float:
    """log(m / y) + y / m - 1 with m = exp(z) clamped to [low, high]; beyond the range the line that goes on from there."""
    m, y = mean_at(z, low, high), clamped(y, low, high)
    rest = 0.0 if low < m < high else (1.0 - y / m) * (z - math.log(m))
    return max(math.log(m / y) + y / m - 1.0 + rest, 0.0)


@register_jitable
def _slope(y: float, z: float, low: float, high: float) -> float:
    """1 - y / exp(z), both clamped to [low, high]."""
    return 1.0 - clamped(y, low, high) / mean_at(z, low, high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gamma(Pointwise):
    """log m + y / m up to a constant, for amounts y > 0 with the mean m = exp(z), half of the gamma deviance.

    A residual is relative, y / m - 1: an amount counts the same in any currency, and costs of large means do not outweigh the others.
    Mean and amount are clamped to a public or paid range [low, high], beyond which the loss is linear and still convex. Only the mean of
    an amount must be right, not its distribution (Gourieroux, Monfort, Trognon 1984).
    """

    name: ClassVar[str] = "gamma"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    low: float = LEAST
    high: float = MOST
    target: ClassVar[Target] = Target.POSITIVE
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Log()
    estimand: ClassVar[Estimand | None] = Estimand.LOG_MEAN_OF_RATIOS
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range(self.name, self.low, self.high)
        if self.low < LEAST:
            raise ValueError(f"gamma: the lowest mean must be at least {LEAST:g}, got {self.low!r}; state the bounds of the target")

    @property
    def smoothness(self) -> float:
        return self.high / self.low

    @property
    def lipschitz(self) -> float:
        return max(1.0 - self.low / self.high, self.high / self.low - 1.0)

    def within(self, low: float, high: float) -> "Gamma":
        """The loss with its range cut to [low, high]."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))


EXAMPLES: tuple[Loss, ...] = (Gamma(), Gamma(low=0.1, high=1000.0))
