"""Compiled loops over rows of numbers and codes: to codes and back, and sums of bounded gradients. Imports numerics.

Where at most one of some columns of a row is one and the others are zero, a code tells which: its place in an order that has the numbers
first, then one place for none, then every such column.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.dot_products import LANES, row_lanes
from nightfit.numerics.exact import never_nan, rint, rint_int
from nightfit.numerics.fused_loops import UNGROUPED

ZERO = np.uintp(0)


@compiled
def coded(X, numbers, firsts, widths, kept, codes):  # type: ignore[no-untyped-def]
    """Write the columns `numbers` of X to `kept`, and the codes of categories, whose columns begin at `firsts`; codes behind them: none."""
    for i in range(X.shape[0]):
        for j in range(len(numbers)):
            kept[i, j] = X[i, numbers[j]]
        codes[i] = len(numbers)
        place = len(numbers) + 1
        for c in range(len(firsts)):
            for k in range(widths[c]):
                if X[i, firsts[c] + k] != 0.0:
                    codes[i, c] = place + k
            place += widths[c]


@compiled
def coded_squares(kept, codes, ones, squares):  # type: ignore[no-untyped-def]
    """squares[i] = x . x of row i; ones[p] is one where place p is a column."""
    columns, width, lanes = np.uintp(kept.shape[1]), np.uintp(codes.shape[1]), np.empty(2 * LANES)
    for i in range(np.uintp(kept.shape[0])):
        row_lanes(kept, i * columns, ones, columns, lanes)
        squares[i] = _with_codes(codes, i, width, ones, lanes[LANES:])


@compiled
def decoded(kept, codes, order, out):  # type: ignore[no-untyped-def]
    """The inverse of `coded`; order[p] is the column of place p, -1 of none."""
    for i in range(out.shape[0]):
        out[i] = 0.0
        for j in range(kept.shape[1]):
            out[i, order[j]] = kept[i, j]
        for c in range(codes.shape[1]):
            column = order[codes[i, c]]
            if column >= 0:
                out[i, column] = 1.0


@functools.cache
def coded_gradient_sum_loop(slope: Callable[..., Any], factor: Callable[..., Any], steps: Callable[..., Any]) -> Callable[..., None]:
    """Compile `fused_loops.gradient_sum_loop` for rows of numbers and codes.

    The integers are those of dense rows: columns of zeros change neither a margin nor a sum, because steps(0) is 0, and a one is added to
    a lane as `row_products` adds a column. Category c goes to lane c mod 8, as if its columns were eight apart, after all numbers.

    Returns
    -------
    callable
        loop(X, codes, categories, squares, y, weights, groups, slope_parameters, parameters, sums). Weights and sums have an entry for
        each place: the weight of none is zero, and its sum means nothing. Rows have a multiple of eight codes, of which those behind the
        first `categories` are none.
    """

    @compiled
    def coded_gradient_sum(X, codes, categories, squares, y, weights, groups, slope_parameters, parameters, sums):  # type: ignore[no-untyped-def]
        columns, count, grouped = np.uintp(X.shape[1]), np.uintp(sums.shape[0]), len(groups) > 0
        lanes, width = np.empty(2 * LANES), np.uintp(codes.shape[1])
        for i in range(np.uintp(X.shape[0])):
            row_lanes(X, i * columns, weights, columns, lanes)
            z, square = _with_codes(codes, i, width, weights, lanes), squares[i]
            a = factor(slope(y[i], z, *slope_parameters), square, parameters)
            group = np.uintp(groups[i]) if grouped else ZERO
            if group >= count:
                raise ValueError(UNGROUPED)
            if never_nan(a, square):
                for j in range(columns):
                    sums[group, j] += steps(a * X[i, j], parameters)
            else:
                for j in range(columns):
                    value = a * X[i, j]
                    sums[group, j] += steps(value, parameters) if value == value else 0
            one = steps(a, parameters) if a == a else 0
            for c in range(np.uintp(categories)):
                sums[group, np.uintp(codes[i, c])] += one

    return coded_gradient_sum


@functools.cache
def whole_gradient_sum_loop(slope: Callable[..., Any], factor: Callable[..., Any]) -> Callable[..., None]:
    """Compile the sums of A q over rows q of whole numbers that are kept as numbers and codes, with a whole factor A of slope and square.

    In the column of a level, q is one whole number in rows of the level and another in all others. So the sum is the second one times the
    sum of A, and their difference times the sum of A over rows of the level: columns of other levels are skipped, centred or not.

    Returns
    -------
    callable
        loop(X, codes, categories, y, scaling, steps, none, added, groups, slope_parameters, parameters, sums). `scaling` has the centre,
        1 / scale, reach and weight of each number; q has `steps` steps for each scale. `none` has the margin and the square of the columns
        of levels in a row without any, and `added` what a code adds to both. Sums have an entry for each place, which counts a number's q
        and a level's A, and behind them the sum of A.
    """

    @compiled
    def whole_gradient_sum(X, codes, categories, y, scaling, steps, none, added, groups, slope_parameters, parameters, sums):  # type: ignore[no-untyped-def]
        columns, last, count, grouped = np.uintp(X.shape[1]), np.uintp(sums.shape[1] - 1), np.uintp(sums.shape[0]), len(groups) > 0
        q = np.empty(columns)
        for i in range(np.uintp(X.shape[0])):
            z, square, null = none[0], none[1], True
            for j in range(columns):
                value = min(max((X[i, j] - scaling[0, j]) * scaling[1, j], -scaling[2, j]), scaling[2, j])
                q[j] = rint(value * steps) if value == value else 0.0
                null = null and X[i, j] == 0.0
                z += scaling[3, j] * q[j]
                square += q[j] * q[j]
            for c in range(np.uintp(categories)):
                code = np.uintp(codes[i, c])
                null = null and code == columns
                z += added[code, 0]
                square += added[code, 1]
            a = 0.0 if null else factor(slope(y[i], z, *slope_parameters), square, parameters)
            group = np.uintp(groups[i]) if grouped else ZERO
            if group >= count:
                raise ValueError(UNGROUPED)
            for j in range(columns):
                sums[group, j] += rint_int(a * q[j])
            for c in range(np.uintp(categories)):
                sums[group, np.uintp(codes[i, c])] += rint_int(a)
            sums[group, last] += rint_int(a)

    return whole_gradient_sum


@compiled(inline="always")
def _with_codes(codes, i, width, table, lanes):  # type: ignore[no-untyped-def]
    """The sum of eight lanes with the table's entries of the row's codes added to them, in the order of `row_products`."""
    a, b, c, d, e, f, g, h = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4], lanes[5], lanes[6], lanes[7]
    for k in range(np.uintp(0), width, np.uintp(LANES)):
        a += table[np.uintp(codes[i, k])]
        b += table[np.uintp(codes[i, k + np.uintp(1)])]
        c += table[np.uintp(codes[i, k + np.uintp(2)])]
        d += table[np.uintp(codes[i, k + np.uintp(3)])]
        e += table[np.uintp(codes[i, k + np.uintp(4)])]
        f += table[np.uintp(codes[i, k + np.uintp(5)])]
        g += table[np.uintp(codes[i, k + np.uintp(6)])]
        h += table[np.uintp(codes[i, k + np.uintp(7)])]
    return ((a + e) + (c + g)) + ((b + f) + (d + h))
