"""Clip each coordinate of a gradient (Tao et al. 2022, sec. 5.1 as corrected; Kamath et al. 2021, app. B). Imports numerics and types."""

from dataclasses import dataclass
from typing import ClassVar

from numba.extending import register_jitable

from nightfit.numerics.exact import clamp, max_steps, rint_int
from nightfit.queries.boundings import Bounded, CoordinateBounded, Formulas, OfFormulas


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinateClip(Bounded, CoordinateBounded, OfFormulas):
    """clip(g_j, -bound, bound).

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly: it is clamped to that integer, and rounding to
    integers is monotone. Broken by test_a_contribution_stays_within_its_declared_norm.
    """

    name: ClassVar[str] = "coordinate_clip"

    def formulas(self, columns: int, bits: int) -> Formulas:
        return Formulas(_factor, _steps, (2.0**bits / self.bound, max_steps(bits)))


@register_jitable
def _factor(slope, square, parameters):  # type: ignore[no-untyped-def]
    steps, _ = parameters
    return slope * steps


@register_jitable
def _steps(value, parameters):  # type: ignore[no-untyped-def]
    _, top = parameters
    return rint_int(clamp(value, top))


EXAMPLES = (CoordinateClip(bound=1.0), CoordinateClip(bound=1e-4), CoordinateClip(bound=250.0))
