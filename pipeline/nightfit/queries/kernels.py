"""The fused pass: from a block to exact integer sums of bounded gradients, one pass over memory. Imports numpy and rooms below.

A loss and a bounding that are written as formulas make one loop, in which a row's margin, slope and bounded contribution are made while
it is in a core's first cache. Others walk a block in tiles small enough for a later one. Either way the block is read from memory once
and no rows x columns temporary exists. Contributions, tiles and blocks add as int64, hence exactly and in any order.

A unit of several rows (a person) has the mean of its rows' gradients for its own, and that is what is bounded.
"""

import math
from collections.abc import Iterator

import numba
import numpy as np
import numpy.typing as npt

from nightfit.numerics.exact import margins, whole
from nightfit.numerics.fused_loops import UNGROUPED, fused_pass_of
from nightfit.problem.losses import Loss
from nightfit.queries.boundings import Bounding
from nightfit.types import Array, Block, Integers

TILE_BYTES = 2**21
NO_GROUPS = np.empty(0, dtype=np.int64)
LINE = 8  # numbers of 8 bytes that a cache holds together


def gradients(block: Block, weights: Array, loss: Loss) -> Iterator[tuple[slice, Array, Array, Array]]:
    """The units' gradients slopes[i] X[i], a tile at a time, with squares[i] = X[i] . X[i]: (units, X, slopes, squares).

    For rows that are units these are the rows themselves. A unit of k rows has the mean (1 / k) sum_i slope_i x_i for its X and the
    slope 1. Its square is zero if all its rows are zero (a null person), and otherwise positive.
    """
    tile = max(1, min(TILE_BYTES // (block.X.itemsize * block.X.shape[1]), len(block)))
    if block.starts is not None:
        yield from _mean_gradients(block, block.starts, weights, loss, tile)
        return
    products, squares = np.empty(tile), np.empty(tile)
    for start in range(0, len(block), tile):
        X, y = block.X[start : start + tile], block.y[start : start + tile]
        margins(X, weights, products, squares)
        yield slice(start, start + len(y)), X, loss.slope(y, products[: len(y)]), squares


def _mean_gradients(block: Block, starts: Integers, weights: Array, loss: Loss, tile: int) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Whole units, of at most `tile` rows together or of one unit; a unit's rows are added one after the other."""
    first = 0
    while first < block.units:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + tile, side="right")) - 1)
        here = starts[first : last + 1]
        X, y = block.X[here[0] : here[-1]], block.y[here[0] : here[-1]]
        products, squares = np.empty(len(y)), np.empty(len(y))
        margins(X, weights, products, squares)
        means, sizes, present = np.zeros((last - first, X.shape[1])), np.empty(last - first), np.zeros(last - first, dtype=np.bool_)
        _average(X, loss.slope(y, products), squares, here - here[0], means, present)
        margins(means, weights, np.empty(last - first), sizes)
        sizes[present & (sizes == 0.0)] = 1.0
        yield slice(first, last), means, np.ones(last - first), sizes
        first = last


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _average(X, slopes, squares, starts, means, present):  # type: ignore[no-untyped-def]
    """means[u] = (1 / k) sum of slopes[i] X[i] over the k rows of unit u, one after the other; present[u]: a row is not zero."""
    columns = np.uintp(X.shape[1])
    for u in range(np.uintp(means.shape[0])):
        for i in range(np.uintp(starts[u]), np.uintp(starts[u + 1])):
            slope = slopes[i]
            present[u] = present[u] or squares[i] > 0.0
            for j in range(columns):
                means[u, j] += slope * X[i, j]
        rows = np.float64(starts[u + 1] - starts[u])
        for j in range(columns):
            means[u, j] /= rows


def gradient_sums(
    block: Block, weights: Array, loss: Loss, bounding: Bounding, groups: npt.NDArray[np.int64] | None, count: int, bits: int
) -> Integers:
    """Sum over units of the bounded gradient, that of a row being slope(y, x.w) x, per group, in grid steps: count x columns.

    groups names each unit's group, None puts all in group 0.
    """
    columns = block.X.shape[1]
    if groups is not None and len(groups) != block.units:
        raise ValueError(UNGROUPED)
    sums = _sums(count, columns)
    formula, written = loss.formula(), bounding.formulas(columns, bits)
    if block.starts is None and formula is not None and written is not None:
        slope, parameters = formula
        add = fused_pass_of(slope, written.factor, written.steps)
        of_rows = NO_GROUPS if groups is None else groups
        add(np.ascontiguousarray(block.X), block.y, np.ascontiguousarray(weights), of_rows, parameters, written.numbers, sums)
        return np.ascontiguousarray(sums[:, :columns])
    if groups is not None and block.units and not 0 <= groups.min() <= groups.max() < count:
        raise ValueError(UNGROUPED)
    for units, X, slopes, squares in gradients(block, weights, loss):
        group = np.zeros(len(slopes), dtype=np.int64) if groups is None else groups[units]
        bounding.add(X, slopes, squares, group, bits, sums)
    return np.ascontiguousarray(sums[:, :columns])


def _sums(count: int, columns: int) -> Integers:
    """Zeros for count x columns sums, with room to the right, so that every group's begin where a cache line does."""
    width = -(-columns // LINE) * LINE
    room = np.zeros(count * width + LINE, dtype=np.int64)
    start = -(room.ctypes.data // room.itemsize) % LINE
    return room[start : start + count * width].reshape(count, width)


def inside_sums(block: Block, weights: Array, loss: Loss, centre: Array, steps: float, radius: float) -> Integers:
    """The sum of steps (g - centre) in whole steps over the units within `radius` steps of the centre, and last their number."""
    sums = np.zeros(block.X.shape[1] + 1, dtype=np.int64)
    for _, X, slopes, squares in gradients(block, weights, loss):
        _inside(X, slopes, squares, centre, steps, radius, sums)
    return sums


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _inside(X, slopes, squares, centre, steps, radius, sums):  # type: ignore[no-untyped-def]
    columns = X.shape[1]
    for i in range(X.shape[0]):
        square = 0.0
        for j in range(columns):
            away = slopes[i] * X[i, j] - centre[j]
            square += away * away
        if not (squares[i] > 0 and math.sqrt(square) * steps <= radius):
            continue
        for j in range(columns):
            sums[j] += int(whole(steps * (slopes[i] * X[i, j] - centre[j])))
        sums[columns] += 1
