"""Bring the records of each group to one task, for a query that needs whole groups. Imports packages below.

The groups are cut into ranges. A chunk's rows are split by range where they lie, and one task per range gets the pieces of all chunks and
answers for its groups. A range is small enough for one task, and as many ranges are processed at once as fit beside the data; for the
next ones the data are read again. Raw rows never come to the driver.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nightfit.queries.base import GroupedQuery
from nightfit.records.coded_rows import StagedBlock
from nightfit.types import Integers

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


def split_by_range(query: GroupedQuery, blocks: Iterable[StagedBlock], edges: Sequence[int]) -> tuple[StagedBlock, ...]:
    """The rows of each range of groups; groups outside of the edges are left out."""
    pieces: list[list[StagedBlock]] = [[] for _ in edges[1:]]
    for block in blocks:
        group = query.block_of(block.slots)
        for piece, (low, high) in zip(pieces, itertools.pairwise(edges), strict=True):
            piece.append(block.select_units((group >= low) & (group < high)))
    return tuple(concatenate(piece) for piece in pieces)


def concatenate(blocks: Sequence[Any]) -> Any:
    """The rows of all blocks, which are all dense or all of numbers and codes, in one block."""
    first, *others = blocks
    return first.joined(others)


def aggregate_range(query: GroupedQuery, pieces: Sequence[StagedBlock]) -> Integers:
    """The query's integers for a range of groups, whose rows are all among the pieces."""
    return query.chunk(concatenate(pieces).dense())
