"""One step on a local cluster of two workers that hold 8e6 x 50 in memory, against the kernel alone on the same rows divided by 2.

Beside it, what the machine leaves of two cores that read memory at once: the kernel in two threads of one process, no Dask in it.
"""

from concurrent.futures import ThreadPoolExecutor

from benchmarks._measure import data_set, on_workers, preprocessing, question, ratio
from nightfit.shards.read import load

ROWS, COLUMNS, SHARDS, SAMPLED = 8_000_000, 50, 64, 16  # the kernel is timed on the first chunks of all


def ratios(rows: int = ROWS) -> dict[str, float]:
    asked = question(COLUMNS)
    with data_set(rows, COLUMNS, SHARDS) as manifest, on_workers(manifest, COLUMNS) as (_, shards):
        here = [load(chunk, preprocessing(COLUMNS)) for chunk in shards.chunks[:SAMPLED]]
        share = manifest.rows / sum(len(block) for block in here)

        def step() -> object:
            return shards.aggregate(asked)

        def kernel() -> object:
            return [asked.chunk(block) for block in here]

        with ThreadPoolExecutor(2) as threads:

            def two_threads() -> object:
                return list(threads.map(asked.chunk, here))

            return {
                "step on 2 workers against half the kernel": 2 * ratio(step, kernel) / share,
                "the kernel in 2 threads against half of it": 2 * ratio(two_threads, kernel),
            }
