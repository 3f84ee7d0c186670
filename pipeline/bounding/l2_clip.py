"""Scale a gradient back to an l2 ball (Xie et al. 2023, alg. 1; Kamath et al. 2021 with clipping for discarding). Imports rooms below."""

import math
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from pipeline.exact import clamped, whole
from pipeline.prefetch import fetch_row
from pipeline.types import Array

TINY = 2.0**-500


@dataclass(frozen=True, kw_only=True, slots=True)
class L2Clip:
    """g min(1, bound / ||g||).

    Guarantee: a contribution's l2 norm is at most 2^bits steps, exactly. Proof: the vector is scaled to radius
    2^bits (1 - margin) - sqrt(d) / 2, whose margin exceeds the relative rounding error of the computed norm and products
    (at most (d + 8) 2^-53), and rounding to whole steps adds at most sqrt(d) / 2. A row whose norm is at most
    2^-500 adds zero: its squares would lose their digits to underflow. Broken by
    test_a_contribution_stays_within_its_declared_norm.
    """

    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"an l2 clip needs a positive finite bound, got {self.bound}")

    def grid(self, bits: int) -> float:
        return self.bound / 2.0**bits

    def norm(self, columns: int, bits: int) -> float:
        return 2.0**bits

    def most(self, bits: int) -> float:
        return 2.0**bits

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Array) -> None:
        columns = X.shape[1]
        margin = max(2.0**-40, (columns + 8) * 2.0**-51)
        radius = 2.0**bits * (1 - margin) - math.sqrt(columns) / 2
        _add(X, slopes, squares, groups, 2.0**bits / self.bound, radius, sums)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add(X, slopes, squares, groups, steps, radius, sums):  # type: ignore[no-untyped-def]
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    for i in range(rows):
        fetch_row(X, i + rows)
        norm = math.sqrt(squares[i])
        slope = slopes[i] * steps
        group = np.uintp(groups[i])
        if TINY < norm < math.inf and slope == slope:
            factor = clamped(slope, radius / norm)
            for j in range(columns):
                sums[group, j] += whole(factor * X[i, j])


EXAMPLES = (L2Clip(bound=1.0), L2Clip(bound=3e-5), L2Clip(bound=700.0))
