"""Catoni's soft truncation of each coordinate (Wang et al. 2020, eq. 8; Xie et al. 2023, alg. 4, unsmoothed). Imports numerics."""

import math
from dataclasses import dataclass
from typing import ClassVar

from numba.extending import register_jitable

from nightfit.numerics.exact import clamp, fma, max_steps, rint_product
from nightfit.queries.boundings import CoordinateBounded, Formulas, OfFormulas

SUPREMUM = 2 * math.sqrt(2) / 3
EDGE = math.sqrt(2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Phi(CoordinateBounded, OfFormulas):
    """scale phi(g_j / scale), phi(a) = a - a^3 / 6 for |a| <= sqrt 2 and sign(a) 2 sqrt 2 / 3 beyond.

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly; a step is scale (2 sqrt 2 / 3) / 2^bits. Proof:
    |a| is clamped to sqrt 2, where |phi(a)| <= 2 sqrt 2 / 3; the roundings of `formulas` and `_steps` change that by less than 2^-50 of
    it (phi is flat at sqrt 2), and the rounding to integers comes last (`max_steps`).
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

    def formulas(self, columns: int, bits: int) -> Formulas:
        """steps phi(a) = v (gain - v^2) for v = c a, c = (steps / 6)^(1/3) and gain = steps / c."""
        steps = max_steps(bits) / SUPREMUM
        c = math.cbrt(steps / 6)
        return Formulas(_factor, _steps, (c / self.scale, c * EDGE, steps / c))


@register_jitable
def _factor(slope, square, parameters):  # type: ignore[no-untyped-def]
    stretch, _, _ = parameters
    return slope * stretch


@register_jitable
def _steps(value, parameters):  # type: ignore[no-untyped-def]
    _, edge, gain = parameters
    v = clamp(value, edge)
    return rint_product(v, fma(-v, v, gain))


EXAMPLES = (Phi(scale=1.0), Phi(scale=1e-3), Phi(scale=50.0))
