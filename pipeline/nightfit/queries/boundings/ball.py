"""Project a gradient onto an l2 ball around a public centre (Kamath et al. 2021, alg. 3, but clipped, not discarded). Imports numerics."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import rint_int
from nightfit.queries.boundings import Bounded, NormBounded
from nightfit.queries.boundings.l2_clip import TINY, radius_of
from nightfit.types import Array, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class Ball(Bounded, NormBounded):
    """(g - centre) min(1, bound / ||g - centre||); a centre of length one holds for all columns.

    Guarantee: a contribution's l2 norm is at most 2^bits steps, exactly: the proof is that of L2Clip, with the rounded difference
    g - centre in the place of the gradient. A row of zeros (a null or bad record) and a row with a number that is not finite add
    zero, so nulling a record removes its contribution and changes nothing else. Broken by
    test_a_contribution_stays_within_its_declared_norm and test_a_ball_far_from_zero_bounds_the_numbers_that_it_adds.
    """

    name: ClassVar[str] = "ball"
    centre: Array = field(default_factory=lambda: np.zeros(1))

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        columns = X.shape[1]
        centre = np.ascontiguousarray(np.broadcast_to(self.centre, columns))
        _add(X, slopes, squares, groups, centre, 2.0**bits / self.bound, radius_of(columns, bits), sums)

    def formulas(self, columns: int, bits: int) -> None:
        return None


@compiled
def _difference(slope, entry, centre):  # type: ignore[no-untyped-def]
    """slope entry - centre, rounded twice wherever it stands: a fused product would make the norm that of other numbers than are added."""
    return slope * entry - centre


@compiled(fastmath={"reassoc"})
def _square(row, slope, centre):  # type: ignore[no-untyped-def]
    """||slope row - centre||^2, added in any order that the compiler likes: the relative error stays below (columns + 8) 2^-53."""
    square = 0.0
    for j in range(np.uintp(row.shape[0])):
        difference = _difference(slope, row[j], centre[j])
        square += difference * difference
    return square


@compiled
def _add(X, slopes, squares, groups, centre, steps, radius, sums):  # type: ignore[no-untyped-def]
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    for i in range(rows):
        slope = slopes[i]
        norm = math.sqrt(_square(X[i], slope, centre))
        if not (TINY < math.sqrt(squares[i]) < math.inf and TINY < norm < math.inf):
            continue
        factor = min(steps, radius / norm)
        group = np.uintp(groups[i])
        for j in range(columns):
            sums[group, j] += rint_int(factor * _difference(slope, X[i, j], centre[j]))


EXAMPLES = (Ball(bound=1.0), Ball(bound=3.0, centre=np.array([0.5])), Ball(bound=1e-3, centre=np.array([-20.0])))
