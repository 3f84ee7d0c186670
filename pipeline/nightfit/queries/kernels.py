"""Exact integer sums of bounded gradients of a block, in one pass over memory. Imports numerics, losses and boundings.

A loss and a bounding that are given as formulas are compiled into one loop, which makes a row's margin, slope and bounded contribution
while the row is in a core's first cache. Other losses and boundings process a block in tiles that fit into the second cache. Either way
the block is read from memory once, and no temporary of rows x columns exists. Contributions, tiles and blocks are added as int64, hence
exactly and in any order.

The gradient of a unit of several rows (a person) is the mean of its rows' gradients. That mean is bounded, not the rows.
"""

import functools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nightfit.numerics.coded_rows import coded_gradient_sum_loop
from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import margins, rint
from nightfit.numerics.fused_loops import UNGROUPED, gradient_sum_loop
from nightfit.problem.losses import Loss
from nightfit.queries.boundings import Bounding
from nightfit.records.coded_rows import CodedBlock, StagedBlock
from nightfit.types import Array, Block, Integers

TILE_BYTES = 2**21  # the second cache of a server's core
NO_GROUPS = np.empty(0, dtype=np.int64)
CACHE_LINE = 8  # int64s in 64 bytes


def gradients(block: Block, weights: Array, loss: Loss) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Yield the units' gradients slopes[i] X[i], tile by tile.

    Where every row is a unit, X are the rows. A unit of k rows has X = (1 / k) sum_i slope_i x_i and the slope 1.

    Parameters
    ----------
    block : Block
    weights : array of float64, one per column
    loss : Loss

    Yields
    ------
    units : slice
        The units of this tile.
    X : array, units x columns
    slopes, squares : arrays
        squares[i] = X[i] . X[i]. A unit of several rows has the square zero if all its rows are zero (a null person), and else a
        positive one. `squares` may be longer than the tile.
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
    """`gradients` of units of several rows. A tile holds whole units: at most `tile` rows of them, or one larger unit."""
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


@compiled
def _average(X, slopes, squares, starts, means, present):  # type: ignore[no-untyped-def]
    """means[u] = (1 / k) sum of slopes[i] X[i] over the k rows of unit u, added in order; present[u]: some row is not zero."""
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
    block: StagedBlock, weights: Array, loss: Loss, bounding: Bounding, groups: npt.NDArray[np.int64] | None, count: int, bits: int
) -> Integers:
    """Sums of the units' bounded gradients in each group, in grid steps; the gradient of a row is slope(y, x.w) x.

    Parameters
    ----------
    block : Block or CodedBlock
        The sums of rows of numbers and codes are those of dense rows whose columns are in another order (`coded_gradient_sum_loop`).
    weights : array of float64, one per column
    loss : Loss
    bounding : Bounding
    groups : array of int64, one per unit, or None
        The group of each unit, below `count`. None puts every unit into group 0.
    count : int
        The number of groups.
    bits : int
        A contribution has 2^bits steps on each side of zero.

    Returns
    -------
    array of int64, count x columns

    Raises
    ------
    ValueError
        If a unit has no group below `count`.
    """
    if groups is not None and len(groups) != block.units:
        raise ValueError(UNGROUPED)
    if isinstance(block, CodedBlock):
        return _coded_sums(block, weights, loss, bounding, groups, count, bits)
    columns = block.X.shape[1]
    sums = _aligned_zeros(count, columns)
    formula, formulas = loss.formula(), bounding.formulas(columns, bits)
    if block.starts is None and formula is not None and formulas is not None:
        slope, parameters = formula
        loop = gradient_sum_loop(slope, formulas.factor, formulas.steps)
        of_rows = NO_GROUPS if groups is None else groups
        loop(np.ascontiguousarray(block.X), block.y, np.ascontiguousarray(weights), of_rows, parameters, formulas.parameters, sums)
        return np.ascontiguousarray(sums[:, :columns])
    if groups is not None and block.units and not 0 <= groups.min() <= groups.max() < count:
        raise ValueError(UNGROUPED)
    for units, X, slopes, squares in gradients(block, weights, loss):
        group = np.zeros(len(slopes), dtype=np.int64) if groups is None else groups[units]
        bounding.add(X, slopes, squares, group, bits, sums)
    return np.ascontiguousarray(sums[:, :columns])


def _coded_sums(
    block: CodedBlock, weights: Array, loss: Loss, bounding: Bounding, groups: npt.NDArray[np.int64] | None, count: int, bits: int
) -> Integers:
    """`gradient_sums` of rows of numbers and codes: in one pass over them; of dense tiles where there are no formulas, and of persons."""
    formula, formulas, order = loss.formula(), bounding.formulas(len(weights), bits), block.layout.order
    if formula is None or formulas is None or block.starts is not None:
        pieces = ((piece, None if groups is None else groups[units]) for units, piece in block.pieces(TILE_BYTES))
        return functools.reduce(np.add, (gradient_sums(piece, weights, loss, bounding, at, count, bits) for piece, at in pieces))
    slope, parameters = formula
    loop = coded_gradient_sum_loop(slope, formulas.factor, formulas.steps)
    of_rows = NO_GROUPS if groups is None else groups
    placed = np.where(order >= 0, weights[order], 0.0)
    found, sums = _aligned_zeros(count, len(order)), np.empty((count, len(weights)), dtype=np.int64)
    rows = block.numbers, block.codes, len(block.layout.categories), block.squares, block.y
    loop(*rows, placed, of_rows, parameters, formulas.parameters, found)
    sums[:, order[order >= 0]] = found[:, : len(order)][:, order >= 0]
    return sums


def _aligned_zeros(count: int, columns: int) -> Integers:
    """Zeros, count x columns and padded to the right, so that the sums of every group begin at a cache line."""
    width = -(-columns // CACHE_LINE) * CACHE_LINE
    buffer = np.zeros(count * width + CACHE_LINE, dtype=np.int64)
    start = -(buffer.ctypes.data // buffer.itemsize) % CACHE_LINE
    return buffer[start : start + count * width].reshape(count, width)


def inside_sums(block: Block, weights: Array, loss: Loss, centre: Array, steps: float, radius: float) -> Integers:
    """The sum of steps (g - centre), rounded to integers, over the units with |g - centre| <= radius / steps; then their number."""
    sums = np.zeros(block.X.shape[1] + 1, dtype=np.int64)
    for _, X, slopes, squares in gradients(block, weights, loss):
        _inside(X, slopes, squares, centre, steps, radius, sums)
    return sums


@compiled
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
            sums[j] += int(rint(steps * (slopes[i] * X[i, j] - centre[j])))
        sums[columns] += 1
