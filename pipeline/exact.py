"""Arithmetic whose result depends on its operands alone: products of rows and rounding to whole steps. Imports numba, products."""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from pipeline.products import row_products

_HALF_ULP_ONE = 1.5 * 2.0**52
_HALF_ULP_ONE_BITS = np.float64(_HALF_ULP_ONE).view(np.int64)
MOST_BITS = 48
FLOAT_BITS = 53


def most_steps(bits: int) -> float:
    """2^bits, for bits <= 48: up to there a number that exceeds 2^bits by a few roundings, less than 2^-50 of it, is rounded to 2^bits."""
    if not 0 <= bits <= MOST_BITS:
        raise ValueError(f"a contribution has at most 2^{MOST_BITS} steps, got 2^{bits}")
    return 2.0**bits


@numba.njit(cache=True, nogil=True, error_model="numpy")
def margins(X: Any, weights: Any, products: Any, squares: Any) -> None:
    """products[i] = X[i] . weights and squares[i] = X[i] . X[i], in one reading of X (BLAS does not promise that a row's are its own)."""
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    for i in range(rows):
        products[i], squares[i] = row_products(X, i * columns, weights, columns)


@numba.njit(cache=True, nogil=True)
def whole(steps: Any) -> Any:
    """steps rounded to the nearest whole number, exactly, for |steps| < 2^51; beyond, a number as large. Never with fast-math."""
    return (steps + _HALF_ULP_ONE) - _HALF_ULP_ONE


@numba.njit(cache=True, nogil=True)
def nearest(steps: Any) -> Any:
    """whole(steps) as an integer, for |steps| < 2^51: the last bits of 1.5 * 2^52 + n are those of n. Never with fast-math."""
    return np.float64(steps + _HALF_ULP_ONE).view(np.int64) - _HALF_ULP_ONE_BITS


@intrinsic
def fused(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c rounded once, on every processor: what a compiler may or may not make of a product and a sum, said aloud."""
    return types.float64(types.float64, types.float64, types.float64), lambda target, builder, signature, words: builder.fma(*words)


@numba.njit(cache=True, nogil=True)
def nearest_product(a: Any, b: Any) -> Any:
    """The whole number nearest to a b, of which nothing else is rounded, for |a b| < 2^51."""
    return np.float64(fused(a, b, _HALF_ULP_ONE)).view(np.int64) - _HALF_ULP_ONE_BITS


@numba.njit(cache=True, nogil=True)
def clamped(value: Any, most: Any) -> Any:
    """min(max(value, -most), most), and most for what is not a number: two instructions of any processor."""
    value = value if value < most else most
    return value if value > -most else -most


@numba.njit(cache=True, nogil=True)
def finite(slope: Any, square: Any) -> Any:
    """Whether no product of this slope and an entry of a row with this square can be anything but a number: 0 inf needs an inf."""
    return abs(slope) < np.inf and square < np.inf
