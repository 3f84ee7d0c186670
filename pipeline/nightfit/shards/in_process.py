"""Tasks over chunks in this process: for small data and tests. Imports modules of this package."""

from collections.abc import Iterable
from dataclasses import replace

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.shards.cluster import IN_PROCESS_BYTES, versions
from nightfit.shards.failures import translated
from nightfit.shards.placement import Placement
from nightfit.shards.prefetch import PrefetchedRows, UpcomingDraws
from nightfit.shards.staging import InMemory, stage_in_memory
from nightfit.shards.tasks import (
    Partial,
    aggregate_chunks,
    aggregate_pieces,
    aggregate_prefetched,
    aggregate_staged,
    merge_reports,
    prefetch_from_chunks,
    prefetch_from_staged,
    read_through,
    reports_of_chunks,
    reports_of_staged,
    split_chunk,
    split_staged,
)
from nightfit.types import Draw


class InProcess:
    """Keeps the decoded rows if they have at most IN_PROCESS_BYTES; else reads every chunk from Parquet for every query, and once before
    the first. An `Executor`.

    `staged` are the rows that are kept, one part for each source: none before staging, and none if they are too large.
    """

    def __init__(self, placement: Placement, upcoming: UpcomingDraws) -> None:
        self.placement, self.upcoming = placement, upcoming
        self.staged: list[InMemory] = []
        self.draws: tuple[Draw, ...] = ()
        self.prefetched: list[PrefetchedRows] = []

    def stage(self) -> None:
        if self.staged:
            return
        with translated():
            if self.placement.data_bytes > IN_PROCESS_BYTES:
                read_through(self.placement.sources, self.placement.preprocessing)
            else:
                self.staged = [stage_in_memory((source,), self.placement.preprocessing) for source in self.placement.sources]

    def expect(self, upcoming: UpcomingDraws) -> None:
        self.upcoming = upcoming
        self._forget_draws()

    def close(self) -> None:
        self.staged = []
        self._forget_draws()

    def _forget_draws(self) -> None:
        self.draws, self.prefetched = (), []

    def aggregate(self, query: Query) -> Iterable[Partial]:
        if query.draw not in self.draws:
            self._prefetch(query.draw)
        if query.draw in self.draws:
            return [aggregate_prefetched(rows, query, versions()) for rows in self.prefetched]
        if self.staged:
            return (aggregate_staged(rows, query, versions()) for rows in self.staged)
        return (aggregate_chunks(query, (source,), self.placement.preprocessing) for source in self.placement.sources)

    def _prefetch(self, draw: Draw) -> None:
        """Take the rows of this draw and of the next ones that fit in memory; of none if the draw is no upcoming one."""
        draws = self.upcoming.starting_with(draw, self.placement.prefetch_fraction)
        if not draws:
            return
        self._forget_draws()  # makes room
        wanted = replace(self.upcoming, draws=draws)
        with translated():
            if self.staged:
                rows = [prefetch_from_staged(rows, wanted, versions()) for rows in self.staged]
            else:
                preprocessing = self.placement.preprocessing
                rows = [prefetch_from_chunks((source,), preprocessing, wanted, versions()) for source in self.placement.sources]
        self.draws, self.prefetched = draws, rows

    def aggregate_groups(self, query: GroupedQuery, edges: tuple[int, ...]) -> Iterable[Partial]:
        sources, preprocessing = self.placement.sources, self.placement.preprocessing
        with translated():
            if self.staged:
                pieces = [split_staged(query, rows, versions(), edges) for rows in self.staged]
            else:
                pieces = [split_chunk(query, source, preprocessing, edges) for source in sources]
        numbers = [source.number for source in sources]
        return [aggregate_pieces(query, numbers, [piece[place] for piece in pieces]) for place in range(len(edges) - 1)]

    def report(self, question: ReportQuery, key: Key) -> Partial:
        from nightfit.shards.keys import LocalKey

        source = LocalKey(key.secret)
        if self.staged:
            partials = [reports_of_staged(question, source, rows, versions()) for rows in self.staged]
        else:
            partials = [reports_of_chunks(question, source, (chunk,), self.placement.preprocessing) for chunk in self.placement.chunks]
        return merge_reports(question, source, partials)
