"""The squared loss of least squares. Imports numerics, links and targets."""

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
def _value(y: float, z: float) -> float:
    """(z - y)^2 / 2."""
    return 0.5 * (z - y) * (z - y)


@register_jitable
def _slope(y: float, z: float) -> float:
    """z - y."""
    return z - y


_slopes = pointwise(_slope)


@dataclass(frozen=True, kw_only=True, slots=True)
class Squared:
    """(z - y)^2 / 2: its curvature is 1 everywhere and its slope has no bound."""

    name: ClassVar[str] = "squared"
    target: ClassVar[Target] = Target.REAL
    scalable: ClassVar[bool] = True
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.MEAN
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    lipschitz: ClassVar[float] = math.inf

    @np.errstate(all="ignore")
    def value(self, y: Array, z: Array) -> Array:
        values: Array = _value(y, z)
        return values

    def slope(self, y: Array, z: Array) -> Array:
        return _slopes(y, z)

    def formula(self) -> Formula:
        return _slope, ()


EXAMPLES: tuple[Loss, ...] = (Squared(),)
