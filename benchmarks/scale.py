"""Twice the rows, twice the columns, twice the workers: the time of a step on data in memory.

A step is about as fast as memory is read, so two workers are faster than one by no more than the machine's memory allows: what plain
reading of as many bytes gains from two processes is measured beside it.
"""

import multiprocessing
import statistics
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np

from benchmarks._measure import REPEATS, data_set, on_workers, question, seconds
from pipeline.shards.manifest import Manifest

ROWS, COLUMNS, SHARDS = 2_000_000, 50, 16


def step(manifest: Manifest, columns: int, workers: int) -> float:
    with on_workers(manifest, columns, workers) as (_, shards):
        return statistics.median(seconds(lambda: shards.total(question(columns))) for _ in range(3 * REPEATS))


def reading(numbers: int, processes: int) -> float:
    """The time in which so many processes, each with its share of the numbers in memory, sum them."""
    context = multiprocessing.get_context("spawn")
    together, told = context.Barrier(processes), context.Queue()
    readers = [context.Process(target=_read, args=(numbers // processes, together, told)) for _ in range(processes)]
    for reader in readers:
        reader.start()
    slowest = max(told.get() for _ in readers)
    for reader in readers:
        reader.join()
    return float(slowest)


def _read(numbers: int, together: Barrier, told: Any) -> None:
    held = np.random.default_rng(0).random(numbers)
    held.sum()
    together.wait()
    told.put(statistics.median(seconds(held.sum) for _ in range(3 * REPEATS)))


def ratios(rows: int = ROWS) -> dict[str, float]:
    with data_set(rows, COLUMNS, SHARDS) as manifest:
        base, alone = step(manifest, COLUMNS, 2), step(manifest, COLUMNS, 1)
    with data_set(2 * rows, COLUMNS, SHARDS) as longer, data_set(rows, 2 * COLUMNS, SHARDS) as wider:
        return {
            "rows x 2": step(longer, COLUMNS, 2) / base,
            "columns x 2": step(wider, 2 * COLUMNS, 2) / base,
            "workers 1 to 2, times faster": alone / base,
            "reading memory, 1 to 2 processes, times faster": reading(rows * COLUMNS, 1) / reading(rows * COLUMNS, 2),
        }
