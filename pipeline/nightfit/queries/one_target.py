"""Queries of rows that were decoded once with the targets of several models. Imports around and nightfit.types."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nightfit.queries.around import Around
from nightfit.types import Block, Integers


@dataclass(frozen=True, kw_only=True)
class OneTarget(Around):
    """Any query, of the rows as one of several models sees them.

    Guarantee: the block that the query inside sees is the one that the model's own preprocessing makes of the same records: a row is a
    function of its record alone, and a record without this target is a row of zeros, whatever its other targets are; where `place` is None
    no target is seen, and none changes anything. So the sensitivities are those of the query inside. Broken by
    test_rows_decoded_once_are_those_of_each_model and test_a_missing_target_changes_nothing_that_is_shared.

    Parameters
    ----------
    place : int or None
        Which column of the targets; None for a query that needs none.
    """

    place: int | None

    def chunk(self, block: Any) -> Integers:
        answer: Integers = self.query.chunk(seen_by(self.place, block))
        return answer


def seen_by(place: int | None, block: Block) -> Block:
    """The block of one model, or of rows alone, out of a block whose `y` has a column for each model, NaN where a record has no target."""
    if block.y.ndim == 1:
        raise ValueError("these rows have one target each: there is none to choose")
    if place is None:
        return replace(block, y=np.zeros(len(block)))
    missing = np.isnan(block.y[:, place])
    y = np.where(missing, 0.0, block.y[:, place])
    return replace(block, X=np.where(missing[:, None], block.X.dtype.type(0.0), block.X) if missing.any() else block.X, y=y)
