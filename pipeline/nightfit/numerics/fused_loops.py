"""Compiled passes made of formulas: over the numbers of a loss, and over rows that a bounding bounds. Imports numba and rooms below.

A formula is a module-level function marked `register_jitable`: it becomes part of the loop. Numba keeps a loop's machine code on disk
under the names of its formulas; the digest of the files that they and their arithmetic are written in is part of that key, so a formula
that was edited is compiled again. Broken by test_a_formula_that_was_edited_is_compiled_again.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from nightfit.numerics import dot_products as products
from nightfit.numerics import exact
from nightfit.numerics.dot_products import row_products
from nightfit.numerics.exact import finite
from nightfit.types import Array

NONE, ONE, TWO = np.uintp(0), np.uintp(1), np.uintp(2)

UNGROUPED = "every unit needs a group"


def pointwise(formula: Callable[..., Any]) -> Callable[..., Array]:
    """The compiled array of formula(y[i], z[i], *numbers): a tenth of the cost of calling a ufunc, on tiles of a thousand rows."""
    written = _written(formula)

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def over(y, z, *numbers):  # type: ignore[no-untyped-def]
        written  # noqa: B018  (makes the digest one of the function's own variables)
        found = np.empty(len(z))
        for i in range(len(z)):
            found[i] = formula(y[i], z[i], *numbers)
        return found

    return over


def pass_of(factor: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., None]:
    """The compiled sums[groups[i], j] += steps(factor(slopes[i], squares[i], numbers) * X[i, j], numbers); a product that is not a
    number adds nothing.

    `numbers` are the formulas' parameters.
    """
    written = _written(factor, steps)

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def add(X, slopes, squares, groups, numbers, sums):  # type: ignore[no-untyped-def]
        written  # noqa: B018  (makes the digest one of the function's own variables)
        rows = np.uintp(X.shape[0])
        for i in range(NONE, rows, TWO):
            k = i + ONE if i + ONE < rows else i
            a, b = factor(slopes[i], squares[i], numbers), factor(slopes[k], squares[k], numbers)
            first, second = np.uintp(groups[i]), np.uintp(groups[k])
            plain = finite(a, squares[i]) and finite(b, squares[k])
            _add_two(X, i, k, a, b if k > i else 0.0, plain, first == second, first, second, steps, numbers, sums)

    return add


@functools.cache
def fused_pass_of(slope: Callable[..., Any], factor: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., None]:
    """pass_of(factor, steps) with slopes[i] = slope(y[i], X[i] . weights, *parameters): two rows at a time, so that they are still in a
    core's first cache when they are added. Without groups (an empty array) all are in the first.
    """
    written = _written(slope, factor, steps)

    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def add(X, y, weights, groups, parameters, numbers, sums):  # type: ignore[no-untyped-def]
        written  # noqa: B018  (makes the digest one of the function's own variables)
        rows, columns, count, grouped = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(sums.shape[0]), len(groups) > 0
        for i in range(NONE, rows, TWO):
            k = i + ONE if i + ONE < rows else i
            z, square = row_products(X, i * columns, weights, columns)
            a = factor(slope(y[i], z, *parameters), square, numbers)
            z, other = row_products(X, k * columns, weights, columns)
            b = factor(slope(y[k], z, *parameters), other, numbers)
            first, second = (np.uintp(groups[i]), np.uintp(groups[k])) if grouped else (NONE, NONE)
            if first >= count or second >= count:
                raise ValueError(UNGROUPED)
            plain = finite(a, square) and finite(b, other)
            _add_two(X, i, k, a, b if k > i else 0.0, plain, not grouped, first, second, steps, numbers, sums)

    return add


@numba.njit(inline="always")
def _add_two(X, i, k, a, b, plain, together, first, second, steps, numbers, sums):  # type: ignore[no-untyped-def]
    """Adds two rows to the sums of their groups; those that are `together` in one share its reading and writing."""
    columns = np.uintp(X.shape[1])
    if not plain:
        for j in range(columns):
            value = a * X[i, j]
            sums[first, j] += steps(value, numbers) if value == value else 0
            value = b * X[k, j]
            sums[second, j] += steps(value, numbers) if value == value else 0
    elif together:
        for j in range(columns):
            sums[first, j] += steps(a * X[i, j], numbers) + steps(b * X[k, j], numbers)
    else:
        for j in range(columns):
            sums[first, j] += steps(a * X[i, j], numbers)
        for j in range(columns):
            sums[second, j] += steps(b * X[k, j], numbers)


def _written(*formulas: Any) -> str:
    names = {formula.__code__.co_filename for formula in formulas} | {exact.__file__, products.__file__}
    return hashlib.sha256(b"".join(Path(name).read_bytes() for name in sorted(names))).hexdigest()
