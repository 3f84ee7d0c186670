"""Catoni's soft truncation of each coordinate (Wang et al. 2020, eq. 8; Xie et al. 2023, alg. 4, unsmoothed). Imports rooms below."""

import math
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from pipeline.exact import clamped, most_steps, nearest
from pipeline.pairs import pass_of
from pipeline.types import Array, Integers

SUPREMUM = 2 * math.sqrt(2) / 3
SIXTH = 1 / 6
EDGE = math.sqrt(2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Phi:
    """scale phi(g_j / scale), phi(a) = a - a^3 / 6 for |a| <= sqrt 2 and sign(a) 2 sqrt 2 / 3 beyond.

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly; a step is scale (2 sqrt 2 / 3) / 2^bits. Proof:
    |a| is clamped to sqrt 2, where |phi(a)| <= 2 sqrt 2 / 3; the four roundings of `_phi` add less than 2^-50 of that, and the
    rounding to whole steps comes last (`most_steps`). Broken by test_a_contribution_stays_within_its_declared_norm and
    test_at_its_largest_a_contribution_is_its_bound_to_the_step.
    """

    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"soft truncation needs a positive finite scale, got {self.scale}")

    def grid(self, bits: int) -> float:
        return self.scale * SUPREMUM / 2.0**bits

    def norm(self, columns: int, bits: int) -> float:
        return 2.0**bits * math.nextafter(math.sqrt(columns), math.inf)

    def most(self, bits: int) -> float:
        return 2.0**bits

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        _add(X, slopes, squares, groups, (self.scale, most_steps(bits) / SUPREMUM), sums)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _phi(a, steps):  # type: ignore[no-untyped-def]
    """steps phi(a); what is not a number counts as an edge."""
    a = clamped(a, EDGE)
    return a * (steps - (a * a) * (steps * SIXTH))


@register_jitable
def _factor(slope, square, numbers):  # type: ignore[no-untyped-def]
    scale, _ = numbers
    return slope / scale


@register_jitable
def _steps(value, numbers):  # type: ignore[no-untyped-def]
    _, steps = numbers
    return nearest(_phi(value, steps))


_add = pass_of(_factor, _steps)

EXAMPLES = (Phi(scale=1.0), Phi(scale=1e-3), Phi(scale=50.0))
