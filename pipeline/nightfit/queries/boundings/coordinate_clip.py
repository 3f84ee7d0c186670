"""Clip each coordinate of a gradient (Tao et al. 2022, sec. 5.1 as corrected; Kamath et al. 2021, app. B). Imports numerics and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from nightfit.numerics.exact import clamp, max_steps, rint_int
from nightfit.numerics.fused_loops import bounded_sum_loop
from nightfit.queries.boundings import Formulas
from nightfit.types import Array, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinateClip:
    """clip(g_j, -bound, bound).

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly: it is clamped to that integer, and rounding to
    integers is monotone. Broken by test_a_contribution_stays_within_its_declared_norm.
    """

    name: ClassVar[str] = "coordinate_clip"
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a coordinate clip needs a positive finite bound, got {self.bound}")

    def grid(self, bits: int) -> float:
        return self.bound / 2.0**bits

    def l2_bound(self, columns: int, bits: int) -> float:
        return 2.0**bits * math.nextafter(math.sqrt(columns), math.inf)

    def linf_bound(self, bits: int) -> float:
        return 2.0**bits

    def formulas(self, columns: int, bits: int) -> Formulas:
        return Formulas(_factor, _steps, (2.0**bits / self.bound, max_steps(bits)))

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        _add(X, slopes, squares, groups, self.formulas(X.shape[1], bits).parameters, sums)


@register_jitable
def _factor(slope, square, parameters):  # type: ignore[no-untyped-def]
    steps, _ = parameters
    return slope * steps


@register_jitable
def _steps(value, parameters):  # type: ignore[no-untyped-def]
    _, top = parameters
    return rint_int(clamp(value, top))


_add = bounded_sum_loop(_factor, _steps)

EXAMPLES = (CoordinateClip(bound=1.0), CoordinateClip(bound=1e-4), CoordinateClip(bound=250.0))
