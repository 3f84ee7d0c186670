"""Bring the records of each group to one task, for a query that needs whole groups. Imports packages below.

The groups are cut into ranges. A chunk's rows are split by range where they lie, and one task per range gets the pieces of all chunks and
answers for its groups. A range is small enough for one task, and as many ranges are processed at once as fit beside the data; for the
next ones the data are read again. Raw rows never come to the driver.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nightfit.queries.base import GroupedQuery
from nightfit.types import Block, Integers, runs_of

RANGE_BYTES = 2**26  # rows of one range: small beside the memory of a worker


def range_passes(groups: int, data_bytes: int, room: float, workers: int = 1) -> Iterator[tuple[int, ...]]:
    """The edges of the ranges of groups of each pass over the data.

    Parameters
    ----------
    groups : int
        Number of groups.
    data_bytes : int
        Bytes of all records.
    room : float
        Bytes that may be held at once.
    workers : int
        At least so many ranges are made, where there are as many groups.

    Yields
    ------
    tuple of int
        Edges: range k has the groups from edge k to edge k + 1.
    """
    count = min(groups, max(1, workers, math.ceil(data_bytes / RANGE_BYTES)))
    at_once = max(1, min(count, int(count * room / max(1, data_bytes))))
    edges = [groups * number // count for number in range(count + 1)]
    for first in range(0, count, at_once):
        yield tuple(edges[first : first + at_once + 1])


def split_by_range(query: GroupedQuery, blocks: Iterable[Block], edges: Sequence[int]) -> tuple[Block, ...]:
    """The rows of each range of groups; groups outside of the edges are left out."""
    pieces: list[list[Block]] = [[] for _ in edges[1:]]
    for block in blocks:
        group = query.block_of(block.slots)
        for piece, (low, high) in zip(pieces, itertools.pairwise(edges), strict=True):
            piece.append(block.select_units((group >= low) & (group < high)))
    return tuple(concatenate(piece) for piece in pieces)


def concatenate(blocks: Sequence[Block]) -> Block:
    """The rows of all blocks in one block."""
    slots = np.concatenate([block.slots for block in blocks])
    return Block(
        np.concatenate([block.X for block in blocks]),
        np.concatenate([block.y for block in blocks]),
        slots,
        None if blocks[0].starts is None else runs_of(slots),
    )


def aggregate_range(query: GroupedQuery, pieces: Sequence[Block]) -> Integers:
    """The query's integers for a range of groups, whose rows are all among the pieces."""
    return query.chunk(concatenate(pieces))
