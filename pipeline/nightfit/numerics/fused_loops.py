"""Factories of compiled loops that are made of formulas: over a loss's margins, and over rows that a bounding bounds. Imports numerics.

A formula is a module-level function marked `register_jitable`; it becomes part of the loop. A formula that was edited is compiled again:
see `code_cache.fingerprint`.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.dot_products import row_products
from nightfit.numerics.exact import never_nan
from nightfit.types import Array

ZERO, ONE, TWO = np.uintp(0), np.uintp(1), np.uintp(2)

UNGROUPED = "every unit needs a group"


@functools.cache
def pointwise(formula: Callable[..., Any]) -> Callable[..., Array]:
    """Compile the array of formula(y[i], z[i], *parameters).

    On tiles of a thousand rows a call costs a tenth of a ufunc's.

    Parameters
    ----------
    formula : callable
        formula(y, z, *parameters) of two numbers, marked `register_jitable`.

    Returns
    -------
    callable
        loop(y, z, *parameters), which returns a float64 array of the length of z.
    """

    @compiled
    def pointwise_loop(y, z, *parameters):  # type: ignore[no-untyped-def]
        out = np.empty(len(z))
        for i in range(len(z)):
            out[i] = formula(y[i], z[i], *parameters)
        return out

    return pointwise_loop


@functools.cache
def bounded_sum_loop(factor: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., None]:
    """Compile sums[groups[i], j] += steps(factor(slopes[i], squares[i], parameters) * X[i, j], parameters).

    A product that is NaN adds nothing.

    Parameters
    ----------
    factor, steps : callable
        A bounding's formulas (`nightfit.queries.boundings.Formulas`), marked `register_jitable`.

    Returns
    -------
    callable
        loop(X, slopes, squares, groups, parameters, sums), which adds into `sums` and returns None.
    """

    @compiled
    def bounded_sum(X, slopes, squares, groups, parameters, sums):  # type: ignore[no-untyped-def]
        rows = np.uintp(X.shape[0])
        for i in range(ZERO, rows, TWO):
            k = i + ONE if i + ONE < rows else i
            a, b = factor(slopes[i], squares[i], parameters), factor(slopes[k], squares[k], parameters)
            first, second = np.uintp(groups[i]), np.uintp(groups[k])
            plain = never_nan(a, squares[i]) and never_nan(b, squares[k])
            _add_two_rows(X, i, k, a, b if k > i else 0.0, plain, first == second, first, second, steps, parameters, sums)

    return bounded_sum


@functools.cache
def gradient_sum_loop(slope: Callable[..., Any], factor: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., None]:
    """Compile `bounded_sum_loop(factor, steps)` with slopes[i] = slope(y[i], X[i] . weights, *slope_parameters) in the same loop.

    It takes two rows at a time, so that they are still in a core's first cache when they are added.

    Parameters
    ----------
    slope : callable
        A loss's formula, marked `register_jitable`.
    factor, steps : callable
        A bounding's formulas, marked `register_jitable`.

    Returns
    -------
    callable
        loop(X, y, weights, groups, slope_parameters, parameters, sums), which adds into `sums` and returns None. Empty `groups` put
        every row into the first group; a group outside `sums` raises ValueError.
    """

    @compiled
    def gradient_sum(X, y, weights, groups, slope_parameters, parameters, sums):  # type: ignore[no-untyped-def]
        rows, columns, count, grouped = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(sums.shape[0]), len(groups) > 0
        for i in range(ZERO, rows, TWO):
            k = i + ONE if i + ONE < rows else i
            z, square = row_products(X, i * columns, weights, columns)
            a = factor(slope(y[i], z, *slope_parameters), square, parameters)
            z, other = row_products(X, k * columns, weights, columns)
            b = factor(slope(y[k], z, *slope_parameters), other, parameters)
            first, second = (np.uintp(groups[i]), np.uintp(groups[k])) if grouped else (ZERO, ZERO)
            if first >= count or second >= count:
                raise ValueError(UNGROUPED)
            plain = never_nan(a, square) and never_nan(b, other)
            _add_two_rows(X, i, k, a, b if k > i else 0.0, plain, not grouped, first, second, steps, parameters, sums)

    return gradient_sum


@compiled(inline="always")
def _add_two_rows(X, i, k, a, b, plain, same_group, first, second, steps, parameters, sums):  # type: ignore[no-untyped-def]
    """Add rows i and k, times a and b, to the sums of their groups; rows of the same group share one read and write of its sums.

    `plain` says that no product can be NaN.
    """
    columns = np.uintp(X.shape[1])
    if not plain:
        for j in range(columns):
            value = a * X[i, j]
            sums[first, j] += steps(value, parameters) if value == value else 0
            value = b * X[k, j]
            sums[second, j] += steps(value, parameters) if value == value else 0
    elif same_group:
        for j in range(columns):
            sums[first, j] += steps(a * X[i, j], parameters) + steps(b * X[k, j], parameters)
    else:
        for j in range(columns):
            sums[first, j] += steps(a * X[i, j], parameters)
        for j in range(columns):
            sums[second, j] += steps(b * X[k, j], parameters)
