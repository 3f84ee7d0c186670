"""The squared loss of least squares. Imports numerics, links and targets."""

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
    """(z - y)^2 / 2."""
    return 0.5 * (z - y) * (z - y)


@register_jitable
def _slope(y: float, z: float) -> float:
    """z - y."""
    return z - y


@dataclass(frozen=True, kw_only=True, slots=True)
class Squared(Pointwise):
    """(z - y)^2 / 2: its curvature is 1 everywhere and its slope has no bound."""

    name: ClassVar[str] = "squared"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    target: ClassVar[Target] = Target.REAL
    scalable: ClassVar[bool] = True
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.MEAN
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    lipschitz: ClassVar[float] = math.inf


EXAMPLES: tuple[Loss, ...] = (Squared(),)
