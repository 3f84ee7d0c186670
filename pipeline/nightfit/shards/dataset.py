"""A data set on Dask, and the exact integers of a question over it. Imports dask, distributed."""

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import shuffle, watchdog
from nightfit.shards.cluster import LOST, ClusterError, Versions, versions
from nightfit.shards.manifest import DataError, Manifest
from nightfit.shards.merging import passes_of
from nightfit.shards.prefetch import Ahead
from nightfit.shards.read import Chunk, Gathering, chunks_of
from nightfit.shards.staging import check_room, folder_of, keep_in_files, keep_in_memory, remove, row_bytes, sweep
from nightfit.shards.tasks import (
    Partial,
    brought_together,
    decoded,
    kept_split,
    meet,
    over,
    over_drawn,
    part_of,
    part_over,
    stream,
    stream_split,
    take_of,
    take_over,
)
from nightfit.shards.watchdog import MORE_MEMORY, Stalled, gathered, waited, workers_of
from nightfit.shards.worker_rpc import called, located
from nightfit.types import Block, Draw, Integers

CHUNK_BYTES = 2**26
SMALLEST_CHUNK_BYTES = 2**20
RESIDENT_SHARE = 0.4
TOGETHER_SHARE = 0.1  # of the workers' memory, for rows that meet; twice that while they move
TOGETHER_BYTES = 2**28
MOST_UNANSWERED = 3  # calls, before tasks are asked alone
AHEAD_SHARE = 0.15  # of the workers' memory, for the rows of later draws

FAILURES = {
    "changed": "a shard was added, removed or rewritten since the plan was made: nothing more is charged; restore the files and resume, "
    "or abandon the run",
    "memory": "a worker ran out of memory reading a shard: raise cluster.memory, or write smaller row groups",
    "space": "the disk of a worker's local directory is full: free space or name another disk in cluster.directory, then run the refit "
    "again to resume",
    "version": "a worker that came later has another version of nightfit, numba or numpy: give all workers one environment, then run the "
    "refit again to resume",
    "failed": "a shard could not be read: check that every worker reaches the files; a started run resumes when the refit is run again",
}

MISCOUNTED = "a chunk was lost or counted twice: the answer was discarded; run the refit again to resume"


class Shards:
    """The records of a manifest, bounded by public preprocessing, on a Dask client or (None) the synchronous scheduler.

    Parquet is decoded once: into the workers' memory if 0.4 of it has room for all rows, else into private files on their disks. Only
    where `passes` is 1, or without a client, are rows read from Parquet as they are summed. Memory never depends on the number of rows.
    Where questions concern draws and `ahead` tells which, one reading takes the rows of many of them; disjoint parts that fit in memory
    are taken from Parquet at once, and nothing else is kept.

    Where persons are units, `sources` are ranges of persons instead of chunks: every person's rows lie together in one.
    """

    def __init__(
        self,
        manifest: Manifest,
        preprocessing: Preprocessing,
        client: Any = None,
        *,
        chunk_bytes: int | None = None,
        passes: int = 2,
        ahead: Ahead | None = None,
    ) -> None:
        self.manifest, self.preprocessing, self.client, self.passes = manifest, preprocessing, client, passes
        self.ahead = ahead or Ahead(b"", ())
        self._workers = {} if client is None else workers_of(client)
        self.chunks = chunks_of(manifest, preprocessing.columns, chunk_bytes or self._chunk_bytes())
        self.sources: tuple[Chunk | Gathering, ...] = self.chunks
        if preprocessing.unit is not None and self.chunks:
            threads = sum(worker["nthreads"] for worker in self._workers.values())
            ranges = shuffle.ranges_of(manifest.rows, preprocessing, threads)
            self.sources = tuple(Gathering(number, ranges, self.chunks) for number in range(ranges))
        self._folder: str | None = None
        self._kept: list[tuple[Any, str]] | None = None
        self._drawn: tuple[tuple[Draw, ...], list[tuple[Any, str]]] = ((), [])
        self._asked: list[Any] = []
        self._unanswered = 0

    def __enter__(self) -> "Shards":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the rows: free the workers' memory, remove their files. A worker that is gone took its memory with it, and its files
        are removed when a worker starts there, or at the next refit."""
        self._kept, self._drawn, self._asked = None, ((), []), []
        if self._folder is not None:
            with contextlib.suppress(Exception):
                self.client.run(remove, self._folder, on_error="return", callback_timeout=watchdog.PATIENCE)
            self._folder = None

    def expect(self, ahead: Ahead) -> None:
        """Another run's draws come next, on the rows that are kept already."""
        self.ahead, self._drawn = ahead, ((), [])

    def arrays(self) -> tuple[Any, Any, Any]:
        """X (rows x columns), y and the records' slots as lazy Dask arrays with known chunks."""
        import dask
        import dask.array as da

        columns, kind = self.preprocessing.columns, self.preprocessing.dtype
        parts = [dask.delayed(decoded, pure=True)(chunk, self.preprocessing) for chunk in self.chunks]
        if not parts:
            return da.zeros((0, columns), dtype=kind), da.zeros(0), da.zeros(0, dtype=np.uint64)
        X = [da.from_delayed(part.X, (chunk.rows, columns), dtype=kind) for part, chunk in zip(parts, self.chunks, strict=True)]
        y = [da.from_delayed(part.y, (chunk.rows,), dtype=np.float64) for part, chunk in zip(parts, self.chunks, strict=True)]
        slots = [da.from_delayed(part.slots, (chunk.rows,), dtype=np.uint64) for part, chunk in zip(parts, self.chunks, strict=True)]
        return da.concatenate(X), da.concatenate(y), da.concatenate(slots)

    def aggregate(self, query: Query) -> Integers:
        """The question's integers over every record, exactly once each.

        Guarantee: answers of chunks merge in any order, a chunk's integers depend on its rows alone, and every chunk's number is
        counted once, so chunking, workers, order and retries do not change the result. Broken by
        test_any_chunking_order_or_scheduler_gives_the_same_integers.
        """
        if not self.chunks:
            return query.chunk(_empty(self.preprocessing))
        if isinstance(query, GroupedQuery):
            return self._together(query)
        return self._merged(query, self._synchronous(query) if self.client is None else self._distributed(query))

    def _together(self, query: GroupedQuery) -> Integers:
        """The question answered for whole groups of records, a range of groups at a time: the same integers as of all at once."""
        sums = []
        for edges in passes_of(query.blocks, self._bytes(), self._memory(TOGETHER_SHARE), len(self._workers)):
            partials = self._meet_here(query, edges) if self.client is None else self._meet(query, edges)
            sums += [self._merged(query, [partial]) for partial in partials]
        return functools.reduce(query.merge, sums)

    def _merged(self, query: Query, partials: Iterable[Partial]) -> Integers:
        """The sum of answers in which every chunk was counted once, or an error that discards them."""
        numbers: list[int] = []
        sums: list[Integers] = []
        for counted, integers in partials:
            if isinstance(integers, str):
                raise DataError(FAILURES[integers])
            numbers += counted
            sums.append(integers)
        if sorted(numbers) != [source.number for source in self.sources]:
            raise ClusterError(MISCOUNTED)
        return functools.reduce(query.merge, sums)

    def ready(self) -> None:
        """Decode the rows to where they are kept, before the first question: what cannot be read or has no room is told uncharged."""
        if self.client is None or self._kept is not None or not self.chunks:
            return
        self._guarded_by_cluster(lambda: sweep(self.client))
        if self.preprocessing.unit is not None:
            self._kept = self._guarded_by_cluster(self._gathered_persons)
            return
        if self.passes < 2 and not self._fits():
            self._kept = []
            return
        seats = self._seats()
        if self.ahead.disjoint and self._fits():
            self._kept = []
            self._take(self.ahead.upcoming(self.ahead.draws[0], 1.0), seats)
            return
        if self._fits():
            tasks = [self.client.submit(keep_in_memory, chunks, self.preprocessing, pure=False, **_at(worker)) for worker, chunks in seats]
        else:
            self._folder = folder_of(self.client)
            self._guarded_by_cluster(lambda: check_room(self.client, self._sizes(seats, row_bytes(self.preprocessing))))
            tasks = [
                self.client.submit(keep_in_files, self._folder, chunks, self.preprocessing, pure=False, **_at(worker))
                for worker, chunks in seats
            ]
        self._guarded_by_cluster(lambda: waited(self.client, tasks))
        self._kept = [(task, worker) for task, (worker, _) in zip(tasks, seats, strict=True)]

    def _gathered_persons(self) -> list[tuple[Any, str]]:
        """What each thread keeps of the persons, who are brought together first."""
        fits, seats, self._folder = self._fits(), self._seats(), folder_of(self.client)
        each = row_bytes(self.preprocessing)
        check_room(self.client, self._sizes(seats, each + shuffle.TICKET_BYTES + (0 if fits else each)))
        memory = sum(TOGETHER_SHARE * (worker["memory_limit"] or 0) for worker in self._workers.values())
        rounds = shuffle.Rounds(
            submit=lambda worker, task, *arguments: self.client.submit(task, *arguments, pure=False, **_at(worker)),
            wait=functools.partial(waited, self.client),
            folder=self._folder,
            chunks=self.chunks,
            preprocessing=self.preprocessing,
            ranges=len(self.sources),
            threads=[address for address, worker in self._workers.items() for _ in range(worker["nthreads"])],
            at_once=int((memory or TOGETHER_BYTES) // shuffle.RANGE_BYTES),
        )
        kept = rounds.kept(rounds.met(rounds.scattered(seats), fits), fits)
        self.client.run(remove, f"{self._folder}/{shuffle.LOOSE}", on_error="return")
        return kept

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        """What a question to records' owners gives; rows and reports stay on workers until one of them has made the answer.

        Guarantee: every chunk gives its part once, whatever is retried, and a part is a function of key and rows, so the answer is
        that of an undisturbed run. The key goes to the workers as data beside the graph: no task, log or scheduler holds it.
        Broken by test_reports_survive_the_loss_of_a_worker and test_the_key_is_in_no_graph.
        """
        if self.client is None or not self.chunks:
            from nightfit.shards.keys import Here

            here = Here(key.secret)
            counted, answer = brought_together(
                question, here, [part_of(question, here, (chunk,), self.preprocessing) for chunk in self.chunks]
            )
        else:
            self.ready()
            counted, answer = self._guarded_by_cluster(lambda: self._reported(question, key))
        if isinstance(answer, str):
            raise DataError(FAILURES[answer])
        if sorted(counted) != [chunk.number for chunk in self.chunks]:
            raise ClusterError(MISCOUNTED)
        return answer

    def _reported(self, question: ReportQuery, key: Key) -> Any:
        from nightfit.shards.keys import held

        same = versions()
        with held(self.client, key) as seal:
            if self._kept:
                parts = [self.client.submit(part_over, question, seal, kept, same, pure=False, **_at(at)) for kept, at in self._kept]
            else:
                parts = [self.client.submit(part_of, question, seal, (chunk,), self.preprocessing, pure=False) for chunk in self.chunks]
            answer = self.client.submit(brought_together, question, seal, parts, pure=False)
            return gathered(self.client, [answer])[0]

    def _synchronous(self, query: Query) -> Iterable[Partial]:
        import dask

        def here(work: Callable[..., Any], *words: Any) -> Any:
            return dask.compute(dask.delayed(work)(*words), scheduler="synchronous")[0]

        if draws := self._upcoming(query.draw):
            self._drawn = (), []
            words = self.preprocessing, replace(self.ahead, draws=draws), versions()
            rows = self._guarded_by_cluster(lambda: [here(take_of, (source,), *words) for source in self.sources])
            self._drawn = draws, [(drawn, "") for drawn in rows]
        if query.draw in self._drawn[0]:
            return [over_drawn(drawn, query, versions()) for drawn, _ in self._drawn[1]]
        return (here(stream, query, (source,), self.preprocessing) for source in self.sources)

    def _distributed(self, query: Query) -> Iterable[Partial]:
        self.ready()
        same = versions()
        if self._kept and (draws := self._upcoming(query.draw)):
            self._take(draws)
        if query.draw in self._drawn[0]:
            return self._called(over_drawn, query, self._drawn[1], same)
        if self._kept and self._fits():
            return self._called(over, query, self._kept, same)
        if self._kept:
            return self._each(over, query, self._kept, same)
        return self._gathered([self.client.submit(stream, query, (chunk,), self.preprocessing, pure=False) for chunk in self.chunks])

    def _called(self, task: Callable[..., Partial], query: Query, held: list[tuple[Any, str]], same: Versions) -> list[Partial]:
        """What each of these, in the workers' memory, gives to the question: asked of the workers themselves, and by tasks where one does
        not answer. Tasks survive the loss of a worker, and make anew what it held: the workers that hold it then are asked next time, until
        calls have failed too often to be worth the wait. Broken by test_a_worker_that_does_not_answer_a_call_is_asked_by_tasks and
        test_f19_f23_a_worker_killed_in_the_middle_of_a_pass_changes_no_integer.
        """
        if self._unanswered >= MOST_UNANSWERED:
            return self._each(task, query, held, same)
        answers = self._guarded_by_cluster(lambda: called(self.client, task, (query, same), held))
        if answers is not None:
            return answers
        self._unanswered += 1
        partials = self._each(task, query, held, same)
        held[:] = self._guarded_by_cluster(lambda: located(self.client, held))
        return partials

    def _each(self, task: Callable[..., Partial], query: Query, held: Sequence[tuple[Any, str]], same: Versions) -> list[Partial]:
        """What a task for each of these gives, where it lies. All are one message; those of the question before are forgotten only then.
        A client waits 10 ms after a message before it sends another, and forgetting is one.
        """
        places = {"workers": sorted({worker for _, worker in held}), "allow_other_workers": True}
        count = len(held)
        self._asked = self.client.map(task, [rows for rows, _ in held], [query] * count, [same] * count, pure=False, **places)
        return self._gathered(self._asked)

    def _upcoming(self, draw: Draw) -> tuple[Draw, ...]:
        """The draws whose rows are to be taken now: none if there are rows for this one, or it is not worth it."""
        return () if draw in self._drawn[0] else self.ahead.upcoming(draw, self._memory(AHEAD_SHARE) / self._bytes())

    def _take(self, draws: tuple[Draw, ...], seats: Sequence[tuple[str, tuple[Chunk, ...]]] = ()) -> None:
        """Have the workers take the rows of these draws, from what they keep or, by `seats`, from Parquet."""
        self._drawn = (), []  # the old ones make room first
        words = replace(self.ahead, draws=draws), versions()
        submit = functools.partial(self.client.submit, pure=False)
        if seats:
            tasks = [(submit(take_of, chunks, self.preprocessing, *words, **_at(at)), at) for at, chunks in seats]
        else:
            tasks = [(submit(take_over, kept, *words, **_at(at)), at) for kept, at in self._kept or ()]
        self._guarded_by_cluster(lambda: waited(self.client, [task for task, _ in tasks]))
        self._drawn = draws, tasks

    def _meet_here(self, query: GroupedQuery, edges: tuple[int, ...]) -> Iterable[Partial]:
        import dask

        parts = [dask.delayed(stream_split)(query, source, self.preprocessing, edges) for source in self.sources]
        pieces = self._guarded_by_cluster(lambda: [dask.compute(part, scheduler="synchronous")[0] for part in parts])
        numbers = [source.number for source in self.sources]
        return [meet(query, numbers, [piece[place] for piece in pieces]) for place in range(len(edges) - 1)]

    def _meet(self, query: GroupedQuery, edges: tuple[int, ...]) -> Iterable[Partial]:
        """A task that splits what a worker keeps, or a chunk, and one per range in which its pieces meet."""
        self.ready()
        same, submit = versions(), functools.partial(self.client.submit, pure=False)
        if self._kept:
            pieces = [submit(kept_split, query, kept, same, edges, **_at(worker)) for kept, worker in self._kept]
        else:
            pieces = [submit(stream_split, query, chunk, self.preprocessing, edges) for chunk in self.chunks]
        ranges = [[submit(operator.getitem, piece, place) for piece in pieces] for place in range(len(edges) - 1)]
        numbers = [source.number for source in self.sources]
        return self._gathered([submit(meet, query, numbers, together) for together in ranges])

    def _gathered(self, futures: list[Any]) -> list[Partial]:
        answers = self._guarded_by_cluster(lambda: gathered(self.client, futures))
        return [tuple(partial) for partial in answers]

    def _guarded_by_cluster(self, work: Callable[[], Any]) -> Any:
        """What work gives, or an error without a cause: Dask's own would print a task's arguments."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            return work()
        except RuntimeError as failure:
            raise DataError(FAILURES.get(str(failure), FAILURES["failed"])) from None
        except Stalled as stalled:
            raise ClusterError(f"{stalled}; then run the refit again to resume") from None
        except KilledWorker:
            raise ClusterError(
                f"workers kept dying on the same shard (out of memory?): {MORE_MEMORY}; then run the refit again to resume"
            ) from None
        except (CancelledError, CommClosedError, OSError, TimeoutError):
            raise ClusterError(LOST) from None

    def _bytes(self) -> int:
        """What all decoded rows take."""
        return max(1, self.manifest.rows) * row_bytes(self.preprocessing)

    def _memory(self, share: float) -> float:
        """This share of the workers' memory, in bytes; where it is not limited, or without workers, TOGETHER_BYTES."""
        return sum(share * (worker["memory_limit"] or 0) for worker in self._workers.values()) or TOGETHER_BYTES

    def _fits(self) -> bool:
        """Whether all rows fit in 0.4 of the workers' memory, and the largest chunk in that of the smallest worker."""
        limits = [RESIDENT_SHARE * (worker["memory_limit"] or 0) for worker in self._workers.values()]
        each = row_bytes(self.preprocessing)
        largest = max((chunk.rows for chunk in self.chunks), default=0)
        return bool(limits) and self.manifest.rows * each <= sum(limits) and largest * each <= min(limits)

    def _seats(self) -> list[tuple[str, tuple[Chunk, ...]]]:
        """For each thread of each worker, consecutive chunks of about as many rows."""
        threads = [address for address, worker in self._workers.items() for _ in range(worker["nthreads"])]
        ends = np.cumsum([chunk.rows for chunk in self.chunks])
        middles = ends - np.array([chunk.rows for chunk in self.chunks]) / 2
        owner = np.minimum((middles * len(threads) / ends[-1]).astype(int), len(threads) - 1)
        seats = [
            (address, tuple(chunk for chunk, seat in zip(self.chunks, owner, strict=True) if seat == number))
            for number, address in enumerate(threads)
        ]
        return [(address, chunks) for address, chunks in seats if chunks]

    def _sizes(self, seats: list[tuple[str, tuple[Chunk, ...]]], each: int) -> dict[str, int]:
        """Bytes on disk by worker, for rows of `each` bytes."""
        sizes = dict.fromkeys((address for address, _ in seats), 0)
        for address, chunks in seats:
            sizes[address] += each * sum(chunk.rows for chunk in chunks)
        return sizes

    def _chunk_bytes(self) -> int:
        """Four chunks for each thread, within limits: fewer would be uneven, more would cost tasks."""
        threads = sum(worker["nthreads"] for worker in self._workers.values()) or 1
        return min(CHUNK_BYTES, max(SMALLEST_CHUNK_BYTES, self.manifest.rows * row_bytes(self.preprocessing) // (4 * threads)))


def _at(worker: str) -> dict[str, Any]:
    """Where a task belongs, unless that worker is gone."""
    return {"workers": [worker], "allow_other_workers": True}


def _empty(preprocessing: Preprocessing) -> Block:
    return Block(np.empty((0, preprocessing.columns)), np.empty(0))
