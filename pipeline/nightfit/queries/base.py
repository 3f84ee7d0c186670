"""What may be asked of the data: sums of bounded contributions in whole steps, with their sensitivity. Imports kernels and below.

A reader of this file, of the boundings and of gate.py knows that the system is private.
"""

from typing import Protocol, runtime_checkable

from nightfit.numerics.prf import Slots, members_of
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers


class Query(Protocol):
    """What all questions share: a chunk's answer is exact integers; answers of chunks merge to the same, in any order and grouping."""

    @property
    def draw(self) -> Draw:
        """Whom it concerns."""

    @property
    def coordinates(self) -> int:
        """The length of the finished vector."""

    def chunk(self, block: Block) -> Integers:
        """The block's integers."""

    def merge(self, one: Integers, other: Integers) -> Integers:
        """The integers of two disjoint sets of records together."""


class SumQuery(Query, Protocol):
    """Sums of bounded contributions: `finalise` makes the vector that Gaussian noise is added to."""

    @property
    def grid(self) -> float:
        """The value of one step."""

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest l2 distance, in steps, between the finished vectors of two neighbours, rounded up."""

    def divisor(self, units: int) -> float:
        """What makes the finished vector a mean over a public number of units: a constant, so dividing by it costs nothing."""

    def finalise(self, total: Integers) -> Integers:
        """The vector that noise is added to, from the sum over all chunks."""


class SelectionQuery(Query, Protocol):
    """Scores of which the gate tells the largest ones' places, not their values."""

    def score_sensitivity(self, adjacency: Adjacency) -> float:
        """The largest move of any one score, in steps, between two neighbours."""

    def finalise(self, total: Integers) -> Integers:
        """The scores."""


class SmoothQuery(Query, Protocol):
    """Numbers whose noise follows the data, within a smooth bound of how far neighbours can move them."""

    @property
    def smoothness(self) -> float:
        """Between neighbours the bound changes by a factor of at most e^smoothness."""

    @property
    def grid(self) -> float:
        """The public step that the noisy numbers are rounded to."""

    def finalise(self, total: Integers) -> tuple[Array, Array]:
        """The numbers and, for each, the smooth bound: at least its move to any neighbour, from either side."""


@runtime_checkable
class GroupedQuery(Query, Protocol):
    """A question to groups of records: a chunk must hold all records of every group that it holds any of, in any order."""

    @property
    def blocks(self) -> int:
        """The number of groups."""

    def block_of(self, slots: Slots) -> Integers:
        """Each slot's group, from 0: a function of slots and the run's key alone."""


def drawn_of(block: Block, key: bytes, draw: Draw) -> Block:
    """The units of a block that a draw takes."""
    return block if draw == WHOLE else block.select_units(members_of(key, draw, block.slots))


class Summed:
    """Shared by questions whose chunks' integers add."""

    def merge(self, one: Integers, other: Integers) -> Integers:
        return one + other


def bits_for(rows: int, ceiling: int = 40) -> int:
    """The finest grid that cannot overflow: rows 2^bits < 2^61, so that the sum and its noise stay inside int64."""
    bits = min(ceiling, 61 - max(1, rows).bit_length())
    if bits < 8:
        raise ValueError(f"{rows} rows leave fewer than 8 bits for a contribution: split the data set")
    return bits
