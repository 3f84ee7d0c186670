"""A step over decoded rows in the workers' memory, asked in four ways that give the same integers.

By calling the workers (what a refit does), by tasks over their blocks (what it does when a call is not answered), by tasks over the chunks
of X, y and slots as three Dask arrays, and by `dask.array.blockwise` with a sum over them.
"""

import functools
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import wait

from benchmarks._measure import REPEATS, data_set, in_turns, on_workers, question
from nightfit.queries.base import Query
from nightfit.shards.on_cluster import OnCluster
from nightfit.shards.tasks import aggregate_staged
from nightfit.types import Array, Block, Integers

ROWS, COLUMNS, SHARDS = 800_000, 20, 32


def of_chunk(query: Query, X: Array, y: Array, slots: Any) -> Integers:
    """The query's integers over one chunk of the three arrays."""
    return query.chunk(Block(np.ascontiguousarray(X), y, slots))


def by_chunks(client: Any, query: Query, X: Any, y: Any, slots: Any) -> Integers:
    chunks = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), slots.to_delayed().ravel(), strict=True)
    sums = client.gather(client.compute([dask.delayed(of_chunk)(query, *chunk) for chunk in chunks]))
    return functools.reduce(query.merge, sums)


def by_blockwise(query: Query, X: Any, y: Any, slots: Any) -> Integers:
    def row(X: Array, y: Array, slots: Any) -> Integers:
        return of_chunk(query, X, y, slots)[None]

    sums = da.blockwise(row, "ij", X, "ij", y, "i", slots, "i", dtype=np.int64, adjust_chunks={"i": 1}, meta=np.empty((0, 0), np.int64))
    found: Integers = sums.sum(axis=0, split_every=8).compute()
    return found


def ratios(rows: int = ROWS) -> dict[str, float]:
    query = question(COLUMNS)
    with data_set(rows, COLUMNS, SHARDS) as manifest, on_workers(manifest, COLUMNS) as (client, shards):
        shards.stage()
        assert isinstance(shards.executor, OnCluster)
        executor, staged = shards.executor, shards.executor.staged or []
        arrays = [array.persist() for array in shards.arrays()]
        wait(arrays)
        works = (
            lambda: shards.aggregate(query),
            lambda: shards._merge(query, executor._by_tasks(aggregate_staged, query, staged)),
            lambda: by_chunks(client, query, *arrays),
            lambda: by_blockwise(query, *arrays),
        )
        first, *others = [work() for work in works]
        assert all((first == other).all() for other in others)
        called, tasks, chunks, blockwise = in_turns(*works, repeats=2 * REPEATS)
    return {
        "tasks over blocks against calls": tasks / called,
        "tasks over chunks of three arrays against calls": chunks / called,
        "blockwise and sum of three arrays against calls": blockwise / called,
    }
