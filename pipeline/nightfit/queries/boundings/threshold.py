"""Drop each coordinate of a gradient that is too large (Tao et al. 2022, alg. 1 and 3). Imports rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from nightfit.numerics.exact import most_steps, nearest_product
from nightfit.numerics.fused_loops import pass_of
from nightfit.queries.boundings import Formulas
from nightfit.types import Array, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """g_j where |g_j| <= bound, else 0: as an infinite or missing g_j. Tao et al. (2022), alg. 1, line 1; their B is our bound.

    A coordinate clip has the same sensitivity and less bias, E(|g| - B)_+ against E |g| 1(|g| > B): this is here for comparison.
    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly. Proof: |g| <= bound; the two roundings of
    g 2^bits / bound add less than 2^-50 of 2^bits, and the rounding to whole steps comes last (`most_steps`). A choice instead of the
    printed product g 1(|g| <= B) lets no inf * 0 through. Broken by test_a_contribution_stays_within_its_declared_norm and
    test_at_its_largest_a_contribution_is_its_bound_to_the_step.
    """

    name: ClassVar[str] = "threshold"
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a threshold needs a positive finite bound, got {self.bound}")

    def grid(self, bits: int) -> float:
        return self.bound / 2.0**bits

    def l2_bound(self, columns: int, bits: int) -> float:
        return 2.0**bits * math.nextafter(math.sqrt(columns), math.inf)

    def linf_bound(self, bits: int) -> float:
        return 2.0**bits

    def formulas(self, columns: int, bits: int) -> Formulas:
        return Formulas(_factor, _steps, (self.bound, most_steps(bits) / self.bound))

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        _add(X, slopes, squares, groups, self.formulas(X.shape[1], bits).numbers, sums)


@register_jitable
def _factor(slope, square, numbers):  # type: ignore[no-untyped-def]
    return slope


@register_jitable
def _steps(value, numbers):  # type: ignore[no-untyped-def]
    bound, steps = numbers
    return nearest_product(value if abs(value) <= bound else 0.0, steps)


_add = pass_of(_factor, _steps)

EXAMPLES = (Threshold(bound=1.0), Threshold(bound=1e-4), Threshold(bound=250.0))
