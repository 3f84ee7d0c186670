"""Arithmetic whose result depends on its operands alone: products of a row and rounding to whole steps. Imports numba."""

from typing import Any

import numba
import numpy as np

_HALF_ULP_ONE = 1.5 * 2.0**52
_HALF_ULP_ONE_BITS = np.float64(_HALF_ULP_ONE).view(np.int64)
MOST_BITS = 48
FLOAT_BITS = 53


def most_steps(bits: int) -> float:
    """2^bits, for bits <= 48: up to there a number that exceeds 2^bits by a few roundings, less than 2^-50 of it, is rounded to 2^bits."""
    if not 0 <= bits <= MOST_BITS:
        raise ValueError(f"a contribution has at most 2^{MOST_BITS} steps, got 2^{bits}")
    return 2.0**bits


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def margins(X: Any, weights: Any, products: Any, squares: Any) -> None:
    """products[i] = X[i] . weights and squares[i] = X[i] . X[i], in one reading of X.

    The compiler may reorder a sum, and fuse products into it, once, when it compiles: what it does depends on the number of columns and
    the kind of processor, never on other rows or on where a row lies, so a row's value is its own (BLAS does not promise that). Any order
    errs by less than (columns + 8) 2^-53 of sum |X[i, j] weights[j]|.
    """
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    for i in range(rows):
        product = 0.0
        square = 0.0
        for j in range(columns):
            value = np.float64(X[i, j])
            product += value * weights[j]
            square += value * value
        products[i] = product
        squares[i] = square


@numba.njit(cache=True, nogil=True)
def whole(steps: Any) -> Any:
    """steps rounded to the nearest whole number, exactly, for |steps| < 2^51; beyond, a number as large. Never with fast-math."""
    return (steps + _HALF_ULP_ONE) - _HALF_ULP_ONE


@numba.njit(cache=True, nogil=True)
def nearest(steps: Any) -> Any:
    """whole(steps) as an integer, for |steps| < 2^51: the last bits of 1.5 * 2^52 + n are those of n. Never with fast-math."""
    return np.float64(steps + _HALF_ULP_ONE).view(np.int64) - _HALF_ULP_ONE_BITS


@numba.njit(cache=True, nogil=True)
def clamped(value: Any, most: Any) -> Any:
    """min(max(value, -most), most), and most for what is not a number: two instructions of any processor."""
    value = value if value < most else most
    return value if value > -most else -most


@numba.njit(cache=True, nogil=True)
def finite(slope: Any, square: Any) -> Any:
    """Whether no product of this slope and an entry of a row with this square can be anything but a number: 0 inf needs an inf."""
    return abs(slope) < np.inf and square < np.inf
