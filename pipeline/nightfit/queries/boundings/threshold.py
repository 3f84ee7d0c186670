"""Drop each coordinate of a gradient that is too large (Tao et al. 2022, alg. 1 and 3). Imports numerics and types."""

from dataclasses import dataclass
from typing import ClassVar

from numba.extending import register_jitable

from nightfit.numerics.exact import max_steps, rint_product
from nightfit.queries.boundings import Bounded, CoordinateBounded, Formulas, OfFormulas


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold(Bounded, CoordinateBounded, OfFormulas):
    """g_j where |g_j| <= bound, and 0 elsewhere, as for an infinite g_j or NaN. Tao et al. (2022), alg. 1, line 1; their B is our bound.

    It is here for comparison: a coordinate clip has the same sensitivity and less bias, E(|g| - B)_+ against E |g| 1(|g| > B).
    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly. Proof: |g| <= bound; the two roundings of
    g 2^bits / bound add less than 2^-50 of 2^bits, and the rounding to integers comes last (`max_steps`). The paper prints the product
    g 1(|g| <= B), which is NaN for an infinite g; a conditional is not. Broken by test_a_contribution_stays_within_its_declared_norm
    and test_at_its_largest_a_contribution_is_its_bound_to_the_step.
    """

    name: ClassVar[str] = "threshold"

    def formulas(self, columns: int, bits: int) -> Formulas:
        return Formulas(_factor, _steps, (self.bound, max_steps(bits) / self.bound))


@register_jitable
def _factor(slope, square, parameters):  # type: ignore[no-untyped-def]
    return slope


@register_jitable
def _steps(value, parameters):  # type: ignore[no-untyped-def]
    bound, steps = parameters
    return rint_product(value if abs(value) <= bound else 0.0, steps)


EXAMPLES = (Threshold(bound=1.0), Threshold(bound=1e-4), Threshold(bound=250.0))
