"""A question about some of the columns. Imports what query.py imports."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nightfit.queries.base import Summed
from nightfit.types import Adjacency, Block, Draw, Integers


@dataclass(frozen=True, kw_only=True)
class OfColumns(Summed):
    """A question that sees some columns of a record only.

    Guarantee: a record without some of its columns is a record, so the question is no more sensitive than the one inside. Broken by
    test_a_question_of_some_columns_is_the_question_of_a_narrower_record.
    """

    query: Any
    columns: tuple[int, ...]

    @property
    def draw(self) -> Draw:
        drawn: Draw = self.query.draw
        return drawn

    @property
    def grid(self) -> float:
        return float(self.query.grid)

    @property
    def coordinates(self) -> int:
        return int(self.query.coordinates)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return float(self.query.sensitivity(adjacency))

    def divisor(self, units: int) -> float:
        return float(self.query.divisor(units))

    def chunk(self, block: Block) -> Integers:
        narrow: Integers = self.query.chunk(replace(block, X=np.ascontiguousarray(block.X[:, self.columns])))
        return narrow

    def finish(self, total: Integers) -> Integers:
        finished: Integers = self.query.finish(total)
        return finished
