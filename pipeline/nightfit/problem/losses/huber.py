"""The Huber loss of robust regression. Imports numerics, links and targets."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.numerics.fused_loops import pointwise
from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.losses import Estimand, Formula, Loss
from nightfit.records.targets import Target
from nightfit.types import Array


@compiled_ufunc
def _value(y: float, z: float, delta: float) -> float:
    """r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2), with r = z - y."""
    r = abs(z - y)
    return 0.5 * r * r if r <= delta else delta * (r - 0.5 * delta)


@register_jitable
def _slope(y: float, z: float, delta: float) -> float:
    """clip(z - y, -delta, delta)."""
    return min(max(z - y, -delta), delta)


_slopes = pointwise(_slope)


@dataclass(frozen=True, kw_only=True, slots=True)
class Huber:
    """Squared up to a residual of delta, linear beyond it: the slope is bounded by delta.

    Huber (1964). On standard normal noise e the efficiency relative to least squares is P(|e| < delta)^2 / E min(|e|, delta)^2,
    which is 0.95 at delta = 1.345; delta is therefore in units of the noise's standard deviation.
    """

    name: ClassVar[str] = "huber"
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

    @np.errstate(all="ignore")
    def value(self, y: Array, z: Array) -> Array:
        values: Array = _value(y, z, self.delta)
        return values

    def slope(self, y: Array, z: Array) -> Array:
        return _slopes(y, z, self.delta)

    def formula(self) -> Formula:
        return _slope, (self.delta,)


EXAMPLES: tuple[Loss, ...] = (Huber(), Huber(delta=0.1))
