"""Tasks over chunks on Dask's synchronous scheduler, in this process: for tests and small data. Imports dask."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.shards.cluster import versions
from nightfit.shards.failures import translated
from nightfit.shards.placement import Placement
from nightfit.shards.prefetch import PrefetchedRows, UpcomingDraws
from nightfit.shards.tasks import (
    Partial,
    aggregate_chunks,
    aggregate_pieces,
    aggregate_prefetched,
    merge_reports,
    prefetch_from_chunks,
    reports_of_chunks,
    split_chunk,
)
from nightfit.types import Draw


class InProcess:
    """Reads every chunk from Parquet for every query; only prefetched rows are kept. An `Executor`."""

    def __init__(self, placement: Placement, upcoming: UpcomingDraws) -> None:
        self.placement, self.upcoming = placement, upcoming
        self.draws: tuple[Draw, ...] = ()
        self.prefetched: list[PrefetchedRows] = []

    def stage(self) -> None:
        """Nothing is staged."""

    def expect(self, upcoming: UpcomingDraws) -> None:
        self.upcoming = upcoming
        self.close()

    def close(self) -> None:
        self.draws, self.prefetched = (), []

    def aggregate(self, query: Query) -> Iterable[Partial]:
        sources, preprocessing = self.placement.sources, self.placement.preprocessing
        if query.draw not in self.draws:
            self._prefetch(query.draw)
        if query.draw in self.draws:
            return [aggregate_prefetched(rows, query, versions()) for rows in self.prefetched]
        return (_compute(aggregate_chunks, query, (source,), preprocessing) for source in sources)

    def _prefetch(self, draw: Draw) -> None:
        """Take the rows of this draw and of the next ones that fit in memory; of none if the draw is no upcoming one."""
        draws = self.upcoming.starting_with(draw, self.placement.prefetch_fraction)
        if not draws:
            return
        self.close()  # makes room
        wanted = replace(self.upcoming, draws=draws)
        with translated():
            rows = [
                _compute(prefetch_from_chunks, (source,), self.placement.preprocessing, wanted, versions())
                for source in self.placement.sources
            ]
        self.draws, self.prefetched = draws, rows

    def aggregate_groups(self, query: GroupedQuery, edges: tuple[int, ...]) -> Iterable[Partial]:
        sources, preprocessing = self.placement.sources, self.placement.preprocessing
        with translated():
            pieces = [_compute(split_chunk, query, source, preprocessing, edges) for source in sources]
        numbers = [source.number for source in sources]
        return [aggregate_pieces(query, numbers, [piece[place] for piece in pieces]) for place in range(len(edges) - 1)]

    def report(self, question: ReportQuery, key: Key) -> Partial:
        from nightfit.shards.keys import LocalKey

        source = LocalKey(key.secret)
        partials = [reports_of_chunks(question, source, (chunk,), self.placement.preprocessing) for chunk in self.placement.chunks]
        return merge_reports(question, source, partials)


def _compute(task: Callable[..., Any], *arguments: Any) -> Any:
    """The result of one task on the synchronous scheduler."""
    import dask

    return dask.compute(dask.delayed(task)(*arguments), scheduler="synchronous")[0]
