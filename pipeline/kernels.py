"""The fused pass: from a block to exact integer sums of bounded gradients, one pass over memory. Imports numpy and rooms below.

A block is walked in tiles small enough to stay in a core's cache: margins, slopes and bounded contributions of a tile are made
while its rows are there, so the block is read from memory once and no rows x columns temporary exists. Contributions, tiles and
blocks add as int64, hence exactly and in any order.
"""

import math

import numba
import numpy as np
import numpy.typing as npt

from pipeline.bounding import Bounding
from pipeline.exact import margins, whole
from pipeline.losses import Loss
from pipeline.types import Array, Block, Integers

TILE_BYTES = 2**21
LINE = 8  # numbers of 8 bytes that a cache holds together


def gradient_sums(
    block: Block, weights: Array, loss: Loss, bounding: Bounding, groups: npt.NDArray[np.int64] | None, count: int, bits: int
) -> Integers:
    """Sum over rows of the bounded gradient slope(y, x.w) x, per group, in grid steps: an array of count x columns.

    groups names each row's group, None puts all in group 0.
    """
    rows, columns = block.X.shape
    if groups is not None and (len(groups) != rows or (rows and not 0 <= groups.min() <= groups.max() < count)):
        raise ValueError("every row needs a group")
    tile = min(max(1, TILE_BYTES // (block.X.itemsize * columns)), max(1, rows))
    sums = _sums(count, columns)
    products, squares, everyone = np.empty(tile), np.empty(tile), np.zeros(tile, dtype=np.int64)
    for start in range(0, rows, tile):
        X, y = block.X[start : start + tile], block.y[start : start + tile]
        margins(X, weights, products, squares)
        group = everyone if groups is None else groups[start : start + tile]
        bounding.add(X, loss.slope(y, products[: len(y)]), squares, group, bits, sums)
    return np.ascontiguousarray(sums[:, :columns])


def _sums(count: int, columns: int) -> Integers:
    """Zeros for count x columns sums, with room to the right, so that every group's begin where a cache line does."""
    width = -(-columns // LINE) * LINE
    room = np.zeros(count * width + LINE, dtype=np.int64)
    start = -(room.ctypes.data // room.itemsize) % LINE
    return room[start : start + count * width].reshape(count, width)


def bucket_counts(block: Block, weights: Array, loss: Loss, low: float, width: float, buckets: int) -> Integers:
    """How many rows have coordinate j of their gradient in bucket b = floor((g_j - low) / width), the end buckets taking what lies
    beyond: an array of columns x buckets. A row of zeros (a bad record) and a number that is not finite count nowhere.
    """
    rows, columns = block.X.shape
    tile = min(max(1, TILE_BYTES // (8 * columns)), max(1, rows))
    counts = np.zeros((columns, buckets), dtype=np.int64)
    products, squares = np.empty(tile), np.empty(tile)
    for start in range(0, rows, tile):
        X, y = block.X[start : start + tile], block.y[start : start + tile]
        margins(X, weights, products, squares)
        _count(X, loss.slope(y, products[: len(y)]), squares, low, width, counts)
    return counts


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _count(X, slopes, squares, low, width, counts):  # type: ignore[no-untyped-def]
    last = counts.shape[1] - 1
    for i in range(X.shape[0]):
        if not squares[i] > 0:
            continue
        for j in range(X.shape[1]):
            place = math.floor((slopes[i] * X[i, j] - low) / width)
            if place == place and abs(place) < math.inf:
                counts[j, int(min(max(place, 0.0), last))] += 1


def inside_sums(block: Block, weights: Array, loss: Loss, centre: Array, steps: float, radius: float) -> Integers:
    """The sum of steps (g - centre) in whole steps over the rows within `radius` steps of the centre, and last their number."""
    rows, columns = block.X.shape
    tile = min(max(1, TILE_BYTES // (8 * columns)), max(1, rows))
    sums = np.zeros(columns + 1, dtype=np.int64)
    products, squares = np.empty(tile), np.empty(tile)
    for start in range(0, rows, tile):
        X, y = block.X[start : start + tile], block.y[start : start + tile]
        margins(X, weights, products, squares)
        _inside(X, loss.slope(y, products[: len(y)]), squares, centre, steps, radius, sums)
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
