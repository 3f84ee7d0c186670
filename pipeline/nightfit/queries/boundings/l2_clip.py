"""Scale a gradient back to an l2 ball (Xie et al. 2023, alg. 1; Kamath et al. 2021 with clipping for discarding). Imports rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from nightfit.numerics.exact import clamped, inner_radius, most_steps, nearest
from nightfit.numerics.fused_loops import pass_of
from nightfit.queries.boundings import Formulas
from nightfit.types import Array, Integers

TINY = 2.0**-500


@dataclass(frozen=True, kw_only=True, slots=True)
class L2Clip:
    """g min(1, bound / ||g||).

    Guarantee: a contribution's l2 norm is at most 2^bits steps, exactly. Proof: the vector is scaled to the
    radius of `radius_of`, whose margin exceeds the relative rounding error of the computed norm and products
    (at most (d + 8) 2^-53), and rounding to whole steps adds at most sqrt(d) / 2. A row whose norm is at most
    2^-500 adds zero: its squares would lose their digits to underflow. Broken by
    test_a_contribution_stays_within_its_declared_norm.
    """

    name: ClassVar[str] = "l2_clip"
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"an l2 clip needs a positive finite bound, got {self.bound}")

    def grid(self, bits: int) -> float:
        return self.bound / 2.0**bits

    def l2_bound(self, columns: int, bits: int) -> float:
        return 2.0**bits

    def linf_bound(self, bits: int) -> float:
        return 2.0**bits

    def formulas(self, columns: int, bits: int) -> Formulas:
        return Formulas(_factor, _steps, (2.0**bits / self.bound, radius_of(columns, bits)))

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        _add(X, slopes, squares, groups, self.formulas(X.shape[1], bits).numbers, sums)


def radius_of(columns: int, bits: int) -> float:
    """2^bits (1 - margin) - sqrt(columns) / 2: what is scaled to this norm and rounded to whole steps has at most 2^bits."""
    return float(inner_radius(most_steps(bits), columns))


@register_jitable
def _factor(slope, square, numbers):  # type: ignore[no-untyped-def]
    steps, radius = numbers
    norm = math.sqrt(square)
    factor = clamped(slope * steps, radius / norm)
    return factor if TINY < norm < math.inf and slope == slope else 0.0


@register_jitable
def _steps(value, numbers):  # type: ignore[no-untyped-def]
    return nearest(value)


_add = pass_of(_factor, _steps)

EXAMPLES = (L2Clip(bound=1.0), L2Clip(bound=3e-5), L2Clip(bound=700.0))
