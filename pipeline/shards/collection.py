"""A data set as Dask arrays, and the exact integer sum of a query over them. Imports dask, distributed."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np

from pipeline.preprocessing import Preprocessing
from pipeline.query import Question
from pipeline.shards.cluster import ClusterError
from pipeline.shards.manifest import DataError, Manifest
from pipeline.shards.read import Changed, Chunk, blocks, chunks_of, load
from pipeline.types import Block, Integers

CHUNK_BYTES = 2**26
RESIDENT_SHARE = 0.4

FAILURES = {
    "changed": "a shard was added, removed or rewritten since the plan was made: nothing more is charged; restore the files and resume, "
    "or abandon the run",
    "memory": "a worker ran out of memory reading a shard: raise cluster.memory, or write smaller row groups",
    "failed": "a shard could not be read: check that every worker reaches the files; a started run resumes when the refit is run again",
}

Partial = tuple[tuple[int, ...], Any]


class Shards:
    """The records of a manifest, bounded by public preprocessing, on a Dask client or (None) the synchronous scheduler.

    Data that fit in 0.4 of the workers' memory are decoded once and stay there as Dask arrays; larger data are streamed from
    Parquet for every question, so that memory never depends on the number of rows.
    """

    def __init__(self, manifest: Manifest, preprocessing: Preprocessing, client: Any = None, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.manifest, self.preprocessing, self.client = manifest, preprocessing, client
        self.chunks = chunks_of(manifest, preprocessing.columns, chunk_bytes)
        self._resident: list[tuple[Chunk, tuple[Any, ...]]] | None = None

    def arrays(self) -> tuple[Any, Any, Any]:
        """X (rows x columns), y and the records' slots as lazy Dask arrays with known chunks."""
        columns = self.preprocessing.columns
        parts = [dask.delayed(staged, pure=True)(chunk, self.preprocessing) for chunk in self.chunks]
        if not parts:
            return da.zeros((0, columns)), da.zeros(0), da.zeros(0, dtype=np.uint64)
        X = [da.from_delayed(part.X, (chunk.rows, columns), dtype=np.float64) for part, chunk in zip(parts, self.chunks, strict=True)]
        y = [da.from_delayed(part.y, (chunk.rows,), dtype=np.float64) for part, chunk in zip(parts, self.chunks, strict=True)]
        slots = [da.from_delayed(part.slots, (chunk.rows,), dtype=np.uint64) for part, chunk in zip(parts, self.chunks, strict=True)]
        return da.concatenate(X), da.concatenate(y), da.concatenate(slots)

    def total(self, query: Question) -> Integers:
        """The query's integers summed over every record, exactly once each.

        Guarantee: integer addition is associative, a chunk's integers depend on its rows alone, and every chunk's number is
        counted once, so chunking, workers, order and retries do not change the result. Broken by
        test_any_chunking_order_or_scheduler_gives_the_same_integers.
        """
        if not self.chunks:
            return query.chunk(_empty(self.preprocessing))
        partials = self._synchronous(query) if self.client is None else self._distributed(query)
        numbers: list[int] = []
        sums: list[Integers] = []
        for counted, integers in partials:
            if isinstance(integers, str):
                raise DataError(FAILURES[integers])
            numbers += counted
            sums.append(integers)
        if sorted(numbers) != [chunk.number for chunk in self.chunks]:
            raise ClusterError("a chunk was lost or counted twice: the answer was discarded; run the refit again to resume")
        return functools.reduce(query.merge, sums)

    def _synchronous(self, query: Question) -> Iterable[Partial]:
        for chunk in self.chunks:
            yield dask.compute(dask.delayed(stream)(query, (chunk,), self.preprocessing), scheduler="synchronous")[0]

    def _distributed(self, query: Question) -> Iterable[Partial]:
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            if self._fits():
                futures = self._over_arrays(query)
            else:
                futures = [self.client.submit(stream, query, (chunk,), self.preprocessing, pure=False) for chunk in self.chunks]
            return [tuple(partial) for partial in self.client.gather(futures)]
        except RuntimeError as failure:
            raise DataError(FAILURES.get(str(failure), FAILURES["failed"])) from None
        except KilledWorker:
            raise ClusterError(
                "workers kept dying on the same shard (out of memory?): raise cluster.memory, then run the refit again to resume"
            ) from None
        except (CancelledError, CommClosedError, OSError, TimeoutError):
            raise ClusterError("the Dask cluster was lost: check scheduler and workers, then run the refit again to resume") from None

    def _fits(self) -> bool:
        if self._resident is None:
            memory = sum(worker["memory_limit"] for worker in self.client.scheduler_info(n_workers=-1)["workers"].values())
            needed = self.manifest.rows * 8 * (self.preprocessing.columns + 2)
            self._resident = self._persisted() if needed <= RESIDENT_SHARE * memory else []
        return bool(self._resident)

    def _persisted(self) -> list[tuple[Chunk, tuple[Any, ...]]]:
        """Each chunk with the futures of its X, y and slots."""
        from distributed import futures_of, wait

        arrays = self.client.persist(self.arrays())
        with self.client.as_current():
            wait(arrays)
        held = {future.key: future for future in futures_of(arrays)}
        rows, *others = (array.__dask_keys__() for array in arrays)
        keys = zip([key for (key,) in rows], *others, strict=True)
        return [(chunk, tuple(held[key] for key in of_chunk)) for chunk, of_chunk in zip(self.chunks, keys, strict=True)]

    def _over_arrays(self, query: Question) -> list[Any]:
        """One task per worker over the chunks that it holds."""
        resident = self._resident or []
        where = self.client.who_has([rows for _, (rows, *_) in resident])
        by_worker: defaultdict[str, list[tuple[Chunk, tuple[Any, ...]]]] = defaultdict(list)
        for chunk, held in resident:
            by_worker[next(iter(where.get(held[0].key, ())), "")].append((chunk, held))
        futures = []
        for worker, parts in by_worker.items():
            place = {"workers": [worker], "allow_other_workers": True} if worker else {}
            numbers, held_here = [chunk.number for chunk, _ in parts], [list(held) for _, held in parts]
            futures.append(self.client.submit(over, query, numbers, held_here, pure=False, **place))
        return futures


def staged(chunk: Chunk, preprocessing: Preprocessing) -> Block:
    """The task that decodes a chunk to stay in memory; it raises the name of a failure and nothing else."""
    try:
        return load(chunk, preprocessing)
    except Changed:
        raise RuntimeError("changed") from None
    except MemoryError:
        raise RuntimeError("memory") from None
    except Exception:
        raise RuntimeError("failed") from None


def over(query: Question, numbers: Sequence[int], chunks: Sequence[Sequence[Any]]) -> Partial:
    """The task over decoded chunks (X, y, slots). It never raises: Dask prints the arguments of a task that does."""
    return _guarded(numbers, lambda: _sum(query, (Block(*arrays) for arrays in chunks)))


def stream(query: Question, chunks: Sequence[Chunk], preprocessing: Preprocessing) -> Partial:
    """The task that reads chunks from Parquet, a few megabytes at a time. It never raises: Dask prints tracebacks."""
    return _guarded(
        [chunk.number for chunk in chunks], lambda: _sum(query, (block for chunk in chunks for block in blocks(chunk, preprocessing)))
    )


def _sum(query: Question, parts: Iterable[Block]) -> Integers:
    return functools.reduce(query.merge, (query.chunk(block) for block in parts))


def _guarded(numbers: Sequence[int], work: Callable[[], Any]) -> Partial:
    try:
        return tuple(numbers), work()
    except Changed:
        return tuple(numbers), "changed"
    except MemoryError:
        return tuple(numbers), "memory"
    except Exception:
        return tuple(numbers), "failed"


def _empty(preprocessing: Preprocessing) -> Block:
    return Block(np.empty((0, preprocessing.columns)), np.empty(0))
