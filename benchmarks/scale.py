"""Twice the rows, twice the columns, twice the workers: the time of a step on data in memory.

A step is about as fast as memory is read, so two workers are faster than one by no more than the machine's memory allows: what plain
reading of as many bytes gains from two processes is measured beside it, and what steps gain that take longer than reading: of smoothed
means (`psi`), and of features in single precision, which are half as many bytes.
"""

import multiprocessing
import statistics
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np

from benchmarks._measure import CLIP, REPEATS, data_set, on_workers, question, ratio, seconds
from pipeline.bounding import Bounding
from pipeline.bounding.psi import EXAMPLES
from pipeline.preprocessing import Precision
from pipeline.shards.manifest import Manifest

ROWS, COLUMNS, SHARDS = 4_000_000, 50, 16
PSI = EXAMPLES[0]


def times(
    one: tuple[Manifest, int, int], other: tuple[Manifest, int, int], *boundings: Bounding, precision: Precision = "double"
) -> list[float]:
    """Steps on one cluster in times of steps on another: data set, columns and workers of each, measured in turns."""
    with on_workers(*one, precision=precision) as (_, first), on_workers(*other, precision=precision) as (_, second):
        return [
            ratio(lambda b=b: first.total(question(one[1], b)), lambda b=b: second.total(question(other[1], b)), 3 * REPEATS)  # type: ignore[misc]
            for b in boundings
        ]


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
    with data_set(rows, COLUMNS, SHARDS) as base:
        alone, alone_psi = times((base, COLUMNS, 1), (base, COLUMNS, 2), CLIP, PSI)
        (alone_single,) = times((base, COLUMNS, 1), (base, COLUMNS, 2), CLIP, precision="single")
        with data_set(2 * rows, COLUMNS, SHARDS) as longer:
            (rows_twice,) = times((longer, COLUMNS, 2), (base, COLUMNS, 2), CLIP)
        with data_set(rows, 2 * COLUMNS, SHARDS) as wider:
            (columns_twice,) = times((wider, 2 * COLUMNS, 2), (base, COLUMNS, 2), CLIP)
    return {
        "rows x 2": rows_twice,
        "columns x 2": columns_twice,
        "workers 1 to 2, times faster": alone,
        "workers 1 to 2, times faster, psi": alone_psi,
        "workers 1 to 2, times faster, precision single": alone_single,
        "reading memory, 1 to 2 processes, times faster": reading(rows * COLUMNS, 1) / reading(rows * COLUMNS, 2),
    }
