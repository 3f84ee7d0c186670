"""Queries of rows that were decoded once with the targets of several models. Imports around and nightfit.types."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.queries.around import Around, AroundGroups
from nightfit.queries.base import GroupedQuery, Query
from nightfit.types import Array, Block, Integers, runs_of


@dataclass(frozen=True, kw_only=True)
class OneTarget(Around):
    """Any query, of the rows as one of several models sees them.

    Guarantee: the block that the query inside sees is the one that the model's own preprocessing makes of the same records: a row is a
    function of its record alone, and a record without this target is a row of zeros, whatever its other targets are; where `place` is None
    no target is seen, and none changes anything. Of a person the rows without this target are left out, which ones follows from the
    person's rows alone. So the sensitivities are those of the query inside. Broken by
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


@dataclass(frozen=True, kw_only=True)
class GroupedOneTarget(OneTarget, AroundGroups):
    """A query on groups of records, of the rows as one of several models sees them.

    Guarantee: that of OneTarget; a unit's group is that of the query inside, so whole groups meet in one chunk. Broken by
    test_groups_of_one_model_s_rows_are_whole.
    """


def of_model(query: Query, place: int | None) -> OneTarget:
    """The query of one model's rows; of groups where the query is."""
    return (GroupedOneTarget if isinstance(query, GroupedQuery) else OneTarget)(query=query, place=place)


def target_of(place: int | None, block: Block) -> Array:
    """The target of one model, NaN where a record has none."""
    if place is None or block.y.ndim == 1:
        raise ValueError("these rows have one target each, or the query needs none: there is none to choose")
    target: Array = block.y[:, place]
    return target


def seen_by(place: int | None, block: Block) -> Block:
    """The block of one model, or of rows alone, out of a block whose `y` has a column for each model, NaN where a record has no target."""
    if block.y.ndim == 1:
        raise ValueError("these rows have one target each: there is none to choose")
    if place is None:
        return replace(block, y=np.zeros(len(block)))
    missing = np.isnan(block.y[:, place])
    y = np.where(missing, 0.0, block.y[:, place])
    X = np.where(missing[:, None], block.X.dtype.type(0.0), block.X) if missing.any() else block.X
    seen = replace(block, X=X, y=y)
    return seen if block.starts is None else _used_rows(seen, block.starts, ~missing)


def _used_rows(block: Block, starts: Integers, present: npt.NDArray[np.bool_]) -> Block:
    """The rows of persons that have the target; of a person without any, one row, of zeros, as where one model is decoded."""
    none = ~np.logical_or.reduceat(present, starts[:-1]) if len(present) else np.zeros(0, dtype=np.bool_)
    kept = present.copy()
    kept[starts[:-1][none]] = True
    slots = block.slots[kept]
    return Block(block.X[kept], block.y[kept], slots, runs_of(slots))
