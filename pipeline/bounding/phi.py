"""Catoni's soft truncation of each coordinate (Wang et al. 2020, eq. 8; Xie et al. 2023, alg. 4, unsmoothed). Imports rooms below."""

import math
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from pipeline.exact import whole
from pipeline.types import Array

SUPREMUM = 2 * math.sqrt(2) / 3
SIXTH = 1 / 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Phi:
    """scale phi(g_j / scale), phi(a) = a - a^3 / 6 for |a| <= sqrt 2 and sign(a) 2 sqrt 2 / 3 beyond.

    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly, because it is rounded first and clamped
    last; a step is scale (2 sqrt 2 / 3) / 2^bits. Broken by test_a_contribution_stays_within_its_declared_norm.
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

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Array) -> None:
        _add(X, slopes, groups, self.scale, 2.0**bits, sums)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add(X, slopes, groups, scale, top, sums):  # type: ignore[no-untyped-def]
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    edge = math.sqrt(2.0)
    steps = top / SUPREMUM
    for i in range(rows):
        slope = slopes[i] / scale
        group = np.uintp(groups[i])
        for j in range(columns):
            a = min(max(slope * X[i, j], -edge), edge)
            step = whole(a * (1.0 - a * a * SIXTH) * steps)
            step = min(max(step, -top), top)
            sums[group, j] += step if step == step else 0.0


EXAMPLES = (Phi(scale=1.0), Phi(scale=1e-3), Phi(scale=50.0))
