"""Whether steps slow down with their number, and what a step costs beside its kernels, in empty round trips to a worker.

Late steps of one cluster are measured in turns with early ones of another, so that a busy moment weighs on both.
"""

import statistics

from benchmarks._measure import REPEATS, data_set, on_workers, preprocessing, question, ratio, seconds
from nightfit.shards.read import load

ROWS, COLUMNS, SHARDS, STEPS, EARLY, TURNS = 51_200, 20, 512, 500, 10, 50


def ratios(steps: int = STEPS, workers: int = 2) -> dict[str, float]:
    asked = question(COLUMNS)
    with data_set(ROWS, COLUMNS, SHARDS) as manifest, on_workers(manifest, COLUMNS, workers) as (client, shards):
        taken = [seconds(lambda: shards.aggregate(asked)) for _ in range(steps)]
        with on_workers(manifest, COLUMNS, workers) as (_, fresh):
            for _ in range(EARLY):
                fresh.aggregate(asked)
            slower = ratio(lambda: shards.aggregate(asked), lambda: fresh.aggregate(asked), TURNS)
        here = [load(chunk, preprocessing(COLUMNS)) for chunk in shards.chunks]
        kernel = statistics.median(seconds(lambda: [asked.chunk(block) for block in here]) for _ in range(REPEATS)) / workers
        empty = statistics.median(seconds(lambda: client.submit(int, pure=False).result()) for _ in range(TURNS))
    return {
        f"step {steps} against step {EARLY}": slower,
        "overhead of a step in round trips": (statistics.median(taken) - kernel) / empty,
    }
