"""The Huber loss of robust regression. Imports numerics, links and targets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.losses import Estimand, Loss, Pointwise
from nightfit.records.targets import Target


@compiled_ufunc
def _value(y: float, z: float, delta: float) -> float:
    """r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2), with r = z - y."""
    r = abs(z - y)
    return 0.5 * r * r if r <= delta else delta * (r - 0.5 * delta)


@register_jitable
def _slope(y: float, z: float, delta: float) -> float:
    """clip(z - y, -delta, delta)."""
    return min(max(z - y, -delta), delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class Huber(Pointwise):
    """Squared up to a residual of delta, linear beyond it: the slope is bounded by delta.

    Huber (1964). On standard normal noise e the efficiency relative to least squares is P(|e| < delta)^2 / E min(|e|, delta)^2,
    which is 0.95 at delta = 1.345; delta is therefore in units of the noise's standard deviation.
    """

    name: ClassVar[str] = "huber"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    delta: float = 1.345
    target: ClassVar[Target] = Target.REAL
    scalable: ClassVar[bool] = True
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.MEDIAN
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < math.inf:
            raise ValueError(f"huber: delta must be finite and above 0, got {self.delta!r}; 1.345 suits targets of unit noise")

    @property
    def lipschitz(self) -> float:
        return self.delta


EXAMPLES: tuple[Loss, ...] = (Huber(), Huber(delta=0.1))
