"""What may be asked of the data: sums of bounded contributions in whole steps, with their sensitivity. Imports kernels and below.

A reader of this file, of the boundings and of gate.py knows that the system is private.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from nightfit.numerics.prf import Slots, groups_of, members_of
from nightfit.problem.losses import Loss
from nightfit.queries.boundings import Bounding
from nightfit.queries.kernels import gradient_sums
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers


class Question(Protocol):
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


class Query(Question, Protocol):
    """Sums of bounded contributions: `finish` makes the vector that Gaussian noise is added to."""

    @property
    def grid(self) -> float:
        """The value of one step."""

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest l2 distance, in steps, between the finished vectors of two neighbours, rounded up."""

    def divisor(self, units: int) -> float:
        """What makes the finished vector a mean over a public number of units: a constant, so dividing by it costs nothing."""

    def finish(self, total: Integers) -> Integers:
        """The vector that noise is added to, from the sum over all chunks."""


class Choice(Question, Protocol):
    """Scores of which the gate tells the largest ones' places, not their values."""

    def reach(self, adjacency: Adjacency) -> float:
        """The largest move of any one score, in steps, between two neighbours."""

    def finish(self, total: Integers) -> Integers:
        """The scores."""


class Smooth(Question, Protocol):
    """Numbers whose noise follows the data, within a smooth bound of how far neighbours can move them."""

    @property
    def smoothness(self) -> float:
        """Between neighbours the bound changes by a factor of at most e^smoothness."""

    @property
    def grid(self) -> float:
        """The public step that the noisy numbers are rounded to."""

    def finish(self, total: Integers) -> tuple[Array, Array]:
        """The numbers and, for each, the smooth bound: at least its move to any neighbour, from either side."""


@runtime_checkable
class Grouped(Question, Protocol):
    """A question to groups of records: a chunk must hold all records of every group that it holds any of, in any order."""

    @property
    def blocks(self) -> int:
        """The number of groups."""

    def block_of(self, slots: Slots) -> Integers:
        """Each slot's group, from 0: a function of slots and the run's key alone."""


def drawn_of(block: Block, key: bytes, draw: Draw) -> Block:
    """The units of a block that a draw takes."""
    return block if draw == WHOLE else block.taken(members_of(key, draw, block.slots))


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """An even number of groups of records, by a keyed hash of their slots."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 2 or self.count % 2:
            raise ValueError(f"the number of groups must be even, got {self.count}: an odd median has twice the sensitivity")


class Summed:
    """Shared by questions whose chunks' integers add."""

    def merge(self, one: Integers, other: Integers) -> Integers:
        return one + other


@dataclass(frozen=True, kw_only=True)
class GradientSum(Summed):
    """The sum over units of the bounded gradient of the loss at public weights; with groups, the sum of the two middle ones of
    the groups' sums in each coordinate. A unit is a record, or a person, whose gradient is the mean of the rows'.

    Guarantee: one unit adds a vector of norm at most `bounding.norm`; neighbours differ in the contribution of one unit
    (its old and its new one under replace_one, whose difference v has at most twice that norm). The sum is exact, so no other
    record's contribution moves. With groups, v moves one group's sum: raising one of an even number of numbers by |v_j| raises
    every order statistic weakly and their total by |v_j|, so the two middle ones rise by at most |v_j| together, and the
    sensitivity is the same. Broken by test_a_neighbour_moves_the_sum_by_at_most_the_sensitivity and, for persons, by
    test_a_person_moves_the_sum_by_at_most_the_sensitivity. Who is drawn depends on slots and the run's key alone, and all rows of a
    person share a slot, so a draw changes whether a unit contributes, never how.
    """

    loss: Loss
    bounding: Bounding
    weights: Array
    bits: int
    key: bytes = field(default=b"", repr=False)
    draw: Draw = WHOLE
    groups: Groups | None = None

    def __post_init__(self) -> None:
        if len(self.key) != 16 and (self.groups is not None or self.draw != WHOLE):
            raise ValueError("groups, parts and samples are drawn from the run's key of 16 bytes")

    @property
    def grid(self) -> float:
        return self.bounding.grid(self.bits)

    @property
    def coordinates(self) -> int:
        return len(self.weights)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.moved * self.bounding.norm(self.coordinates, self.bits)

    def divisor(self, units: int) -> float:
        drawn = units * self.draw.fraction
        return drawn if self.groups is None else 2 * drawn / self.groups.count

    def chunk(self, block: Block) -> Integers:
        block = drawn_of(block, self.key, self.draw)
        if self.groups is None:
            return gradient_sums(block, self.weights, self.loss, self.bounding, None, 1, self.bits)
        of_unit = groups_of(self.key, self.groups.count, block.owners)
        return gradient_sums(block, self.weights, self.loss, self.bounding, of_unit, self.groups.count, self.bits)

    def finish(self, total: Integers) -> Integers:
        if self.groups is None:
            return total[0]
        middle = self.groups.count // 2
        return np.sort(total, axis=0)[middle - 1 : middle + 1].sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class ChosenColumns(Summed):
    """A sum of bounded gradients on the columns at `places` alone; the others are read only where a weight is not zero.

    Guarantee: one record adds a vector of len(places) bounded coordinates, whose norm is at most `bounding.norm` of so many; the
    places are public (chosen and paid for before) and each stands once. Broken by
    test_a_neighbour_moves_chosen_columns_by_at_most_the_sensitivity.
    """

    sums: GradientSum
    places: Integers

    def __post_init__(self) -> None:
        held = len(self.sums.weights)
        if len(np.unique(self.places)) != len(self.places) or not np.all((self.places >= 0) & (self.places < held)):
            raise ValueError(f"places must be different columns among {held}")

    @property
    def draw(self) -> Draw:
        return self.sums.draw

    @property
    def grid(self) -> float:
        return self.sums.grid

    @property
    def coordinates(self) -> int:
        return len(self.places)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.moved * self.sums.bounding.norm(self.coordinates, self.sums.bits)

    def divisor(self, units: int) -> float:
        return self.sums.divisor(units)

    def chunk(self, block: Block) -> Integers:
        """Of the needed columns only: a column whose weight is zero adds nothing to a margin."""
        weights = self.sums.weights
        needed = np.union1d(self.places, np.flatnonzero(weights))
        narrow = replace(block, X=np.ascontiguousarray(block.X[:, needed]))
        return replace(self.sums, weights=weights[needed]).chunk(narrow)[:, np.searchsorted(needed, self.places)]

    def finish(self, total: Integers) -> Integers:
        return self.sums.finish(total)


@dataclass(frozen=True, kw_only=True)
class Magnitudes(Summed):
    """|offset_j - sum_j| for each of the first len(offsets) coordinates j of a sum of bounded gradients: with public offsets, how
    large the weights become in a step, in steps of the sum's grid.

    Guarantee: neighbours move sum_j by at most `moved` times the largest coordinate of a contribution, hence its distance to a public
    offset by no more. Nothing overflows: sums stay below 2^61 and offsets are cut at 2^62. Broken by
    test_a_neighbour_moves_no_score_by_more_than_the_reach.
    """

    sums: GradientSum
    offsets: Array

    @property
    def draw(self) -> Draw:
        return self.sums.draw

    @property
    def coordinates(self) -> int:
        return len(self.offsets)

    def reach(self, adjacency: Adjacency) -> float:
        return adjacency.moved * self.sums.bounding.most(self.sums.bits)

    def chunk(self, block: Block) -> Integers:
        return self.sums.chunk(block)

    def finish(self, total: Integers) -> Integers:
        offsets = np.rint(np.clip(np.nan_to_num(self.offsets), -(2.0**62), 2.0**62)).astype(np.int64)
        return np.abs(offsets - self.sums.finish(total)[: self.coordinates])


@dataclass(frozen=True, kw_only=True)
class Vertices(Summed):
    """-<v, sum> for the vertices v = e_1, ..., e_d, -e_1, ..., -e_d of the l1 ball: how steeply the mean loss falls towards each.

    Guarantee: every score is plus or minus one coordinate of the sum, which neighbours move by at most `moved` times the largest
    coordinate of a contribution. The ball's radius multiplies all scores and their moves alike, so it cancels. Broken by
    test_a_neighbour_moves_no_score_by_more_than_the_reach.
    """

    sums: GradientSum

    @property
    def draw(self) -> Draw:
        return self.sums.draw

    @property
    def coordinates(self) -> int:
        return 2 * self.sums.coordinates

    def reach(self, adjacency: Adjacency) -> float:
        return adjacency.moved * self.sums.bounding.most(self.sums.bits)

    def chunk(self, block: Block) -> Integers:
        return self.sums.chunk(block)

    def finish(self, total: Integers) -> Integers:
        steepness = self.sums.finish(total)
        return np.concatenate([-steepness, steepness])


def bits_for(rows: int, ceiling: int = 40) -> int:
    """The finest grid that cannot overflow: rows 2^bits < 2^61, so that the sum and its noise stay inside int64."""
    bits = min(ceiling, 61 - max(1, rows).bit_length())
    if bits < 8:
        raise ValueError(f"{rows} rows leave fewer than 8 bits for a contribution: split the data set")
    return bits
