"""A data set of Parquet shards, and the exact integers of a query over it. Imports dask."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.queries.one_target import of_model
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.failures import MISCOUNTED, ClusterError, in_words
from nightfit.shards.grouping import range_passes
from nightfit.shards.in_process import InProcess
from nightfit.shards.manifest import DataError, Manifest
from nightfit.shards.on_cluster import OnCluster
from nightfit.shards.placement import Placement
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.shards.read import Chunk, PersonRange
from nightfit.shards.tasks import Partial, decode
from nightfit.shards.watchdog import workers_of
from nightfit.types import Block, Integers


class Executor(Protocol):
    """Where tasks over chunks run: in this process or on a cluster."""

    def stage(self) -> None:
        """Decode the rows to where they are kept."""

    def expect(self, upcoming: UpcomingDraws) -> None:
        """Forget prefetched rows; the draws of another run come next."""

    def aggregate(self, query: Query) -> Iterable[Partial]:
        """The query's integers over each source."""

    def aggregate_groups(self, query: GroupedQuery, edges: tuple[int, ...]) -> Iterable[Partial]:
        """The query's integers over each range of groups; every source is counted in each."""

    def report(self, question: ReportQuery, key: Key) -> Partial:
        """The answer to a query of a local protocol."""

    def close(self) -> None:
        """Forget all rows."""


class ShardedDataset:
    """The records of a manifest, bounded by public preprocessing.

    On a cluster Parquet is decoded once: into the workers' memory if RESIDENT_SHARE of it has room for all rows, else into private files
    on their disks. If `passes` is 1, or without a client, rows are read from Parquet as they are summed. Memory never depends on the
    number of rows. Where `upcoming` says which draws queries will make, one reading takes the rows of many of them; disjoint parts that
    fit in memory are taken from Parquet at once, and nothing else is kept.

    Where persons are units, `sources` are ranges of persons instead of chunks: each has all rows of its persons.

    Parameters
    ----------
    manifest : Manifest
        The files.
    preprocessing : Preprocessing
        How records become bounded rows.
    client : distributed.Client, optional
        A cluster; Dask's synchronous scheduler by default.
    chunk_bytes : int, optional
        Bytes of a decoded chunk; four chunks per thread by default.
    passes : int
        How often the records will be read.
    upcoming : UpcomingDraws, optional
        The draws of the queries to come.

    Examples
    --------
    >>> with ShardedDataset(manifest, preprocessing, client) as records:  # doctest: +SKIP
    ...     records.stage()
    ...     records.aggregate(query)
    """

    def __init__(
        self,
        manifest: Manifest,
        preprocessing: Preprocessing,
        client: Any = None,
        *,
        chunk_bytes: int | None = None,
        passes: int = 2,
        upcoming: UpcomingDraws | None = None,
    ) -> None:
        workers = {} if client is None else workers_of(client)
        draws = upcoming or UpcomingDraws(b"", ())
        self.manifest, self.preprocessing = manifest, preprocessing
        self.placement = Placement.of(manifest, preprocessing, workers, chunk_bytes)
        self.executor: Executor = (
            InProcess(self.placement, draws) if client is None else OnCluster(self.placement, draws, client, passes=passes)
        )

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        return self.placement.chunks

    @property
    def sources(self) -> tuple[Chunk | PersonRange, ...]:
        return self.placement.sources

    def __enter__(self) -> "ShardedDataset":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the rows: free the workers' memory and remove their files.

        A lost worker took its memory with it; its files are removed when a worker starts there, or at the next refit.
        """
        self.executor.close()

    def stage(self) -> None:
        """Decode the rows to where they are kept, before the first query: what cannot be read or has no room is found before a charge."""
        if self.chunks:
            self.executor.stage()

    def expect(self, upcoming: UpcomingDraws) -> None:
        """Announce the draws of another run on the rows that are staged already."""
        self.executor.expect(upcoming)

    def arrays(self) -> tuple[Any, Any, Any]:
        """X (rows x columns), y and the records' slots as lazy Dask arrays with known chunks."""
        import dask
        import dask.array as da

        columns, kind = self.preprocessing.columns, self.preprocessing.dtype
        parts = [dask.delayed(decode, pure=True)(chunk, self.preprocessing) for chunk in self.chunks]
        if not parts:
            return da.zeros((0, columns), dtype=kind), da.zeros(0), da.zeros(0, dtype=np.uint64)
        X = [da.from_delayed(part.X, (chunk.rows, columns), dtype=kind) for part, chunk in zip(parts, self.chunks, strict=True)]
        y = [da.from_delayed(part.y, (chunk.rows,), dtype=np.float64) for part, chunk in zip(parts, self.chunks, strict=True)]
        slots = [da.from_delayed(part.slots, (chunk.rows,), dtype=np.uint64) for part, chunk in zip(parts, self.chunks, strict=True)]
        return da.concatenate(X), da.concatenate(y), da.concatenate(slots)

    def aggregate(self, query: Query) -> Integers:
        """The query's integers over every record, each counted exactly once.

        Guarantee: answers of chunks merge in any order, a chunk's integers depend on its rows alone, and every chunk's number is
        counted once, so chunking, workers, order and retries do not change the result. Broken by
        test_any_chunking_order_or_scheduler_gives_the_same_integers.

        Raises
        ------
        DataError
            If a shard cannot be read, or changed since the plan was made.
        ClusterError
            If the cluster was lost.
        """
        if not self.chunks:
            return query.chunk(Block(np.empty((0, self.preprocessing.columns)), np.empty((0, *self.preprocessing.target_columns))))
        if isinstance(query, GroupedQuery):
            return functools.reduce(query.merge, self._by_range(query))
        return self._merge(query, self.executor.aggregate(query))

    def _by_range(self, query: GroupedQuery) -> Iterator[Integers]:
        """The query's integers for whole groups, a range of groups at a time."""
        placement = self.placement
        for edges in range_passes(query.blocks, placement.dense_bytes, placement.grouping_bytes, len(placement.workers)):
            for partial in self.executor.aggregate_groups(query, edges):
                yield self._merge(query, [partial])

    def _merge(self, query: Query, partials: Iterable[Partial]) -> Integers:
        """The merged integers, if every source was counted once; else an error that discards them."""
        numbers: list[int] = []
        sums: list[Integers] = []
        for counted, integers in partials:
            if isinstance(integers, str):
                raise DataError(in_words(integers))
            numbers += counted
            sums.append(integers)
        if sorted(numbers) != [source.number for source in self.sources]:
            raise ClusterError(MISCOUNTED)
        return functools.reduce(query.merge, sums)

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        """The answer to a query of a local protocol; rows and reports stay on workers until one of them has computed the answer.

        Guarantee: every chunk gives its part once, whatever is retried, and a part is a function of key and rows, so the answer is
        that of an undisturbed run. The key goes to the workers as data beside the graph: no task, log or scheduler holds it.
        Broken by test_reports_survive_the_loss_of_a_worker and test_the_key_is_in_no_graph.
        """
        counted, answer = self.executor.report(question, key) if self.chunks else ((), question.whole([], key))
        if isinstance(answer, str):
            raise DataError(in_words(answer))
        if sorted(counted) != [chunk.number for chunk in self.chunks]:
            raise ClusterError(MISCOUNTED)
        integers: Integers = answer
        return integers


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsOfModel:
    """The records of a data set that was decoded with the targets of several models, as one of them sees them.

    Parameters
    ----------
    records : ShardedDataset
        Decoded once, for all.
    place : int or None
        Of the model among them; None for queries that need no target.
    """

    records: ShardedDataset
    place: int | None

    def aggregate(self, query: Query) -> Integers:
        """The query's integers over every record."""
        return self.records.aggregate(of_model(query, self.place))

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        """Never asked: a local report is about one model alone."""
        raise NotImplementedError("local reports are not shared")
