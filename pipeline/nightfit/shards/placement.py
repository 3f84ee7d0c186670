"""Which rows go to which worker, and whether they fit in memory: from row counts and memory limits alone. Imports packages below."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.manifest import Manifest
from nightfit.shards.read import BATCH_BYTES, Chunk, PersonRange, chunks_of
from nightfit.shards.staging import row_bytes

CHUNK_BYTES = 2**26  # of decoded rows in a chunk, at most: small beside the memory of a worker
SMALLEST_CHUNK_BYTES = 2**20  # at least: a task costs about 2 ms, and summing a megabyte less
RANGE_BYTES = 2**26  # of the decoded rows of persons in a range
RESIDENT_SHARE = 0.4  # of the workers' memory, for staged rows
PROCESS_BYTES = 5 * 2**26  # of a worker that has imported nightfit and compiled a pass, before it holds a row: 260 MiB, with a quarter more
KILLED_SHARE = 0.9  # of a worker's limit: a nanny ends it at 0.95 (distributed.worker.memory.terminate)
MOMENT_COLUMNS = 2048  # of more columns a plan chooses some first, and asks for no second moment of all
DECODING_BYTES = 3 * BATCH_BYTES  # of each thread: a batch as Arrow's columns, as numbers, and bounded
GROUPING_SHARE = 0.1  # of the workers' memory, for rows that are brought together; twice that while they move
PREFETCH_SHARE = 0.15  # of the workers' memory, for the rows of later draws
UNLIMITED_BYTES = 2**28  # in place of a share of memory that has no limit, and without workers

Assignment = tuple[str, tuple[Chunk, ...]]  # a worker's address, and the chunks of one of its threads


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The chunks of a data set and the workers that stage them.

    `workers` is what the scheduler says of each worker, by address; empty without a cluster. `sources` are the chunks, or, where persons
    are units, ranges of persons: each has all rows of its persons.
    """

    rows: int
    preprocessing: Preprocessing
    workers: dict[str, dict[str, Any]]
    chunks: tuple[Chunk, ...]
    sources: tuple[Chunk | PersonRange, ...]

    @classmethod
    def of(
        cls, manifest: Manifest, preprocessing: Preprocessing, workers: dict[str, dict[str, Any]], chunk_bytes: int | None
    ) -> "Placement":
        """Cut a manifest into chunks of this size, or by default into four per thread: fewer would be uneven, more would cost tasks."""
        threads, persons = _thread_count(workers), preprocessing.unit is not None
        each = preprocessing.dense_row_bytes if persons else row_bytes(preprocessing)  # persons are brought together as dense rows
        default = min(CHUNK_BYTES, max(SMALLEST_CHUNK_BYTES, manifest.rows * each // (4 * (threads or 1))))
        columns = preprocessing.columns if preprocessing.layout is None or persons else each // 8
        chunks = chunks_of(manifest, columns, chunk_bytes or default)
        sources: tuple[Chunk | PersonRange, ...] = chunks
        if persons and chunks:
            ranges = max(1, threads, -(-manifest.rows * each // RANGE_BYTES))
            sources = tuple(PersonRange(number, ranges, chunks) for number in range(ranges))
        return cls(rows=manifest.rows, preprocessing=preprocessing, workers=workers, chunks=chunks, sources=sources)

    @property
    def data_bytes(self) -> int:
        """Bytes of all decoded rows."""
        return max(1, self.rows) * row_bytes(self.preprocessing)

    @property
    def dense_bytes(self) -> int:
        """Bytes of all decoded rows with all columns."""
        return max(1, self.rows) * self.preprocessing.dense_row_bytes

    @property
    def threads(self) -> list[str]:
        """A worker's address for each of its threads."""
        return [address for address, worker in self.workers.items() for _ in range(worker["nthreads"])]

    @property
    def grouping_bytes(self) -> float:
        """Memory for rows that are brought together."""
        return self._memory(GROUPING_SHARE)

    @property
    def ranges_at_once(self) -> int:
        """How many ranges of persons may be brought together at a time."""
        return int(self.grouping_bytes // RANGE_BYTES)

    @property
    def prefetch_fraction(self) -> float:
        """How much of the rows there is memory to prefetch."""
        return self._memory(PREFETCH_SHARE) / self.data_bytes

    def _memory(self, share: float) -> float:
        """This share of the workers' memory, in bytes; UNLIMITED_BYTES if it has no limit or there is no worker."""
        return sum(share * (worker["memory_limit"] or 0) for worker in self.workers.values()) or UNLIMITED_BYTES

    def room(self, worker: dict[str, Any]) -> float:
        """Bytes of rows that a worker may hold: RESIDENT_SHARE of its limit, or what is left beside the process itself if that is less.

        Beside rows a worker holds Python and compiled code, the batch that each thread decodes, and each thread's sums of a query: at
        most two matrices of columns x columns. Broken by test_f39_rows_that_would_have_a_worker_killed_go_to_its_disk.
        """
        limit = worker["memory_limit"] or 0
        beside = PROCESS_BYTES + worker["nthreads"] * (DECODING_BYTES + 2 * 8 * min(self.preprocessing.columns, MOMENT_COLUMNS) ** 2)
        return min(RESIDENT_SHARE * limit, KILLED_SHARE * limit - beside)

    def fits_in_memory(self) -> bool:
        """Whether all rows fit in the workers' room, spread as `assignments` spreads them: by threads."""
        limits = [self.room(worker) for worker in self.workers.values()]
        each = row_bytes(self.preprocessing)
        largest = max((chunk.rows for chunk in self.chunks), default=0)
        threads = max(1, len(self.threads))
        even = all(self.rows * each * worker["nthreads"] / threads <= self.room(worker) for worker in self.workers.values())
        return bool(limits) and even and largest * each <= min(limits)

    def assignments(self) -> list[Assignment]:
        """For each thread of each worker consecutive chunks, of about as many rows for each; threads without a chunk are left out."""
        threads = self.threads
        ends = np.cumsum([chunk.rows for chunk in self.chunks])
        middles = ends - np.array([chunk.rows for chunk in self.chunks]) / 2
        owner = np.minimum((middles * len(threads) / ends[-1]).astype(int), len(threads) - 1)
        assigned = [
            (address, tuple(chunk for chunk, thread in zip(self.chunks, owner, strict=True) if thread == number))
            for number, address in enumerate(threads)
        ]
        return [(address, chunks) for address, chunks in assigned if chunks]

    def bytes_by_worker(self, each: int) -> dict[str, int]:
        """Bytes of the assigned rows by worker, where a row has `each` bytes."""
        assigned = self.assignments()
        sizes = dict.fromkeys((address for address, _ in assigned), 0)
        for address, chunks in assigned:
            sizes[address] += each * sum(chunk.rows for chunk in chunks)
        return sizes


def _thread_count(workers: dict[str, dict[str, Any]]) -> int:
    return sum(worker["nthreads"] for worker in workers.values())
