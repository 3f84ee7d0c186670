"""Scale a gradient back to an l2 ball (Xie et al. 2023, alg. 1; Kamath et al. 2021, but clipped, not discarded). Imports numerics, rows."""

import math
from dataclasses import dataclass
from typing import ClassVar

from numba.extending import register_jitable

from nightfit.numerics.exact import clamp, inner_radius, max_steps, rint, rint_int
from nightfit.queries.boundings import Bounded, Formulas, NormBounded, OfFormulas
from nightfit.queries.rows import RESOLUTION

TINY = 2.0**-500  # squares of smaller numbers are below 2^-1000 and lose digits to underflow
STEP = 2.0**-RESOLUTION  # of a row of whole numbers
FACTOR_BITS = 14
"""Least bits of the whole factor of a row whose coordinates are one scale each, where its gradient is clipped. A gradient of a hundredth of
the bound then still has 160 steps, which differ from record to record: their roundings average out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class L2Clip(Bounded, NormBounded, OfFormulas):
    """g min(1, bound / ||g||).

    Guarantee: a contribution's l2 norm is at most 2^bits steps, exactly. Proof: the vector is scaled to the radius of `radius_of`,
    whose margin exceeds the relative rounding error of the computed norm and products (at most (d + 8) 2^-53), and rounding to
    integers adds at most sqrt(d) / 2. A row whose norm is at most 2^-500 adds zero: its squares would lose their digits to
    underflow. Broken by test_a_contribution_stays_within_its_declared_norm.
    A row of whole numbers q adds A q, with A the rounded factor, whose magnitude is at most floor(radius / ||q||); ||q||^2 is a whole
    number of at most 2^52, hence exact, and its root and the quotient err by less than the margin. So ||A q|| = |A| ||q|| <= 2^bits.
    Broken by test_a_whole_contribution_stays_within_its_declared_norm.
    """

    name: ClassVar[str] = "l2_clip"

    def formulas(self, columns: int, bits: int) -> Formulas:
        whole = _whole if bits >= RESOLUTION + math.log2(columns) / 2 + FACTOR_BITS else None
        return Formulas(_factor, _steps, (2.0**bits / self.bound, radius_of(columns, bits)), whole)


def radius_of(columns: int, bits: int) -> float:
    """2^bits (1 - margin) - sqrt(columns) / 2: a vector that is scaled to this norm and rounded to integers has a norm up to 2^bits."""
    return float(inner_radius(max_steps(bits), columns))


@register_jitable
def _factor(slope, square, parameters):  # type: ignore[no-untyped-def]
    steps, radius = parameters
    norm = math.sqrt(square)
    factor = clamp(slope * steps, radius / norm)
    return factor if TINY < norm < math.inf and slope == slope else 0.0


@register_jitable
def _whole(slope, square, parameters):  # type: ignore[no-untyped-def]
    steps, radius = parameters
    most = math.floor(radius / math.sqrt(square)) if square > 0.0 else 0.0
    return rint(clamp(slope * steps * STEP, most)) if slope == slope else 0.0


@register_jitable
def _steps(value, parameters):  # type: ignore[no-untyped-def]
    return rint_int(value)


EXAMPLES = (L2Clip(bound=1.0), L2Clip(bound=3e-5), L2Clip(bound=700.0))
