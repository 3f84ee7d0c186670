"""The hinge loss of support vector machines. Imports numerics, links and targets."""

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
def _value(y: float, z: float) -> float:
    """max(1 - y z, 0)."""
    return max(1.0 - y * z, 0.0)


@register_jitable
def _slope(y: float, z: float) -> float:
    """-y where y z < 1, else 0: at the kink y z = 1 the subgradient nearest zero."""
    return -y if y * z < 1.0 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Hinge(Pointwise):
    """max(1 - y z, 0) for y = -1 or +1: the slope is bounded and jumps at y z = 1."""

    name: ClassVar[str] = "hinge"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    target: ClassVar[Target] = Target.LABELS
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.MARGIN
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = math.inf
    lipschitz: ClassVar[float] = 1.0


EXAMPLES: tuple[Loss, ...] = (Hinge(),)
