"""What may be asked of the data: sums of bounded contributions in whole steps, with their sensitivity. Imports kernels and below.

A reader of this file, of the boundings and of gate.py knows that the system is private.
"""

from dataclasses import dataclass
from typing import Protocol

from pipeline.bounding import Bounding
from pipeline.kernels import gradient_sums
from pipeline.losses import Loss
from pipeline.types import Adjacency, Array, Block, Integers


class Query(Protocol):
    """A chunk's answer is exact integers; answers of chunks add, in any order and grouping; `finish` makes the vector to be noised."""

    @property
    def grid(self) -> float:
        """The value of one step."""

    @property
    def coordinates(self) -> int:
        """The length of the finished vector."""

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest l2 distance, in steps, between the finished vectors of two neighbours, rounded up."""

    def chunk(self, block: Block) -> Integers:
        """The block's integers."""

    def finish(self, total: Integers) -> Integers:
        """The vector that noise is added to, from the sum over all chunks."""


@dataclass(frozen=True, kw_only=True)
class GradientSum:
    """The sum over records of the bounded gradient of the loss at public weights.

    Guarantee: one record adds a vector of norm at most `bounding.norm`; neighbours differ in the contribution of one record
    (its old and its new one under replace_one, whose difference is at most twice that norm). The sum is exact, so no other
    record's contribution moves. Broken by test_a_neighbour_moves_the_sum_by_at_most_the_sensitivity.
    """

    loss: Loss
    bounding: Bounding
    weights: Array
    bits: int

    @property
    def grid(self) -> float:
        return self.bounding.grid(self.bits)

    @property
    def coordinates(self) -> int:
        return len(self.weights)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.moved * self.bounding.norm(self.coordinates, self.bits)

    def chunk(self, block: Block) -> Integers:
        return gradient_sums(block, self.weights, self.loss, self.bounding, None, 1, self.bits)

    def finish(self, total: Integers) -> Integers:
        return total[0]


def bits_for(rows: int, ceiling: int = 40) -> int:
    """The finest grid that cannot overflow: rows 2^bits < 2^61, so that the sum and its noise stay inside int64."""
    bits = min(ceiling, 61 - max(1, rows).bit_length())
    if bits < 8:
        raise ValueError(f"{rows} rows leave fewer than 8 bits for a contribution: split the data set")
    return bits
