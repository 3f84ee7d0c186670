"""Twice the rows, twice the columns, twice the workers: the time of a step on data in memory."""

import statistics

from benchmarks._measure import REPEATS, data_set, on_workers, question, seconds

ROWS, COLUMNS, SHARDS = 2_000_000, 50, 16


def step(rows: int, columns: int, workers: int) -> float:
    with data_set(rows, columns, SHARDS) as manifest, on_workers(manifest, columns, workers) as (_, shards):
        return statistics.median(seconds(lambda: shards.total(question(columns))) for _ in range(3 * REPEATS))


def ratios(rows: int = ROWS) -> dict[str, float]:
    base, alone = step(rows, COLUMNS, 2), step(rows, COLUMNS, 1)
    return {
        "rows x 2": step(2 * rows, COLUMNS, 2) / base,
        "columns x 2": step(rows, 2 * COLUMNS, 2) / base,
        "workers 1 to 2, times faster": alone / base,
    }
