"""Bring all rows of a person to one worker, once per run, whatever the size of the data. Imports distributed (through staging).

1. *Scatter*: each thread of each worker decodes its chunks into one private file of runs. A run is a few megabytes of rows sorted by their
   persons' slots, so that the rows of a range of slots are one piece of each run.
2. *Group*: the pieces of a range go to one worker, which groups the rows by person, keeps the public number of rows of each and holds
   them in memory or writes them to a file.
3. *Collect*: each thread makes one handle of its ranges.

What is lost with a worker is made again from Parquet, to the same bytes.
"""

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nightfit.records.coded_rows import StagedBlock
from nightfit.records.persons import PersonRows, as_block, group_by_person, range_index
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.failures import failing_by_name
from nightfit.shards.placement import Assignment
from nightfit.shards.read import Chunk, PersonRange, empty_block, load_persons, no_person_rows, person_rows, resident
from nightfit.shards.staging import InMemory, own_folder, private_folder, read_into, write_file
from nightfit.types import Block, Integers, runs_of

RUN_BYTES = 2**25  # of decoded rows that are sorted at a time
RUNS_FOLDER = "runs"
PRIORITY_BYTES = 8


@dataclass(frozen=True, slots=True)
class SortedRuns:
    """The rows of some chunks in a file of sorted runs. Rows edges[r, k] to edges[r, k + 1] of run r are of persons in range k."""

    folder: str
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing
    edges: Integers = field(repr=False)

    def piece(self, number: int) -> PersonRows:
        """The rows of one range, of every run."""
        path, _ = runs_file(self.folder, self.chunks, self.preprocessing, self.edges.shape[1] - 1)
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            offset, pieces = 0, [no_person_rows(self.preprocessing)]
            for edges in self.edges:
                pieces.append(self._read(handle, offset, int(edges[-1]), int(edges[number]), int(edges[number + 1])))
                offset += int(edges[-1]) * (self.preprocessing.dense_row_bytes + PRIORITY_BYTES)
        finally:
            os.close(handle)
        return group_by_person(pieces, self.preprocessing.rows_per_unit)

    def _read(self, handle: int, offset: int, rows: int, first: int, last: int) -> PersonRows:
        """Rows `first` to `last` of the run of `rows` rows that begins at an offset."""
        piece = PersonRows(empty_block(last - first, self.preprocessing), np.empty(last - first, dtype=np.uint64))
        for array in _arrays(piece):
            each = array.itemsize * math.prod(array.shape[1:])
            read_into(handle, [array], offset + first * each)
            offset += rows * each
        return piece


def _arrays(rows: PersonRows) -> list[Any]:
    return [rows.block.X, rows.block.y, rows.block.slots, rows.priorities]


def runs(chunks: Sequence[Chunk], preprocessing: Preprocessing) -> Iterator[PersonRows]:
    """The chunks' rows in runs of about RUN_BYTES, each grouped by person."""
    most = max(1, RUN_BYTES // preprocessing.dense_row_bytes)
    held: list[PersonRows] = []
    for rows in (rows for chunk in chunks for rows in person_rows(chunk, preprocessing)):
        held.append(rows)
        if sum(map(len, held)) >= most:
            yield group_by_person(held, preprocessing.rows_per_unit)
            held = []
    if held:
        yield group_by_person(held, preprocessing.rows_per_unit)


def runs_file(folder: str, chunks: Sequence[Chunk], preprocessing: Preprocessing, ranges: int) -> tuple[Path, Integers | None]:
    """The path of the file of sorted runs. If it does not exist, it is written first and its edges are returned too."""
    place = private_folder(own_folder(folder), RUNS_FOLDER)
    path = place / f"{chunks[0].number}.runs"
    if path.exists():
        return path, None
    edges: list[Integers] = []

    def arrays() -> Iterator[Any]:
        for run in runs(chunks, preprocessing):
            edges.append(np.searchsorted(range_index(run.block.slots, ranges), np.arange(ranges + 1)))
            yield from _arrays(run)

    write_file(path, arrays())
    return path, np.array(edges, dtype=np.int64).reshape(-1, ranges + 1)


def scatter(folder: str, chunks: Sequence[Chunk], preprocessing: Preprocessing, ranges: int) -> SortedRuns:
    """The task of step 1: write the sorted runs of some chunks."""

    def written() -> SortedRuns:
        path, edges = runs_file(folder, chunks, preprocessing, ranges)
        if edges is None:  # left by a task that ran here before and whose result was lost
            path.unlink()
            _, edges = runs_file(folder, chunks, preprocessing, ranges)
        assert edges is not None
        return SortedRuns(folder, tuple(chunks), preprocessing, edges)

    sorted_runs: SortedRuns = failing_by_name(written)
    return sorted_runs


def read_piece(sorted_runs: SortedRuns, number: int) -> PersonRows:
    """The task that reads the rows of one range from a file of runs."""
    rows: PersonRows = failing_by_name(lambda: sorted_runs.piece(number))
    return rows


@dataclass(frozen=True, slots=True)
class GroupedRange:
    """The persons of one range: their block, or (None) only how many rows they have in the file that this worker wrote."""

    number: int
    rows: int = field(repr=False)
    block: StagedBlock | None


def group_in_memory(number: int, pieces: Sequence[PersonRows], preprocessing: Preprocessing) -> GroupedRange:
    """The task of step 2 that keeps a range's persons in memory."""
    grouped = functools.partial(group_by_person, pieces, preprocessing.rows_per_unit)
    block: StagedBlock = failing_by_name(lambda: resident(as_block(grouped()), preprocessing))
    return GroupedRange(number, len(block), block)


def group_in_file(folder: str, number: int, pieces: Sequence[PersonRows], preprocessing: Preprocessing) -> GroupedRange:
    """The task of step 2 that writes a range's persons to a file."""

    def written() -> int:
        block = as_block(group_by_person(pieces, preprocessing.rows_per_unit))
        write_file(range_file(folder, number), [block.X, block.y, block.slots])
        return len(block)

    return GroupedRange(number, failing_by_name(written), None)


def range_file(folder: str, number: int) -> Path:
    """The path of the file of a range's persons."""
    return own_folder(folder) / f"{number}.persons"


@dataclass(frozen=True, slots=True)
class PersonsInFiles:
    """The persons of some ranges in files of the worker's local directory.

    A worker that took over from a lost one writes the files again from Parquet.
    """

    folder: str
    grouped: tuple[GroupedRange, ...]
    ranges: int
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(each.number for each in self.grouped)

    def blocks(self) -> Iterator[Block]:
        buffer = empty_block(max(each.rows for each in self.grouped), self.preprocessing)
        for each in self.grouped:
            path = range_file(self.folder, each.number)
            if not path.exists():
                block = load_persons(PersonRange(each.number, self.ranges, self.chunks), self.preprocessing)
                write_file(path, [block.X, block.y, block.slots])
            X, y, slots = buffer.X[: each.rows], buffer.y[: each.rows], buffer.slots[: each.rows]
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                read_into(handle, [X, y, slots], 0)
            finally:
                os.close(handle)
            yield Block(X, y, slots, runs_of(slots))


def collect_in_memory(grouped: Sequence[GroupedRange]) -> InMemory:
    """The task of step 3: one handle of the ranges that a thread holds in memory."""
    return InMemory(tuple(each.number for each in grouped), tuple(each.block for each in grouped if each.block is not None))


def collect_in_files(
    folder: str, grouped: Sequence[GroupedRange], ranges: int, chunks: tuple[Chunk, ...], preprocessing: Preprocessing
) -> PersonsInFiles:
    """The task of step 3: one handle of the ranges that a thread holds in files."""
    return PersonsInFiles(folder, tuple(grouped), ranges, chunks, preprocessing)


@dataclass(frozen=True, kw_only=True)
class PersonShuffle:
    """The three steps on a cluster, of which it uses submit(worker, task, *arguments) and wait(tasks).

    `threads` has a worker's address for each of its threads; `at_once` is the number of ranges whose pieces may be in memory together.
    """

    submit: Callable[..., Any]
    wait: Callable[[Sequence[Any]], None]
    folder: str
    chunks: tuple[Chunk, ...]
    preprocessing: Preprocessing
    ranges: int
    threads: Sequence[str]
    at_once: int
    in_memory: bool

    def run(self, assignments: Sequence[Assignment]) -> list[tuple[Any, str]]:
        """Do all steps; return one future of staged rows per thread, with its worker."""
        return self._collect(self._group(self._scatter(assignments)))

    def _scatter(self, assignments: Sequence[Assignment]) -> list[tuple[Any, str]]:
        """The done tasks of step 1 with their workers."""
        tasks = [self.submit(worker, scatter, self.folder, chunks, self.preprocessing, self.ranges) for worker, chunks in assignments]
        self.wait(tasks)
        return [(task, worker) for task, (worker, _) in zip(tasks, assignments, strict=True)]

    def _group(self, scattered: Sequence[tuple[Any, str]]) -> list[Any]:
        """The done tasks of step 2; some ranges at a time, because their pieces are in memory while they move."""
        done: list[Any] = []
        step = max(len(self.threads), self.at_once)
        for first in range(0, self.ranges, step):
            now = []
            for number in range(first, min(first + step, self.ranges)):
                pieces = [self.submit(worker, read_piece, task, number) for task, worker in scattered]
                owner = self.threads[self._thread(number)]
                now.append(
                    self.submit(owner, group_in_memory, number, pieces, self.preprocessing)
                    if self.in_memory
                    else self.submit(owner, group_in_file, self.folder, number, pieces, self.preprocessing)
                )
            self.wait(now)
            done += now
        return done

    def _collect(self, grouped: Sequence[Any]) -> list[tuple[Any, str]]:
        """The done tasks of step 3 with their workers, one per thread."""
        tasks = []
        for thread, worker in enumerate(self.threads):
            mine = [task for number, task in enumerate(grouped) if self._thread(number) == thread]
            tasks.append(
                self.submit(worker, collect_in_memory, mine)
                if self.in_memory
                else self.submit(worker, collect_in_files, self.folder, mine, self.ranges, self.chunks, self.preprocessing)
            )
        self.wait(tasks)
        return list(zip(tasks, self.threads, strict=True))

    def _thread(self, number: int) -> int:
        """Index of the thread that owns a range: consecutive ranges for each thread. There are no fewer ranges than threads."""
        return number * len(self.threads) // self.ranges
