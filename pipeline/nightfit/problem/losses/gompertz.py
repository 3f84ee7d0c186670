"""The Gompertz loss of classification with wrong labels. Imports numerics, links and targets."""

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

LARGEST = 700.0  # exp(700) is still finite, and exp(-exp(t)) is 0 from t = 6.7 on
PEAK = math.exp(-1.0)  # the maximum of u exp(-u), at u = 1


@compiled_ufunc
def _value(y: float, z: float, steepness: float) -> float:
    """exp(-exp(steepness y z)), the inner exponent never above LARGEST."""
    t = steepness * y * z
    return math.exp(-math.exp(LARGEST if t > LARGEST else t))


@register_jitable
def _slope(y: float, z: float, steepness: float) -> float:
    """-y steepness u exp(-u) with u = exp(steepness y z); 0 where the margin is not a number."""
    t = steepness * y * z
    if not t < LARGEST:
        return 0.0
    u = math.exp(t)
    return -y * (steepness * min(u * math.exp(-u), PEAK))


@dataclass(frozen=True, kw_only=True, slots=True)
class Gompertz(Pointwise):
    """exp(-exp(steepness y z)) for y = -1 or +1: from 0 for a good margin to 1 for a bad one, however bad.

    Han et al. (2018), sec. 5, who print no formula but c* = 2, our steepness, and refer to Han et al. (2016) for the rest: this
    is Gompertz's curve a exp(-b exp(c t)) with a = b = 1. With u = exp(steepness y z) the slope's size is steepness u exp(-u),
    largest at u = 1, and the curvature steepness^2 u (u - 1) exp(-u), largest in size at u = (3 + sqrt 5) / 2.
    """

    name: ClassVar[str] = "gompertz"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    steepness: float = 2.0
    target: ClassVar[Target] = Target.LABELS
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = None
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.01 <= self.steepness <= 100.0:
            raise ValueError(f"gompertz: steepness must be from 0.01 to 100, got {self.steepness!r}; 2 is usual")

    @property
    def smoothness(self) -> float:
        u = (3.0 + math.sqrt(5.0)) / 2.0
        return self.steepness**2 * u * (u - 1.0) * math.exp(-u)

    @property
    def lipschitz(self) -> float:
        return self.steepness * PEAK


EXAMPLES: tuple[Loss, ...] = (Gompertz(), Gompertz(steepness=0.5))
