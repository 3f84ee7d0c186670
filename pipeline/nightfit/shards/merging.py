"""Bringing the records of a group together on one worker, group by group, for a question that needs them so. Imports rooms below.

The groups are cut into ranges. A chunk's rows are split by range where they lie; a range's pieces of all chunks meet in one task, which
answers for its groups. Ranges are small enough for a task, and as many are under way at once as fit beside the data; the data
are read again for the next ones. Raw rows never come to the driver.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nightfit.queries.base import GroupedQuery
from nightfit.types import Block, Integers, runs_of

RANGE_BYTES = 2**26


def passes_of(groups: int, held: int, room: float, workers: int = 1) -> Iterator[tuple[int, ...]]:
    """The edges of the ranges of each pass, for records of `held` bytes of which `room` bytes may be kept at once."""
    count = min(groups, max(1, workers, math.ceil(held / RANGE_BYTES)))
    at_once = max(1, min(count, int(count * room / max(1, held))))
    edges = [groups * number // count for number in range(count + 1)]
    for first in range(0, count, at_once):
        yield tuple(edges[first : first + at_once + 1])


def split(query: GroupedQuery, parts: Iterable[Block], edges: Sequence[int]) -> tuple[Block, ...]:
    """The rows of each range of groups, of those between the first edge and the last."""
    pieces: list[list[Block]] = [[] for _ in edges[1:]]
    for block in parts:
        of_row = query.block_of(block.slots)
        for piece, (low, high) in zip(pieces, itertools.pairwise(edges), strict=True):
            taken = (of_row >= low) & (of_row < high)
            piece.append(block.select_units(taken))
    return tuple(joined(piece) for piece in pieces)


def joined(pieces: Sequence[Block]) -> Block:
    """All rows in one block."""
    slots = np.concatenate([piece.slots for piece in pieces])
    return Block(
        np.concatenate([piece.X for piece in pieces]),
        np.concatenate([piece.y for piece in pieces]),
        slots,
        None if pieces[0].starts is None else runs_of(slots),
    )


def answered(query: GroupedQuery, pieces: Sequence[Block]) -> Integers:
    """The integers of a range whose every row is in one of the pieces."""
    return query.chunk(joined(pieces))
