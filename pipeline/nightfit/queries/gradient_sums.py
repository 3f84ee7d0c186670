"""Sums of bounded gradients, and scores made of them: the queries of the loop. Imports kernels, boundings and below."""

import functools
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from nightfit.numerics.prf import groups_of
from nightfit.problem.losses import Loss
from nightfit.queries.base import B, Summed, drawn_of
from nightfit.queries.boundings import Bounding
from nightfit.queries.kernels import TILE_BYTES, gradient_sums
from nightfit.queries.rows import Rows
from nightfit.queries.whole_gradients import whole_gradient_sums
from nightfit.records.coded_rows import StagedBlock
from nightfit.types import WHOLE, Adjacency, Array, Draw, Integers

LARGEST_OFFSET = 2.0**62
"""Offsets are cut here, so that their distance to a sum below 2^61 fits in int64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """An even number of groups of records, by a keyed hash of their slots.

    Parameters
    ----------
    count : int
        The number of groups; even.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 2 or self.count % 2:
            raise ValueError(f"the number of groups must be even, got {self.count}: an odd median has twice the sensitivity")


@dataclass(frozen=True, kw_only=True)
class GradientSum(Summed):
    """The sum over units of the bounded gradient of the loss at public weights; with groups, the sum of the two middle ones of
    the groups' sums in each coordinate. A unit is a record, or a person, whose gradient is the mean of the rows'.

    Guarantee: one unit adds a vector of norm at most `bounding.l2_bound`; neighbours differ in the contribution of one unit
    (its old and its new one under replace_one, whose difference v has at most twice that norm). The sum is exact, so no other
    record's contribution moves. With groups, v moves one group's sum: raising one of an even number of numbers by |v_j| raises
    every order statistic weakly and their total by |v_j|, so the two middle ones rise by at most |v_j| together, and the
    sensitivity is the same. Broken by test_a_neighbour_moves_the_sum_by_at_most_the_sensitivity and, for persons, by
    test_a_person_moves_the_sum_by_at_most_the_sensitivity. Who is drawn depends on slots and the run's key alone, and all rows of a
    person share a slot, so a draw changes whether a unit contributes, never how.

    Parameters
    ----------
    loss, weights : Loss, Array
        Of the gradient.
    bounding : Bounding
        From a unit's gradient to a bounded one.
    bits : int
        The bound of a coordinate is 2^bits steps.
    key, draw : bytes, Draw
        Which records take part.
    groups : Groups or None
        If given, medians of the groups' sums.
    rows : Rows or None
        Paid scales: the query is then of scaled rows.
    """

    reads_codes: ClassVar[bool] = True
    loss: Loss
    bounding: Bounding
    weights: Array
    bits: int
    key: bytes = field(default=b"", repr=False)
    draw: Draw = WHOLE
    groups: Groups | None = None
    rows: Rows | None = None

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
        return adjacency.contributions_changed * self.bounding.l2_bound(self.coordinates, self.bits)

    def divisor(self, units: int) -> float:
        drawn = units * self.draw.fraction
        return drawn if self.groups is None else 2 * drawn / self.groups.count

    def chunk(self, block: StagedBlock) -> Integers:
        drawn = drawn_of(block, self.key, self.draw)
        groups = None if self.groups is None else groups_of(self.key, self.groups.count, drawn.owners)
        if self.rows is None:
            return self._sums(drawn, groups)
        formulas = self.bounding.formulas(self.coordinates, self.bits)
        if drawn.starts is None and formulas is not None and formulas.whole is not None and self.loss.formula() is not None:
            records = self.clipped_targets(replace(drawn, y=drawn.y - self.rows.level))
            return whole_gradient_sums(records, self.rows, self.weights, self.loss, formulas, groups, self._count)
        scaled = self.rows.scaled_pieces(drawn, TILE_BYTES)
        return functools.reduce(np.add, (self._sums(piece, None if groups is None else groups[units]) for units, piece in scaled))

    def _sums(self, block: StagedBlock, groups: npt.NDArray[np.int64] | None) -> Integers:
        return gradient_sums(self.clipped_targets(block), self.weights, self.loss, self.bounding, groups, self._count, self.bits)

    @property
    def _count(self) -> int:
        return 1 if self.groups is None else self.groups.count

    def clipped_targets(self, block: B) -> B:
        """The block whose gradients are taken; a query may bound targets first."""
        return block

    def finalise(self, total: Integers) -> Integers:
        if self.groups is None:
            return total[0]
        middle = self.groups.count // 2
        return np.sort(total, axis=0)[middle - 1 : middle + 1].sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class Magnitudes(Summed):
    """|offset_j - sum_j| for each of the first len(offsets) coordinates j of a sum of bounded gradients: with public offsets, the
    magnitude of each weight after a gradient step, in steps of the sum's grid.

    Guarantee: neighbours move sum_j by at most `contributions_changed` times the largest coordinate of a contribution,
    hence its distance to a public offset by no more. Nothing overflows: sums stay below 2^61 and offsets are cut at 2^62. Broken by
    test_a_neighbour_moves_no_score_by_more_than_the_reach.

    Parameters
    ----------
    sums : GradientSum
        The sum of bounded gradients.
    offsets : Array
        In steps of its grid.
    """

    reads_codes: ClassVar[bool] = True
    sums: GradientSum
    offsets: Array

    @property
    def draw(self) -> Draw:
        return self.sums.draw

    @property
    def coordinates(self) -> int:
        return len(self.offsets)

    def score_sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * self.sums.bounding.linf_bound(self.sums.bits)

    def chunk(self, block: StagedBlock) -> Integers:
        return self.sums.chunk(block)

    def finalise(self, total: Integers) -> Integers:
        offsets = np.rint(np.clip(np.nan_to_num(self.offsets), -LARGEST_OFFSET, LARGEST_OFFSET)).astype(np.int64)
        return np.abs(offsets - self.sums.finalise(total)[: self.coordinates])


@dataclass(frozen=True, kw_only=True)
class Vertices(Summed):
    """-<v, sum> for the vertices v = e_1, ..., e_d, -e_1, ..., -e_d of the l1 ball: the fall of the mean loss in each direction.

    Guarantee: every score is plus or minus one coordinate of the sum, which neighbours move by at most `contributions_changed` times
    the largest coordinate of a contribution. The ball's radius multiplies scores and their changes alike, so it cancels. Broken by
    test_a_neighbour_moves_no_score_by_more_than_the_reach.

    Parameters
    ----------
    sums : GradientSum
        The sum of bounded gradients.
    """

    reads_codes: ClassVar[bool] = True
    sums: GradientSum

    @property
    def draw(self) -> Draw:
        return self.sums.draw

    @property
    def coordinates(self) -> int:
        return 2 * self.sums.coordinates

    def score_sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * self.sums.bounding.linf_bound(self.sums.bits)

    def chunk(self, block: StagedBlock) -> Integers:
        return self.sums.chunk(block)

    def finalise(self, total: Integers) -> Integers:
        steepness = self.sums.finalise(total)
        return np.concatenate([-steepness, steepness])


@dataclass(frozen=True, kw_only=True)
class ShrunkenSum(GradientSum):
    """The sum of gradients of records whose target is clipped to [-target, target] first.

    Guarantee: that of GradientSum, for the record with the clipped target. Broken by
    test_a_neighbour_moves_a_sum_with_clipped_targets_by_at_most_the_sensitivity.

    Parameters
    ----------
    target : float
        The bound of a target.
    """

    target: float

    def clipped_targets(self, block: B) -> B:
        return replace(block, y=np.clip(block.y, -self.target, self.target))
