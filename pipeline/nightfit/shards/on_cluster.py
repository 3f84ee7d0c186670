"""Tasks over chunks on a Dask cluster, whose workers keep decoded rows. Imports distributed.

Rows in the workers' memory are asked for by calling the workers, which takes a third of the time of tasks; tasks survive the loss of a
worker and recompute what it held, so a call that is not answered is repeated by tasks.
"""

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.shards.cluster import versions
from nightfit.shards.failures import translated
from nightfit.shards.folders import CLEANUP_TIMEOUT, check_disk_space, new_folder_name, remove_folder, remove_orphans
from nightfit.shards.placement import Assignment, Placement
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.shards.shuffle import PRIORITY_BYTES, RUNS_FOLDER, PersonShuffle
from nightfit.shards.staging import row_bytes, stage_in_files, stage_in_memory
from nightfit.shards.tasks import (
    Partial,
    aggregate_chunks,
    aggregate_pieces,
    aggregate_prefetched,
    aggregate_staged,
    merge_partials,
    merge_reports,
    prefetch_from_chunks,
    prefetch_from_staged,
    reports_of_chunks,
    reports_of_staged,
    split_chunk,
    split_staged,
)
from nightfit.shards.tree import reduced, reduced_on_workers
from nightfit.shards.watchdog import call_workers, gather, wait_for
from nightfit.shards.worker_rpc import Located, call_holders, locate
from nightfit.types import Draw

MOST_UNANSWERED = 3  # calls, after which only tasks are used: each unanswered call costs a wait


class OnCluster:
    """Stages rows on the workers of a Dask cluster and aggregates queries there. An `Executor`.

    `staged` are futures of staged rows with their workers: None before staging, empty if rows are not kept. `draws` are those whose rows
    are `prefetched`. `tasks` are the tasks of the last query that was asked by tasks.
    """

    def __init__(self, placement: Placement, upcoming: UpcomingDraws, client: Any, *, passes: int) -> None:
        self.placement, self.upcoming, self.client, self.passes = placement, upcoming, client, passes
        self.folder: str | None = None
        self.staged: list[Located] | None = None
        self.draws: tuple[Draw, ...] = ()
        self.prefetched: list[Located] = []
        self.tasks: list[Any] = []
        self.unanswered = 0

    def close(self) -> None:
        self.staged, self.tasks = None, []
        self._forget_draws()
        if self.folder is not None:
            with contextlib.suppress(Exception):
                self.client.run(remove_folder, self.folder, on_error="return", callback_timeout=CLEANUP_TIMEOUT)
            self.folder = None

    def expect(self, upcoming: UpcomingDraws) -> None:
        self.upcoming = upcoming
        self._forget_draws()

    def _forget_draws(self) -> None:
        self.draws, self.prefetched = (), []

    def stage(self) -> None:
        if self.staged is not None:
            return
        with translated():
            remove_orphans(self.client)
            if self.placement.preprocessing.unit is not None:
                self.staged = self._shuffled_persons()
            elif self.passes < 2 and not self.placement.fits_in_memory():
                self.staged = []
            elif self.upcoming.disjoint and self.placement.fits_in_memory():
                self.staged = []
                self._prefetch(self.upcoming.starting_with(self.upcoming.draws[0], 1.0), self.placement.assignments())
            else:
                self.staged = self._staged_chunks()

    def _staged_chunks(self) -> list[Located]:
        """Futures of the decoded chunks of each thread, in memory or in files, done."""
        assignments, preprocessing = self.placement.assignments(), self.placement.preprocessing
        if self.placement.fits_in_memory():
            tasks = [self._submit(worker, stage_in_memory, chunks, preprocessing) for worker, chunks in assignments]
        else:
            self.folder = new_folder_name(self.client)
            check_disk_space(self.client, self.placement.bytes_by_worker(row_bytes(preprocessing)))
            tasks = [self._submit(worker, stage_in_files, self.folder, chunks, preprocessing) for worker, chunks in assignments]
        wait_for(self.client, tasks)
        return [(task, worker) for task, (worker, _) in zip(tasks, assignments, strict=True)]

    def _shuffled_persons(self) -> list[Located]:
        """Futures of the persons of each thread, whose rows are brought together first."""
        fits, self.folder = self.placement.fits_in_memory(), new_folder_name(self.client)
        each = self.placement.preprocessing.dense_row_bytes
        check_disk_space(self.client, self.placement.bytes_by_worker(each + PRIORITY_BYTES + (0 if fits else each)))
        shuffle = PersonShuffle(
            submit=self._submit,
            wait=functools.partial(wait_for, self.client),
            folder=self.folder,
            chunks=self.placement.chunks,
            preprocessing=self.placement.preprocessing,
            ranges=len(self.placement.sources),
            threads=self.placement.threads,
            at_once=self.placement.ranges_at_once,
            in_memory=fits,
        )
        staged = shuffle.run(self.placement.assignments())
        call_workers(self.client, remove_folder, f"{self.folder}/{RUNS_FOLDER}")
        return staged

    def aggregate(self, query: Query) -> Iterable[Partial]:
        self.stage()
        with translated():
            if self.staged and query.draw not in self.draws:
                self._prefetch(self.upcoming.starting_with(query.draw, self.placement.prefetch_fraction))
            if query.draw in self.draws:
                return self._by_calls(aggregate_prefetched, query, self.prefetched)
            if self.staged and self.placement.fits_in_memory():
                return self._by_calls(aggregate_staged, query, self.staged)
            if self.staged:
                return self._by_tasks(aggregate_staged, query, self.staged)
            preprocessing = self.placement.preprocessing
            tasks = [self._submit(None, aggregate_chunks, query, (chunk,), preprocessing) for chunk in self.placement.chunks]
            return self._gather(self._merged(query, tasks))

    def _by_calls(self, task: Callable[..., Partial], query: Query, held: list[Located]) -> list[Partial]:
        """The task's answer for each held result, by calling its worker; by tasks if a worker is lost or silent.

        Tasks recompute what a lost worker held: the workers that hold it then are called next time, until MOST_UNANSWERED calls failed.
        Broken by test_a_worker_that_does_not_answer_a_call_is_asked_by_tasks and
        test_f19_f23_a_worker_killed_in_the_middle_of_a_pass_changes_no_integer.
        """
        if self.unanswered >= MOST_UNANSWERED or reduced_on_workers(query, len(held)):
            return self._by_tasks(task, query, held)
        answers = call_holders(self.client, task, (query, versions()), held)
        if answers is not None:
            return answers
        self.unanswered += 1
        partials = self._by_tasks(task, query, held)
        held[:] = locate(self.client, held)
        return partials

    def _by_tasks(self, task: Callable[..., Partial], query: Query, held: Sequence[Located]) -> list[Partial]:
        """The task's answer for each held result, where it lies.

        All tasks are one message, and those of the query before are forgotten only then: a client waits 10 ms after a message before it
        sends another, and forgetting is one.
        """
        places = {"workers": sorted({worker for _, worker in held}), "allow_other_workers": True}
        count = len(held)
        self.tasks = self.client.map(task, [rows for rows, _ in held], [query] * count, [versions()] * count, pure=False, **places)
        return self._gather(self._merged(query, self.tasks))

    def _merged(self, query: Query, futures: list[Any]) -> list[Any]:
        """The futures, or fewer of all their integers; each sum comes with the numbers of the chunks that it counts."""
        return reduced(query, futures, lambda some: self._submit(None, merge_partials, query, some))

    def _prefetch(self, draws: tuple[Draw, ...], assignments: Sequence[Assignment] = ()) -> None:
        """Have the workers take the rows of these draws, from staged rows or, where chunks are assigned, from Parquet."""
        if not draws:
            return
        self._forget_draws()  # makes room
        wanted, expected = replace(self.upcoming, draws=draws), versions()
        if assignments:
            preprocessing = self.placement.preprocessing
            rows = [(self._submit(at, prefetch_from_chunks, chunks, preprocessing, wanted, expected), at) for at, chunks in assignments]
        else:
            rows = [(self._submit(at, prefetch_from_staged, staged, wanted, expected), at) for staged, at in self.staged or ()]
        wait_for(self.client, [task for task, _ in rows])
        self.draws, self.prefetched = draws, rows

    def aggregate_groups(self, query: GroupedQuery, edges: tuple[int, ...]) -> Iterable[Partial]:
        """One task splits each worker's staged rows, or a chunk, by range; one task per range aggregates its pieces."""
        self.stage()
        submit = functools.partial(self._submit, None)
        with translated():
            if self.staged:
                pieces = [self._submit(worker, split_staged, query, staged, versions(), edges) for staged, worker in self.staged]
            else:
                pieces = [submit(split_chunk, query, chunk, self.placement.preprocessing, edges) for chunk in self.placement.chunks]
            numbers = [source.number for source in self.placement.sources]
            ranges = [[submit(operator.getitem, piece, place) for piece in pieces] for place in range(len(edges) - 1)]
            return self._gather([submit(aggregate_pieces, query, numbers, mine) for mine in ranges])

    def report(self, question: ReportQuery, key: Key) -> Partial:
        from nightfit.shards.keys import key_on_workers

        self.stage()
        submit = functools.partial(self._submit, None)
        with translated(), key_on_workers(self.client, key) as source:
            if self.staged:
                parts = [self._submit(at, reports_of_staged, question, source, staged, versions()) for staged, at in self.staged]
            else:
                chunks, preprocessing = self.placement.chunks, self.placement.preprocessing
                parts = [submit(reports_of_chunks, question, source, (chunk,), preprocessing) for chunk in chunks]
            return self._gather([submit(merge_reports, question, source, parts)])[0]

    def _gather(self, futures: list[Any]) -> list[Partial]:
        return [tuple(partial) for partial in gather(self.client, futures)]

    def _submit(self, worker: str | None, task: Callable[..., Any], *arguments: Any) -> Any:
        """A future of the task, on this worker unless it is lost, or on any."""
        place = {} if worker is None else {"workers": [worker], "allow_other_workers": True}
        return self.client.submit(task, *arguments, pure=False, **place)
