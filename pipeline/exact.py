"""Arithmetic whose result depends on its operands alone: a dot product of fixed order and rounding to whole steps. Imports numba."""

from typing import Any

import numba
import numpy as np

_ONE, _TWO, _THREE, _FOUR, _FIVE, _SIX, _SEVEN, _EIGHT = (np.uintp(k) for k in range(1, 9))
_HALF_ULP_ONE = 1.5 * 2.0**52


@numba.njit(cache=True, nogil=True)
def dot(a: Any, b: Any) -> Any:
    """sum_j a_j b_j in eight running sums, so that the order is that of the indices alone: not the machine's, not BLAS's."""
    columns = np.uintp(len(a))
    eights = columns // _EIGHT
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for k in range(eights):
        j = k * _EIGHT
        s0 += a[j] * b[j]
        s1 += a[j + _ONE] * b[j + _ONE]
        s2 += a[j + _TWO] * b[j + _TWO]
        s3 += a[j + _THREE] * b[j + _THREE]
        s4 += a[j + _FOUR] * b[j + _FOUR]
        s5 += a[j + _FIVE] * b[j + _FIVE]
        s6 += a[j + _SIX] * b[j + _SIX]
        s7 += a[j + _SEVEN] * b[j + _SEVEN]
    for rest in range(eights * _EIGHT, columns):
        s0 += a[rest] * b[rest]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@numba.njit(cache=True, nogil=True)
def whole(steps: Any) -> Any:
    """steps rounded to the nearest whole number, exactly, for |steps| < 2^51; beyond, a number as large. Never with fast-math."""
    return (steps + _HALF_ULP_ONE) - _HALF_ULP_ONE
