"""Arithmetic whose result depends on its operands alone, not on the machine: dot products, rounding to integers, exp. Imports numba."""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from nightfit.numerics.compiled import compiled
from nightfit.numerics.dot_products import row_products

FLOAT_BITS = 53  # a float64 holds every integer up to 2^53
MAX_BITS = 48  # see `max_steps`
ROUNDER = 1.5 * 2.0**52  # floats from 2^52 to 2^53 are the integers, so adding this rounds to an integer, for numbers of either sign
ROUNDER_BITS = np.float64(ROUNDER).view(np.int64)

LEAST_EXPONENT = -800.0  # exp(-746) rounds to 0 already
LOG_2, LOG_2_REST, LOG2_E = float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"), 1 / math.log(2)
T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12, T13 = (1 / math.factorial(k) for k in range(2, 14))
ONE, EXPONENT_BIAS, MANTISSA_BITS = np.int64(1), np.int64(1023), np.int64(52)


def max_steps(bits: int) -> float:
    """2^bits, the number of grid steps on each side of zero.

    Up to 2^48 a number that exceeds 2^bits by a few rounding errors, by less than 2^-50 of it, is rounded to the integer 2^bits.

    Raises
    ------
    ValueError
        If bits is negative or more than 48.
    """
    if not 0 <= bits <= MAX_BITS:
        raise ValueError(f"a contribution has at most 2^{MAX_BITS} steps, got 2^{bits}")
    return 2.0**bits


def inner_radius(steps: Any, columns: int) -> Any:
    """steps (1 - margin) - sqrt(columns) / 2 with margin = max(2^-40, (columns + 8) 2^-51).

    A vector that is scaled to this norm and then rounded to integers has a norm of at most `steps`: the margin exceeds the relative
    error of a computed norm and of the products with it, at most (columns + 8) 2^-53, and rounding adds at most sqrt(columns) / 2.
    """
    return steps * (1 - max(2.0**-40, (columns + 8) * 2.0**-51)) - math.sqrt(columns) / 2


@compiled
def margins(X: Any, weights: Any, products: Any, squares: Any) -> None:
    """products[i] = X[i] . weights and squares[i] = X[i] . X[i], reading X once.

    A row's products do not depend on the other rows. BLAS does not promise that.

    Parameters
    ----------
    X : array of float32 or float64, rows x columns
    weights : array of float64
    products, squares : array of float64
        Outputs; entries behind the last row are left as they are.
    """
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    table, factors = np.ascontiguousarray(X), np.ascontiguousarray(weights)  # copies only what is not contiguous
    for i in range(rows):
        products[i], squares[i] = row_products(table, i * columns, factors, columns)


@compiled
def rint(value: Any) -> Any:
    """value rounded to the nearest integer (ties to even), as a float, for |value| < 2^51; larger values stay as large.

    Never compile it with fast-math, which would cancel the sum.
    """
    return (value + ROUNDER) - ROUNDER


@compiled
def rint_int(value: Any) -> Any:
    """rint(value) as an int64, for |value| < 2^51: the last bits of the float 1.5 * 2^52 + n are those of the integer n."""
    return np.float64(value + ROUNDER).view(np.int64) - ROUNDER_BITS


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once, on every processor: a compiler is free to fuse a product and a sum or not, and this is always fused."""
    return types.float64(types.float64, types.float64, types.float64), lambda target, builder, signature, words: builder.fma(*words)


@compiled
def rint_product(a: Any, b: Any) -> Any:
    """The exact product a b rounded to the nearest integer, as an int64, for |a b| < 2^51."""
    return np.float64(fma(a, b, ROUNDER)).view(np.int64) - ROUNDER_BITS


@compiled
def clamp(value: Any, bound: Any) -> Any:
    """min(max(value, -bound), bound), and `bound` for NaN: two instructions of any processor."""
    value = value if value < bound else bound
    return value if value > -bound else -bound


@compiled
def decay(x: Any) -> Any:
    """exp(x) for x <= 0, with an error of less than 2^-51 of it (or 2^-1074), and with the same bits on every machine.

    Unlike a library's exp it is inlined and vectorised. With n = x / log 2 rounded, 2^n is made from its bits, in two halves because
    2^n alone may underflow; exp(r) for r = x - n log 2, |r| <= 0.35, is the Taylor polynomial of degree 13, whose remainder is below
    2^-57. Broken by test_decay_is_exp.
    """
    x = LEAST_EXPONENT if x < LEAST_EXPONENT else x
    n = rint_int(x * LOG2_E)
    r = fma(-np.float64(n), LOG_2_REST, fma(-np.float64(n), LOG_2, x))
    s, t = r * r, r * r * (r * r)
    low = fma(s, fma(r, T3, T2), fma(r, 1.0, 1.0))
    middle = fma(s, fma(r, T7, T6), fma(r, T5, T4))
    high = fma(s, fma(r, T11, T10), fma(r, T9, T8))
    top = fma(t, fma(r, T13, T12), high)
    half = n >> ONE
    return fma(t, fma(t, top, middle), low) * _power_of_two(half) * _power_of_two(n - half)


@compiled
def _power_of_two(n: Any) -> Any:
    """2^n for an exponent n of normal floats."""
    return np.int64((n + EXPONENT_BIAS) << MANTISSA_BITS).view(np.float64)


@compiled
def never_nan(slope: Any, square: Any) -> Any:
    """Whether no product of this slope and an entry of a row with this squared norm can be NaN: that needs an infinity or a NaN."""
    return abs(slope) < np.inf and square < np.inf
