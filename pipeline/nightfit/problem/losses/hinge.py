"""The hinge loss of support vector machines. Imports numerics, links and targets."""

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
    """max(1 - y z, 0)."""
    return max(1.0 - y * z, 0.0)


@register_jitable
def _slope(y: float, z: float) -> float:
    """-y where y z < 1, else 0: at the kink y z = 1 the subgradient nearest zero."""
    return -y if y * z < 1.0 else 0.0


_slopes = pointwise(_slope)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hinge:
    """max(1 - y z, 0) for y = -1 or +1: the slope is bounded and jumps at y z = 1."""

    name: ClassVar[str] = "hinge"
    target: ClassVar[Target] = Target.LABELS
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.MARGIN
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = math.inf
    lipschitz: ClassVar[float] = 1.0

    @np.errstate(all="ignore")
    def value(self, y: Array, z: Array) -> Array:
        values: Array = _value(y, z)
        return values

    def slope(self, y: Array, z: Array) -> Array:
        return _slopes(y, z)

    def formula(self) -> Formula:
        return _slope, ()


EXAMPLES: tuple[Loss, ...] = (Hinge(),)
