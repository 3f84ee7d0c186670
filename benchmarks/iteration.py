"""One step on a local cluster of two workers that hold 8e6 x 50 in memory, against the kernel alone on the same rows divided by 2."""

from benchmarks._measure import data_set, on_workers, preprocessing, question, ratio
from pipeline.shards.read import load

ROWS, COLUMNS, SHARDS, SAMPLED = 8_000_000, 50, 64, 16  # the kernel is timed on the first chunks of all


def ratios(rows: int = ROWS) -> dict[str, float]:
    asked = question(COLUMNS)
    with data_set(rows, COLUMNS, SHARDS) as manifest, on_workers(manifest, COLUMNS) as (_, shards):
        here = [load(chunk, preprocessing(COLUMNS)) for chunk in shards.chunks[:SAMPLED]]
        share = manifest.rows / sum(len(block) for block in here)

        def step() -> object:
            return shards.total(asked)

        def kernel() -> object:
            return [asked.chunk(block) for block in here]

        return {"step on 2 workers against half the kernel": 2 * ratio(step, kernel) / share}
