"""What workers are asked to do with the rows that they keep or read. Imports query, read, staging and below.

A task raises the name of a failure and nothing else, or gives it back in place of an answer, because Dask prints the arguments and the
traceback of one that raises.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.cluster import Versions, versions
from nightfit.shards.merging import answered, split
from nightfit.shards.prefetch import Ahead, Drawn, taken
from nightfit.shards.read import Chunk, Gathering, blocks, load
from nightfit.shards.staging import Kept, named
from nightfit.types import Block, Integers

Partial = tuple[tuple[int, ...], Any]


def decoded(chunk: Chunk, preprocessing: Preprocessing) -> Block:
    """One chunk."""
    block: Block = named(lambda: load(chunk, preprocessing))
    return block


def over(kept: Kept, query: Query, same: Versions) -> Partial:
    """Over rows that a worker keeps."""
    if versions() != same:
        return kept.numbers, "version"
    return _guarded(kept.numbers, lambda: _sum(query, kept.blocks()))


def stream(query: Query, chunks: Sequence[Chunk | Gathering], preprocessing: Preprocessing) -> Partial:
    """Over chunks that are read from Parquet, a few megabytes at a time."""
    return _guarded(
        [chunk.number for chunk in chunks], lambda: _sum(query, (block for chunk in chunks for block in blocks(chunk, preprocessing)))
    )


def over_drawn(drawn: Drawn, query: Query, same: Versions) -> Partial:
    """Over the rows of the question's draw."""
    if versions() != same:
        return drawn.numbers, "version"
    return _guarded(drawn.numbers, lambda: _sum(query, drawn.blocks(query.draw)))


def take_over(kept: Kept, wanted: Ahead, same: Versions) -> Drawn:
    """The rows of draws, from those that a worker keeps. The arguments show neither row nor key."""
    if versions() != same:
        raise RuntimeError("version")
    drawn: Drawn = named(lambda: taken(kept.numbers, kept.blocks(), wanted))
    return drawn


def take_of(chunks: Sequence[Chunk], preprocessing: Preprocessing, wanted: Ahead, same: Versions) -> Drawn:
    """The same of chunks read from Parquet."""
    if versions() != same:
        raise RuntimeError("version")
    read = (block for chunk in chunks for block in blocks(chunk, preprocessing))
    drawn: Drawn = named(lambda: taken([chunk.number for chunk in chunks], read, wanted))
    return drawn


def kept_split(query: GroupedQuery, kept: Kept, same: Versions, edges: tuple[int, ...]) -> tuple[Block, ...]:
    """Rows that a worker keeps, split by ranges of groups."""
    if versions() != same:
        raise RuntimeError("version")
    pieces: tuple[Block, ...] = named(lambda: split(query, kept.blocks(), edges))
    return pieces


def stream_split(query: GroupedQuery, chunk: Chunk | Gathering, preprocessing: Preprocessing, edges: tuple[int, ...]) -> tuple[Block, ...]:
    """The same of a chunk read from Parquet."""
    pieces: tuple[Block, ...] = named(lambda: split(query, blocks(chunk, preprocessing), edges))
    return pieces


def meet(query: GroupedQuery, numbers: Sequence[int], pieces: Sequence[Block]) -> Partial:
    """The rows of a range of groups, of the chunks of these numbers, meet."""
    return _guarded(numbers, lambda: answered(query, pieces))


class Seal(Protocol):
    """Where a task finds the key."""

    def key(self) -> Key: ...


def part_over(question: ReportQuery, seal: Seal, kept: Kept, same: Versions) -> Partial:
    """What rows that a worker keeps give to a question to records' owners."""
    if versions() != same:
        return kept.numbers, "version"
    return _guarded(kept.numbers, lambda: [question.part(block, seal.key()) for block in kept.blocks()])


def part_of(question: ReportQuery, seal: Seal, chunks: Sequence[Chunk], preprocessing: Preprocessing) -> Partial:
    """The same of chunks read from Parquet, a few megabytes at a time."""
    return _guarded(
        [chunk.number for chunk in chunks],
        lambda: [question.part(block, seal.key()) for chunk in chunks for block in blocks(chunk, preprocessing)],
    )


def brought_together(question: ReportQuery, seal: Seal, partials: Sequence[Partial]) -> Partial:
    """The answer, made where the parts are: rows do not come to the driver."""
    numbers = [number for counted, _ in partials for number in counted]
    for _, parts in partials:
        if isinstance(parts, str):
            return tuple(numbers), parts
    return _guarded(numbers, lambda: question.whole([part for _, parts in partials for part in parts], seal.key()))


def _sum(query: Query, parts: Iterable[Block]) -> Integers:
    return functools.reduce(query.merge, (query.chunk(block) for block in parts))


def _guarded(numbers: Sequence[int], work: Callable[[], Any]) -> Partial:
    try:
        return tuple(numbers), named(work)
    except RuntimeError as failure:
        return tuple(numbers), str(failure)
