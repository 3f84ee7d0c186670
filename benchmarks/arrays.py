"""A step over decoded rows in the workers' memory, asked in four ways that give the same integers: the processors' time of all processes.

By calling the workers (what a refit does), by tasks over their blocks (what it does when a call is not answered), by `dask.array.blockwise`
over X, y and slots as Dask arrays whose chunks are the staged ones, fused to one task a chunk, and by tasks over the chunks of the three
arrays, persisted.
"""

import functools
import statistics
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import wait

from benchmarks._measure import REPEATS, data_set, on_workers, question
from nightfit.queries.base import Query
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.on_cluster import OnCluster
from nightfit.shards.staging import InMemory
from nightfit.shards.tasks import aggregate_staged
from nightfit.types import Array, Block, Integers

ROWS, COLUMNS, SHARDS = 800_000, 20, 32
AT_A_TIME = 5  # steps: the system counts processors' time in hundredths of a second


def of_chunk(X: Array, y: Array, slots: Any, query: Query) -> Integers:
    """The query's integers over one chunk of the three arrays, as a row."""
    return query.chunk(Block(np.ascontiguousarray(X), y, slots))[None]


def part(staged: InMemory, place: int) -> Block:
    return staged.parts[place]


def field(block: Any, name: str) -> Any:
    """One array of a block; Dask hands over an empty array first, to see what comes out."""
    return getattr(block, name) if isinstance(block, Block) else np.empty(0)


def staged_arrays(shards: ShardedDataset, columns: int) -> tuple[Any, Any, Any]:
    """X, y and slots as Dask arrays with known chunks, which are those that the workers hold."""
    assert isinstance(shards.executor, OnCluster)
    assigned = zip(shards.executor.staged or (), shards.placement.assignments(), strict=True)
    held = [(future, place, chunk.rows) for (future, _), (_, chunks) in assigned for place, chunk in enumerate(chunks)]
    leaves = [dask.delayed(part)(dask.delayed(future), place) for future, place, _ in held]
    blocks = da.concatenate([da.from_delayed(leaf, (1,), dtype=object, meta=np.empty(0, object)) for leaf in leaves])
    rows = tuple(count for *_, count in held)
    X = da.map_blocks(field, blocks, "X", chunks=(rows, (columns,)), new_axis=1, dtype=np.float64, meta=np.empty((0, 0)))
    y = da.map_blocks(field, blocks, "y", chunks=(rows,), dtype=np.float64, meta=np.empty(0))
    return X, y, da.map_blocks(field, blocks, "slots", chunks=(rows,), dtype=np.uint64, meta=np.empty(0, np.uint64))


def by_blockwise(client: Any, query: Query, X: Any, y: Any, slots: Any) -> Integers:
    row = functools.partial(of_chunk, query=query)
    sums = da.blockwise(row, "ij", X, "ij", y, "i", slots, "i", dtype=np.int64, adjust_chunks={"i": 1}, meta=np.empty((0, 0), np.int64))
    found: Integers = client.compute(sums.sum(axis=0, split_every=8)).result()
    return found


def by_chunks(client: Any, query: Query, X: Any, y: Any, slots: Any) -> Integers:
    chunks = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), slots.to_delayed().ravel(), strict=True)
    sums = client.gather(client.compute([dask.delayed(of_chunk)(*chunk, query=query) for chunk in chunks]))
    return functools.reduce(query.merge, [row[0] for row in sums])


def processor_seconds(work: Callable[[], object], processes: list[psutil.Process]) -> float:
    """What these processes spend on AT_A_TIME pieces of work, whoever else is on the machine."""
    before = [process.cpu_times() for process in processes]
    for _ in range(AT_A_TIME):
        work()
    after = [process.cpu_times() for process in processes]
    return sum(there.user + there.system - here.user - here.system for there, here in zip(after, before, strict=True))


def ratios(rows: int = ROWS) -> dict[str, float]:
    query = question(COLUMNS)
    with data_set(rows, COLUMNS, SHARDS) as manifest, on_workers(manifest, COLUMNS) as (client, shards):
        assert isinstance(shards.executor, OnCluster)
        executor, staged, leaves = shards.executor, shards.executor.staged or [], staged_arrays(shards, COLUMNS)
        kept = [array.persist() for array in leaves]
        wait(kept)
        works = (
            lambda: shards.aggregate(query),
            lambda: shards._merge(query, executor._by_tasks(aggregate_staged, query, staged)),
            lambda: by_blockwise(client, query, *leaves),
            lambda: by_chunks(client, query, *kept),
        )
        first, *others = [work() for work in works]
        assert all((first == other).all() for other in others)
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        turns = [[processor_seconds(work, processes) for work in works] for _ in range(REPEATS)]
    called, tasks, blockwise, chunks = (statistics.median(times) for times in zip(*turns, strict=True))
    return {
        "tasks over blocks against calls": tasks / called,
        "blockwise over arrays of the staged chunks against calls": blockwise / called,
        "tasks over chunks of three persisted arrays against calls": chunks / called,
    }
