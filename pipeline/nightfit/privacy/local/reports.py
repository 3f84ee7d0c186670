"""The fused pass: from a block to reports, and from reports to exact integer sums, a tile at a time. Imports losses and numerics.

A report of norm B is a vector of 2^bits steps of size B / 2^bits, rounded to whole steps. Rounding is done to a report, so it costs
nothing; sums of whole steps are exact, so chunking, order and retries do not change them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import FLOAT_BITS, margins, rint
from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import Slots
from nightfit.privacy.local.curriculum import Curriculum, MarginThresholds
from nightfit.privacy.local.randomisers import Sampler
from nightfit.privacy.local.randomisers.djw import HALF
from nightfit.problem.losses import Loss
from nightfit.queries.kernels import TILE_BYTES
from nightfit.types import Array, Block, Integers

BITS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Randomiser:
    """What every record's owner does with public weights: gradient of the loss, bound, curriculum, sampler."""

    loss: Loss
    bound: float
    sampler: Sampler
    curriculum: Curriculum

    def __post_init__(self) -> None:
        if not (np.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"reports need a positive finite bound of the gradient, got {self.bound}")

    def norm(self, columns: int) -> float:
        """B, the norm of every report."""
        return self.bound * self.sampler.size(columns)

    def prepare(self, key: Key, epoch: int, block: Block) -> "Prepared":
        """All of the block's reports that does not depend on weights; as large as the block's rows."""
        numbers, coins = np.empty(block.X.shape), np.empty(len(block), dtype=np.uint64)
        squares = np.einsum("ij,ij->i", block.X, block.X, dtype=np.float64)
        return Prepared(
            Block(block.X, self.curriculum.labels(key, block.y, block.slots), block.slots),
            np.sqrt(squares) / self.bound,
            numbers,
            self.sampler.towards(key, epoch, block.slots, block.X, squares, numbers, coins),
            coins,
        )

    def add(
        self, prepared: "Prepared", start: int, stop: int, weights: Array, thresholds: MarginThresholds, steps: float, sums: Array
    ) -> int:
        """sums += the reports of rows start to stop at these weights, of norm `steps`, in whole numbers; returns how many were sent."""
        X, y = prepared.block.X[start:stop], prepared.block.y[start:stop]
        z = np.empty(len(y))
        margins(X, weights, z, np.empty(len(y)))
        slopes = self.loss.slope(y, z)
        rows = slice(start, stop)
        numbers, factors, coins = prepared.numbers[rows], prepared.factors[rows], prepared.coins[rows]
        at = (thresholds.learn, thresholds.send)
        return int(_add(numbers, factors, coins, prepared.lengths[rows], y, z, slopes, at, self.sampler.reach, steps, sums))


class Prepared(NamedTuple):
    """Rows with the labels that gradients use, |x| / bound, and of each the vector V = factor number and the coin of its report."""

    block: Block
    lengths: Array
    numbers: Array
    factors: Array
    coins: Slots


def report_sums(block: Block, weights: Array, randomiser: Randomiser, key: Key, epoch: int, bits: int = BITS) -> Integers:
    """The number of the block's reports, followed by their sum in steps of B / 2^bits."""
    columns, thresholds = block.X.shape[1], randomiser.curriculum.thresholds(epoch)
    sums, total, sent, held = np.zeros(columns), np.zeros(columns, dtype=np.int64), 0, 0
    for tile in tiles(block):
        if held + len(tile) > 2 ** (FLOAT_BITS - 1 - bits):
            total += sums.astype(np.int64)
            sums[:], held = 0.0, 0
        sent += randomiser.add(randomiser.prepare(key, epoch, tile), 0, len(tile), weights, thresholds, 2.0**bits, sums)
        held += len(tile)
    return np.concatenate([[sent], total + sums.astype(np.int64)])


def tiles(block: Block) -> Iterator[Block]:
    """The block in parts whose rows and Gaussian numbers stay in a core's cache."""
    step = max(1, TILE_BYTES // (8 * block.X.shape[1]))
    for start in range(0, len(block), step):
        rows = slice(start, start + step)
        yield Block(block.X[rows], block.y[rows], block.slots[rows])


@compiled
def _add(
    numbers: Any, factors: Any, coins: Any, lengths: Any, y: Any, z: Any, slopes: Any, thresholds: Any, reach: Any, steps: Any, sums: Any
) -> Any:
    """The randomiser. lean = slope |x| / bound cut to [-1, 1], 0 for what is no number; the report is V if coin < 2^63 + lean reach,
    else -V. Rows of `sums` are whole numbers below 2^53.
    """
    learn, send = thresholds
    sent = 0
    for i in range(np.uintp(len(y))):
        margin = y[i] * z[i]
        if margin < send:
            continue
        lean = min(max(slopes[i] * lengths[i], -1.0), 1.0)
        if margin < learn or math.isnan(slopes[i] * lengths[i]):
            lean = 0.0
        factor = factors[i] * steps if coins[i] < np.uint64(HALF + lean * reach) else -factors[i] * steps
        for j in range(np.uintp(numbers.shape[1])):
            sums[j] += rint(factor * numbers[i, j])
        sent += 1
    return sent
