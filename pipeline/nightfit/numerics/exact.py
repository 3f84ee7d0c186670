"""Arithmetic whose result depends on its operands alone: products of rows and rounding to whole steps. Imports numba, products."""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from nightfit.numerics.compiled import compiled
from nightfit.numerics.dot_products import row_products

_HALF_ULP_ONE = 1.5 * 2.0**52
_HALF_ULP_ONE_BITS = np.float64(_HALF_ULP_ONE).view(np.int64)
MOST_BITS = 48
FLOAT_BITS = 53
LEAST = -800.0  # exp of less is 0, as this is
LOG_2, LOG_2_REST, LOG2_E = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"), 1 / math.log(2)
T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12, T13 = (1 / math.factorial(k) for k in range(2, 14))
ONE, BIAS, MANTISSA = np.int64(1), np.int64(1023), np.int64(52)


def max_steps(bits: int) -> float:
    """2^bits, for bits <= 48: up to there a number that exceeds 2^bits by a few roundings, less than 2^-50 of it, is rounded to 2^bits."""
    if not 0 <= bits <= MOST_BITS:
        raise ValueError(f"a contribution has at most 2^{MOST_BITS} steps, got 2^{bits}")
    return 2.0**bits


def inner_radius(steps: Any, columns: int) -> Any:
    """steps (1 - margin) - sqrt(columns) / 2 with margin = max(2^-40, (columns + 8) 2^-51).

    What is scaled to this norm and then rounded to whole numbers has a norm of at most `steps`: the margin is more than the relative
    error of a computed norm and of the products with it, at most (columns + 8) 2^-53, and rounding adds at most sqrt(columns) / 2.
    """
    return steps * (1 - max(2.0**-40, (columns + 8) * 2.0**-51)) - math.sqrt(columns) / 2


@compiled
def margins(X: Any, weights: Any, products: Any, squares: Any) -> None:
    """products[i] = X[i] . weights and squares[i] = X[i] . X[i], in one reading of X (BLAS does not promise that a row's are its own)."""
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    table, factors = np.ascontiguousarray(X), np.ascontiguousarray(weights)  # as a rule they are, and are not copied
    for i in range(rows):
        products[i], squares[i] = row_products(table, i * columns, factors, columns)


@compiled
def rint(steps: Any) -> Any:
    """steps rounded to the nearest whole number, exactly, for |steps| < 2^51; beyond, a number as large. Never with fast-math."""
    return (steps + _HALF_ULP_ONE) - _HALF_ULP_ONE


@compiled
def rint_int(steps: Any) -> Any:
    """whole(steps) as an integer, for |steps| < 2^51: the last bits of 1.5 * 2^52 + n are those of n. Never with fast-math."""
    return np.float64(steps + _HALF_ULP_ONE).view(np.int64) - _HALF_ULP_ONE_BITS


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c rounded once, on every processor: what a compiler may or may not make of a product and a sum, said aloud."""
    return types.float64(types.float64, types.float64, types.float64), lambda target, builder, signature, words: builder.fma(*words)


@compiled
def rint_product(a: Any, b: Any) -> Any:
    """The whole number nearest to a b, of which nothing else is rounded, for |a b| < 2^51."""
    return np.float64(fma(a, b, _HALF_ULP_ONE)).view(np.int64) - _HALF_ULP_ONE_BITS


@compiled
def clamp(value: Any, most: Any) -> Any:
    """min(max(value, -most), most), and most for what is not a number: two instructions of any processor."""
    value = value if value < most else most
    return value if value > -most else -most


@compiled
def decay(x: Any) -> Any:
    """exp(x) for x <= 0, with an error of less than 2^-51 of it (or 2^-1074): the same bits on every machine, and part of the loop that
    calls it, as a library's exp is not.

    With n = x / log 2 rounded, 2^n is written by its bits, a half at a time because it may be smaller than any, and exp(r),
    r = x - n log 2 with |r| <= 0.35, is Taylor's polynomial of degree 13: what is left out is below 2^-57. Broken by test_decay_is_exp.
    """
    x = LEAST if x < LEAST else x
    n = rint_int(x * LOG2_E)
    r = fma(-np.float64(n), LOG_2_REST, fma(-np.float64(n), LOG_2, x))
    s, t = r * r, r * r * (r * r)
    low = fma(s, fma(r, T3, T2), fma(r, 1.0, 1.0))
    middle = fma(s, fma(r, T7, T6), fma(r, T5, T4))
    high = fma(s, fma(r, T11, T10), fma(r, T9, T8))
    top = fma(t, fma(r, T13, T12), high)
    half = n >> ONE
    return fma(t, fma(t, top, middle), low) * _power(half) * _power(n - half)


@compiled
def _power(n: Any) -> Any:
    """2^n."""
    return np.int64((n + BIAS) << MANTISSA).view(np.float64)


@compiled
def never_nan(slope: Any, square: Any) -> Any:
    """Whether no product of this slope and an entry of a row with this square can be anything but a number: 0 inf needs an inf."""
    return abs(slope) < np.inf and square < np.inf
