"""The fused pass: from a block to exact integer sums of bounded gradients, one pass over memory. Imports numpy, numba and rooms below.

A block is walked in tiles small enough to stay in a core's cache: margins, slopes and bounded contributions of a tile are made
while its rows are there, so the block is read from memory once and no rows x columns temporary exists. A tile's sums are whole
numbers below 2^53 in float64, hence exact; tiles and blocks add as int64, hence in any order.
"""

import numba
import numpy as np
import numpy.typing as npt

from pipeline.bounding import Bounding
from pipeline.exact import dot
from pipeline.losses import Loss
from pipeline.types import Array, Block, Integers

TILE_BYTES = 2**18
FLOAT_BITS = 53


@numba.njit(cache=True, nogil=True)
def margins(X, weights, out):  # type: ignore[no-untyped-def]
    """out[i] = X[i] . weights."""
    for i in range(len(X)):
        out[i] = dot(X[i], weights)


def gradient_sums(
    block: Block, weights: Array, loss: Loss, bounding: Bounding, groups: npt.NDArray[np.int64] | None, count: int, bits: int
) -> Integers:
    """Sum over rows of the bounded gradient slope(y, x.w) x, per group, in grid steps: an array of count x columns.

    groups names each row's group, None puts all in group 0.
    """
    rows, columns = block.X.shape
    tile = min(max(1, TILE_BYTES // (8 * columns)), 2 ** (FLOAT_BITS - 1 - bits))
    total = np.zeros((count, columns), dtype=np.int64)
    margin = np.empty(min(tile, rows))
    everyone = np.zeros(min(tile, rows), dtype=np.int64)
    for start in range(0, rows, tile):
        X, y = block.X[start : start + tile], block.y[start : start + tile]
        z = margin[: len(y)]
        margins(X, weights, z)
        sums = np.zeros((count, columns))
        bounding.add(X, loss.slope(y, z), everyone[: len(y)] if groups is None else groups[start : start + tile], bits, sums)
        total += sums.astype(np.int64)
    return total
