"""Clip each coordinate of a gradient (Tao et al. 2022, sec. 5.1 as corrected; Kamath et al. 2021, app. B). Imports rooms below."""

import math
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from pipeline.exact import clamped, finite, whole
from pipeline.prefetch import fetch_row
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinateClip:
    """clip(g_j, -bound, bound).

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly, because it is rounded first and clamped
    last. Broken by test_a_contribution_stays_within_its_declared_norm.
    """

    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a coordinate clip needs a positive finite bound, got {self.bound}")

    def grid(self, bits: int) -> float:
        return self.bound / 2.0**bits

    def norm(self, columns: int, bits: int) -> float:
        return 2.0**bits * math.nextafter(math.sqrt(columns), math.inf)

    def most(self, bits: int) -> float:
        return 2.0**bits

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Array) -> None:
        _add(X, slopes, squares, groups, 2.0**bits / self.bound, 2.0**bits, sums)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add(X, slopes, squares, groups, steps, top, sums):  # type: ignore[no-untyped-def]
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    for i in range(rows):
        fetch_row(X, i + rows)
        slope = slopes[i] * steps
        group = np.uintp(groups[i])
        if finite(slope, squares[i]):
            for j in range(columns):
                sums[group, j] += clamped(whole(slope * X[i, j]), top)
        else:
            for j in range(columns):
                step = whole(slope * X[i, j])
                sums[group, j] += clamped(step, top) if step == step else 0.0


EXAMPLES = (CoordinateClip(bound=1.0), CoordinateClip(bound=1e-4), CoordinateClip(bound=250.0))
