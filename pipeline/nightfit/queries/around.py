"""A query around another one, which changes what the one inside sees of a block. Imports numerics and types."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.numerics.prf import Slots
from nightfit.types import Adjacency, Draw, Integers


@dataclass(frozen=True, kw_only=True)
class Around:
    """Any query, as it is; subclasses change the block that it sees.

    Guarantee: every number and every answer is the inner query's, so its sensitivities are. A subclass that leaves records out, or makes
    rows of zeros of them, keeps them. Broken by test_units_outside_of_the_part_change_nothing.

    Parameters
    ----------
    query
        The query inside, of any kind.
    """

    query: Any

    @property
    def draw(self) -> Draw:
        draw: Draw = self.query.draw
        return draw

    @property
    def reads_codes(self) -> bool:
        return bool(self.query.reads_codes)

    @property
    def coordinates(self) -> int:
        return int(self.query.coordinates)

    @property
    def grid(self) -> float:
        return float(self.query.grid)

    @property
    def smoothness(self) -> float:
        return float(self.query.smoothness)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return float(self.query.sensitivity(adjacency))

    def score_sensitivity(self, adjacency: Adjacency) -> float:
        return float(self.query.score_sensitivity(adjacency))

    def divisor(self, units: int) -> float:
        return float(self.query.divisor(units))

    def chunk(self, block: Any) -> Integers:
        answer: Integers = self.query.chunk(block)
        return answer

    def merge(self, one: Integers, other: Integers) -> Integers:
        merged: Integers = self.query.merge(one, other)
        return merged

    def finalise(self, total: Integers) -> Any:
        return self.query.finalise(total)


@dataclass(frozen=True, kw_only=True)
class AroundGroups(Around):
    """A query around one on groups of records: a unit's group is that of the query inside, so whole groups meet in one chunk.

    Guarantee: that of Around. Broken by test_groups_of_one_model_s_rows_are_whole.
    """

    @property
    def blocks(self) -> int:
        return int(self.query.blocks)

    def block_of(self, slots: Slots) -> Integers:
        groups: Integers = np.asarray(self.query.block_of(slots))
        return groups
