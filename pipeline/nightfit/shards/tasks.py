"""What workers do with rows that they staged or read. Imports queries, privacy.local and modules of this package.

A task raises the name of a failure and nothing else, or returns it in place of an answer (see `failures`). Answers come with the numbers
of the chunks that they count, so that the driver can check that each was counted once.
"""

import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query, chunk_of
from nightfit.records.coded_rows import StagedBlock
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.cluster import Versions, versions
from nightfit.shards.failures import VERSION, failing_by_name
from nightfit.shards.grouping import aggregate_range, split_by_range
from nightfit.shards.prefetch import PrefetchedRows, UpcomingDraws, prefetch
from nightfit.shards.read import Chunk, PersonRange, blocks, load
from nightfit.shards.staging import StagedRows
from nightfit.types import Block, Integers

Partial = tuple[tuple[int, ...], Any]  # numbers of the chunks that were counted, and their integers or the name of a failure


class KeySource(Protocol):
    """Where a task finds the key of local reports; see `keys`."""

    def key(self) -> Key: ...


def decode(chunk: Chunk, preprocessing: Preprocessing) -> Block:
    """The rows of one chunk."""
    block: Block = failing_by_name(lambda: load(chunk, preprocessing).dense())
    return block


def read_through(sources: Sequence[Chunk | PersonRange], preprocessing: Preprocessing) -> None:
    """Decode every row and keep none: what cannot be read is found before a query is asked."""
    failing_by_name(lambda: collections.deque((block for source in sources for block in blocks(source, preprocessing)), maxlen=0))


def aggregate_staged(staged: StagedRows, query: Query, expected: Versions) -> Partial:
    """The query's integers over staged rows."""
    if versions() != expected:
        return staged.numbers, VERSION
    return _partial(staged.numbers, lambda: _aggregate(query, staged.blocks()))


def aggregate_chunks(query: Query, chunks: Sequence[Chunk | PersonRange], preprocessing: Preprocessing) -> Partial:
    """The query's integers over chunks that are read from Parquet, a few megabytes at a time."""
    return _partial(
        [chunk.number for chunk in chunks], lambda: _aggregate(query, (block for chunk in chunks for block in blocks(chunk, preprocessing)))
    )


def aggregate_prefetched(rows: PrefetchedRows, query: Query, expected: Versions) -> Partial:
    """The query's integers over the prefetched rows of its draw."""
    if versions() != expected:
        return rows.numbers, VERSION
    return _partial(rows.numbers, lambda: _aggregate(query, rows.blocks(query.draw)))


def prefetch_from_staged(staged: StagedRows, wanted: UpcomingDraws, expected: Versions) -> PrefetchedRows:
    """The rows of draws, from staged rows. The arguments show neither row nor key."""
    _check_versions(expected)
    rows: PrefetchedRows = failing_by_name(lambda: prefetch(staged.numbers, staged.blocks(), wanted))
    return rows


def prefetch_from_chunks(
    chunks: Sequence[Chunk | PersonRange], preprocessing: Preprocessing, wanted: UpcomingDraws, expected: Versions
) -> PrefetchedRows:
    """The rows of draws, from chunks that are read from Parquet."""
    _check_versions(expected)
    read = (block for chunk in chunks for block in blocks(chunk, preprocessing))
    rows: PrefetchedRows = failing_by_name(lambda: prefetch([chunk.number for chunk in chunks], read, wanted))
    return rows


def split_staged(query: GroupedQuery, staged: StagedRows, expected: Versions, edges: tuple[int, ...]) -> tuple[StagedBlock, ...]:
    """Staged rows, split by ranges of groups."""
    _check_versions(expected)
    pieces: tuple[StagedBlock, ...] = failing_by_name(lambda: split_by_range(query, staged.blocks(), edges))
    return pieces


def split_chunk(
    query: GroupedQuery, chunk: Chunk | PersonRange, preprocessing: Preprocessing, edges: tuple[int, ...]
) -> tuple[StagedBlock, ...]:
    """The rows of a chunk that is read from Parquet, split by ranges of groups."""
    pieces: tuple[StagedBlock, ...] = failing_by_name(lambda: split_by_range(query, blocks(chunk, preprocessing), edges))
    return pieces


def aggregate_pieces(query: GroupedQuery, numbers: Sequence[int], pieces: Sequence[StagedBlock]) -> Partial:
    """The query's integers for a range of groups, from the pieces of the chunks of these numbers."""
    return _partial(numbers, lambda: aggregate_range(query, pieces))


def reports_of_staged(question: ReportQuery, source: KeySource, staged: StagedRows, expected: Versions) -> Partial:
    """The reports of staged rows to a query of a local protocol."""
    if versions() != expected:
        return staged.numbers, VERSION
    return _partial(staged.numbers, lambda: [question.part(block.dense(), source.key()) for block in staged.blocks()])


def reports_of_chunks(question: ReportQuery, source: KeySource, chunks: Sequence[Chunk], preprocessing: Preprocessing) -> Partial:
    """The reports of chunks that are read from Parquet, a few megabytes at a time."""
    return _partial(
        [chunk.number for chunk in chunks],
        lambda: [question.part(block.dense(), source.key()) for chunk in chunks for block in blocks(chunk, preprocessing)],
    )


def merge_partials(query: Query, partials: Sequence[Partial]) -> Partial:
    """The integers of several tasks as one, on a worker; the first failure if there is one."""
    numbers = [number for counted, _ in partials for number in counted]
    for _, integers in partials:
        if isinstance(integers, str):
            return tuple(numbers), integers
    return _partial(numbers, lambda: functools.reduce(query.merge, (integers for _, integers in partials)))


def merge_reports(question: ReportQuery, source: KeySource, partials: Sequence[Partial]) -> Partial:
    """The answer to a query of a local protocol, computed on a worker: reports do not come to the driver."""
    numbers = [number for counted, _ in partials for number in counted]
    for _, parts in partials:
        if isinstance(parts, str):
            return tuple(numbers), parts
    return _partial(numbers, lambda: question.whole([part for _, parts in partials for part in parts], source.key()))


def _aggregate(query: Query, parts: Iterable[StagedBlock]) -> Integers:
    return functools.reduce(query.merge, (chunk_of(query, block) for block in parts))


def _partial(numbers: Sequence[int], work: Callable[[], Any]) -> Partial:
    try:
        return tuple(numbers), failing_by_name(work)
    except RuntimeError as failure:
        return tuple(numbers), str(failure)


def _check_versions(expected: Versions) -> None:
    if versions() != expected:
        raise RuntimeError(VERSION)
