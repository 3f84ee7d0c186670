"""The squared loss of least squares. May import numpy, numba, nightfit.numerics.fused_loops, nightfit.types and its own room."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.numerics.fused_loops import pointwise
from nightfit.problem.losses import Loss
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

    classification: ClassVar[bool] = False
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 1.0
    lipschitz: ClassVar[float] = math.inf

    @np.errstate(all="ignore")
    def value(self, y: Array, z: Array) -> Array:
        values: Array = _value(y, z)
        return values

    def slope(self, y: Array, z: Array) -> Array:
        return _slopes(y, z)

    def formula(self) -> tuple[Callable[..., float], tuple[float, ...]]:
        return _slope, ()


EXAMPLES: tuple[Loss, ...] = (Squared(),)
