"""Bringing all rows of a person to one worker, once per run, whatever the size of the data. Imports distributed (by staging).

Two rounds. Each seat (a thread of a worker) decodes its chunks into one private file of runs; a run is a few megabytes of rows, sorted by
their persons' slots, so that the rows of a range of slots are a piece of each run. Then a range's pieces meet on one worker, where
each person's rows are brought together, cut to the public number of rows and kept, in memory or in a file. What is lost with a worker
is made again from Parquet, to the same bytes.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nightfit.records.persons import Loose, persons, range_of, together
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.read import Chunk, Gathering, gathered, loose, nobody, room_for
from nightfit.shards.staging import InMemory, local_directory, named, private_folder, read_into, row_bytes, written
from nightfit.types import Block, Integers, runs_of

RUN_BYTES = 2**25
RANGE_BYTES = 2**26
LOOSE = "loose"
TICKET_BYTES = 8


def ranges_of(rows: int, preprocessing: Preprocessing, workers: int) -> int:
    """How many ranges of slots: each of a few megabytes, and enough for every worker."""
    return max(1, workers, -(-rows * row_bytes(preprocessing) // RANGE_BYTES))


@dataclass(frozen=True, slots=True)
class Scattered:
    """The rows of some chunks in a file of sorted runs; rows edges[r, k] to edges[r, k + 1] of run r are of persons in range k."""

    folder: str
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing
    edges: Integers = field(repr=False)

    def piece(self, number: int) -> Loose:
        """The rows of one range, of every run."""
        path, _ = scattered_file(self.folder, self.chunks, self.preprocessing, self.edges.shape[1] - 1)
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            offset, pieces = 0, [nobody(self.preprocessing)]
            for edges in self.edges:
                pieces.append(self._read(handle, offset, int(edges[-1]), int(edges[number]), int(edges[number + 1])))
                offset += int(edges[-1]) * (row_bytes(self.preprocessing) + TICKET_BYTES)
        finally:
            os.close(handle)
        return together(pieces, self.preprocessing.rows_per_unit)

    def _read(self, handle: int, offset: int, rows: int, first: int, last: int) -> Loose:
        piece = Loose(room_for(last - first, self.preprocessing), np.empty(last - first, dtype=np.uint64))
        for array in _arrays(piece):
            each = array.itemsize * math.prod(array.shape[1:])
            read_into(handle, [array], offset + first * each)
            offset += rows * each
        return piece


def _arrays(rows: Loose) -> list[Any]:
    return [rows.block.X, rows.block.y, rows.block.slots, rows.tickets]


def runs(chunks: Sequence[Chunk], preprocessing: Preprocessing) -> Iterator[Loose]:
    """The chunks' rows in runs of about RUN_BYTES, each brought together as far as it goes."""
    most = max(1, RUN_BYTES // row_bytes(preprocessing))
    held: list[Loose] = []
    for rows in (rows for chunk in chunks for rows in loose(chunk, preprocessing)):
        held.append(rows)
        if sum(map(len, held)) >= most:
            yield together(held, preprocessing.rows_per_unit)
            held = []
    if held:
        yield together(held, preprocessing.rows_per_unit)


def scattered_file(folder: str, chunks: Sequence[Chunk], preprocessing: Preprocessing, ranges: int) -> tuple[Path, Integers | None]:
    """The file of sorted runs, which is written first if it is not there; then also its edges."""
    place = private_folder(private_folder(local_directory(), folder), LOOSE)
    path = place / f"{chunks[0].number}.runs"
    if path.exists():
        return path, None
    edges: list[Integers] = []

    def arrays() -> Iterator[Any]:
        for run in runs(chunks, preprocessing):
            edges.append(np.searchsorted(range_of(run.block.slots, ranges), np.arange(ranges + 1)))
            yield from _arrays(run)

    written(path, arrays())
    return path, np.array(edges, dtype=np.int64).reshape(-1, ranges + 1)


def scatter(folder: str, chunks: Sequence[Chunk], preprocessing: Preprocessing, ranges: int) -> Scattered:
    """The task of the first round; like those below it raises the name of a failure and nothing else."""

    def made() -> Scattered:
        path, edges = scattered_file(folder, chunks, preprocessing, ranges)
        if edges is None:  # left by a task that ran here before and whose answer was lost
            path.unlink()
            _, edges = scattered_file(folder, chunks, preprocessing, ranges)
        assert edges is not None
        return Scattered(folder, tuple(chunks), preprocessing, edges)

    kept: Scattered = named(made)
    return kept


def piece(scattered: Scattered, number: int) -> Loose:
    """The task that reads a seat's rows of one range."""
    rows: Loose = named(lambda: scattered.piece(number))
    return rows


@dataclass(frozen=True, slots=True)
class Met:
    """The persons of one range: their block, or only how many rows they have in the file that this worker wrote."""

    number: int
    rows: int = field(repr=False)
    block: Block | None


def meet_in_memory(number: int, pieces: Sequence[Loose], preprocessing: Preprocessing) -> Met:
    """The task in which the rows of a range meet, to be kept in memory."""
    block: Block = named(lambda: persons(together(pieces, preprocessing.rows_per_unit)))
    return Met(number, len(block), block)


def meet_in_files(folder: str, number: int, pieces: Sequence[Loose], preprocessing: Preprocessing) -> Met:
    """The same, to be kept in a file."""

    def kept() -> int:
        block = persons(together(pieces, preprocessing.rows_per_unit))
        written(path_of(folder, number), [block.X, block.y, block.slots])
        return len(block)

    return Met(number, named(kept), None)


def path_of(folder: str, number: int) -> Path:
    return private_folder(local_directory(), folder) / f"{number}.persons"


@dataclass(frozen=True, slots=True)
class PersonsInFiles:
    """The persons of some ranges in files of the worker's local directory: made from Parquet where one is missing, as on a worker that
    took over.
    """

    folder: str
    met: tuple[Met, ...]
    ranges: int
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(each.number for each in self.met)

    def blocks(self) -> Iterator[Block]:
        buffer = room_for(max(each.rows for each in self.met), self.preprocessing)
        for each in self.met:
            path = path_of(self.folder, each.number)
            if not path.exists():
                block = gathered(Gathering(each.number, self.ranges, self.chunks), self.preprocessing)
                written(path, [block.X, block.y, block.slots])
            X, y, slots = buffer.X[: each.rows], buffer.y[: each.rows], buffer.slots[: each.rows]
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                read_into(handle, [X, y, slots], 0)
            finally:
                os.close(handle)
            yield Block(X, y, slots, runs_of(slots))


def seat_in_memory(met: Sequence[Met]) -> InMemory:
    """The task that makes one handle of what a seat keeps."""
    return InMemory(tuple(each.number for each in met), tuple(each.block for each in met if each.block is not None))


def seat_in_files(folder: str, met: Sequence[Met], ranges: int, chunks: tuple[Chunk, ...], preprocessing: Preprocessing) -> PersonsInFiles:
    """The same of files."""
    return PersonsInFiles(folder, tuple(met), ranges, chunks, preprocessing)


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The rounds on a cluster, of which it needs two things: submit(worker, task, *arguments) and waiting for tasks."""

    submit: Callable[..., Any]
    wait: Callable[[Sequence[Any]], None]
    folder: str
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing
    ranges: int
    threads: Sequence[str]
    at_once: int

    def scattered(self, seats: Sequence[tuple[str, tuple[Chunk, ...]]]) -> list[tuple[Any, str]]:
        """The tasks of the first round with their workers, done."""
        tasks = [self.submit(worker, scatter, self.folder, chunks, self.preprocessing, self.ranges) for worker, chunks in seats]
        self.wait(tasks)
        return [(task, worker) for task, (worker, _) in zip(tasks, seats, strict=True)]

    def met(self, scattered: Sequence[tuple[Any, str]], in_memory: bool) -> list[Any]:
        """The tasks of the second round, done; some ranges at a time, because their pieces are in memory while they move."""
        done: list[Any] = []
        step = max(len(self.threads), self.at_once)
        for first in range(0, self.ranges, step):
            now = []
            for number in range(first, min(first + step, self.ranges)):
                pieces = [self.submit(worker, piece, task, number) for task, worker in scattered]
                owner = self.threads[self._seat(number)]
                now.append(
                    self.submit(owner, meet_in_memory, number, pieces, self.preprocessing)
                    if in_memory
                    else self.submit(owner, meet_in_files, self.folder, number, pieces, self.preprocessing)
                )
            self.wait(now)
            done += now
        return done

    def kept(self, met: Sequence[Any], in_memory: bool) -> list[tuple[Any, str]]:
        """One handle per thread, with its worker."""
        tasks = []
        for seat, worker in enumerate(self.threads):
            mine = [task for number, task in enumerate(met) if self._seat(number) == seat]
            tasks.append(
                self.submit(worker, seat_in_memory, mine)
                if in_memory
                else self.submit(worker, seat_in_files, self.folder, mine, self.ranges, self.chunks, self.preprocessing)
            )
        self.wait(tasks)
        return list(zip(tasks, self.threads, strict=True))

    def _seat(self, number: int) -> int:
        """Whose a range is: consecutive ranges for each thread, of which there are no more than ranges."""
        return number * len(self.threads) // self.ranges
