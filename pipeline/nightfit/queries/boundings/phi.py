"""Catoni's soft truncation of each coordinate (Wang et al. 2020, eq. 8; Xie et al. 2023, alg. 4, unsmoothed). Imports rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from nightfit.numerics.exact import clamped, fused, most_steps, nearest_product
from nightfit.numerics.fused_loops import pass_of
from nightfit.queries.boundings import Formulas
from nightfit.types import Array, Integers

SUPREMUM = 2 * math.sqrt(2) / 3
EDGE = math.sqrt(2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Phi:
    """scale phi(g_j / scale), phi(a) = a - a^3 / 6 for |a| <= sqrt 2 and sign(a) 2 sqrt 2 / 3 beyond.

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly; a step is scale (2 sqrt 2 / 3) / 2^bits. Proof:
    |a| is clamped to sqrt 2, where |phi(a)| <= 2 sqrt 2 / 3; the roundings of `formulas` and `_steps` change that by less than 2^-50 of
    it (phi is flat at sqrt 2), and the rounding to whole steps comes last (`most_steps`).
    Broken by test_a_contribution_stays_within_its_declared_norm and
    test_at_its_largest_a_contribution_is_its_bound_to_the_step.
    """

    name: ClassVar[str] = "phi"
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"soft truncation needs a positive finite scale, got {self.scale}")

    def grid(self, bits: int) -> float:
        return self.scale * SUPREMUM / 2.0**bits

    def l2_bound(self, columns: int, bits: int) -> float:
        return 2.0**bits * math.nextafter(math.sqrt(columns), math.inf)

    def linf_bound(self, bits: int) -> float:
        return 2.0**bits

    def formulas(self, columns: int, bits: int) -> Formulas:
        """steps phi(a) = v (gain - v^2) for v = c a, c = (steps / 6)^(1/3) and gain = steps / c."""
        steps = most_steps(bits) / SUPREMUM
        c = math.cbrt(steps / 6)
        return Formulas(_factor, _steps, (c / self.scale, c * EDGE, steps / c))

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        _add(X, slopes, squares, groups, self.formulas(X.shape[1], bits).numbers, sums)


@register_jitable
def _factor(slope, square, numbers):  # type: ignore[no-untyped-def]
    stretch, _, _ = numbers
    return slope * stretch


@register_jitable
def _steps(value, numbers):  # type: ignore[no-untyped-def]
    _, edge, gain = numbers
    v = clamped(value, edge)
    return nearest_product(v, fused(-v, v, gain))


_add = pass_of(_factor, _steps)

EXAMPLES = (Phi(scale=1.0), Phi(scale=1e-3), Phi(scale=50.0))
