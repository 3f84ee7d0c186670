"""Whether steps slow down with their number, and what a step costs beside its kernels, in empty round trips to a worker."""

import statistics

from benchmarks._measure import REPEATS, data_set, on_workers, preprocessing, question, seconds
from pipeline.shards.read import load

ROWS, COLUMNS, SHARDS, STEPS = 51_200, 20, 512, 510


def ratios(steps: int = STEPS) -> dict[str, float]:
    asked = question(COLUMNS)
    with data_set(ROWS, COLUMNS, SHARDS) as manifest, on_workers(manifest, COLUMNS) as (client, shards):
        taken = [seconds(lambda: shards.total(asked)) for _ in range(steps)]
        around = min(50, steps // 3)  # steps, so that a busy moment is not taken for a trend
        late, early = statistics.median(taken[-around:]), statistics.median(taken[:around])
        here = [load(chunk, preprocessing(COLUMNS)) for chunk in shards.chunks]
        kernel = statistics.median(seconds(lambda: [asked.chunk(block) for block in here]) for _ in range(REPEATS)) / 2
        empty = statistics.median(seconds(lambda: client.submit(int, pure=False).result()) for _ in range(50))
    return {
        f"step {steps - 10} against step 10": late / early,
        "overhead of a step in round trips": (statistics.median(taken) - kernel) / empty,
    }
