"""The logistic loss of classification. Imports numerics, links and targets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.numerics.exact import decay
from nightfit.problem.links import Link
from nightfit.problem.links.logit import Logit
from nightfit.problem.losses import Estimand, Loss, Pointwise
from nightfit.records.targets import Target


@compiled_ufunc
def _value(y: float, z: float) -> float:
    """log(1 + exp(-y z)), the exponent never positive: log(1 + exp(-m)) = max(-m, 0) + log(1 + exp(-|m|))."""
    m = y * z
    return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))


@register_jitable
def _slope(y: float, z: float) -> float:
    """-y / (1 + exp(y z)), the exponent never positive: 1 / (1 + exp(m)) = exp(-m) / (1 + exp(-m))."""
    m = y * z
    e = decay(-abs(m))
    return -y * (e if m > 0.0 else 1.0) / (1.0 + e)


@dataclass(frozen=True, kw_only=True, slots=True)
class Logistic(Pointwise):
    """log(1 + exp(-y z)) for y = -1 or +1: the curvature p (1 - p) is at most 1/4, at z = 0."""

    name: ClassVar[str] = "logistic"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    target: ClassVar[Target] = Target.LABELS
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Logit()
    estimand: ClassVar[Estimand | None] = Estimand.LOG_ODDS
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.25
    lipschitz: ClassVar[float] = 1.0


EXAMPLES: tuple[Loss, ...] = (Logistic(),)
