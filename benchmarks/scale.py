"""Twice the rows, twice the columns, twice the workers: the time of a step on data in memory.

A step is about as fast as memory is read, so two workers are faster than one by no more than the machine's memory allows. Beside it, in
turns with it and by the same workers on the same rows: what plain reading of these rows gains from a second worker, and how far a step of
two workers is from their plain reading. A step on one worker against plain reading on two is the most that a second worker could gain.
Steps that take longer than reading are measured too: of smoothed means (`psi`), and of features in single precision, which are half as
many bytes.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks._measure import CLIP, REPEATS, data_set, in_turns, on_workers, question
from nightfit.queries.base import Summed
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.psi import EXAMPLES
from nightfit.records.preprocessing import Precision
from nightfit.shards.manifest import Manifest
from nightfit.types import WHOLE, Block, Draw, Integers

ROWS, COLUMNS, SHARDS = 4_000_000, 50, 16
PSI = EXAMPLES[0]


@dataclass(frozen=True, kw_only=True)
class Reading(Summed):
    """Every number of a block is read, and nothing else is done."""

    draw: Draw = WHOLE
    coordinates: int = 1

    def chunk(self, block: Block) -> Integers:
        return np.array([int(np.isfinite(block.X.sum()))])


def times(
    one: tuple[Manifest, int, int], other: tuple[Manifest, int, int], *boundings: Bounding, precision: Precision = "double"
) -> list[float]:
    """Steps on one cluster in times of steps on another, then plain reading, then steps on the one and on the other in times of reading
    on the other: data set, columns and workers of each.
    """
    with on_workers(*one, precision=precision) as (_, first), on_workers(*other, precision=precision) as (_, second):
        pairs = [(question(one[1], bounding), question(other[1], bounding)) for bounding in boundings]
        asked = [(first, mine) for mine, _ in pairs] + [(second, yours) for _, yours in pairs] + [(first, Reading()), (second, Reading())]
        found = in_turns(*(lambda at=at, what=what: at.aggregate(what) for at, what in asked), repeats=3 * REPEATS)  # type: ignore[misc]
    steps, reading = len(boundings), found[-2:]
    return [found[k] / found[steps + k] for k in range(steps)] + [reading[0] / reading[1], found[0] / reading[1], found[steps] / reading[1]]


def ratios(rows: int = ROWS) -> dict[str, float]:
    with data_set(rows, COLUMNS, SHARDS) as base:
        alone, alone_psi, reading, most, beside = times((base, COLUMNS, 1), (base, COLUMNS, 2), CLIP, PSI)
        alone_single, *_ = times((base, COLUMNS, 1), (base, COLUMNS, 2), CLIP, precision="single")
        with data_set(2 * rows, COLUMNS, SHARDS) as longer:
            rows_twice, *_ = times((longer, COLUMNS, 2), (base, COLUMNS, 2), CLIP)
        with data_set(rows, 2 * COLUMNS, SHARDS) as wider:
            columns_twice, *_ = times((wider, 2 * COLUMNS, 2), (base, COLUMNS, 2), CLIP)
    return {
        "rows x 2": rows_twice,
        "columns x 2": columns_twice,
        "workers 1 to 2, times faster": alone,
        "workers 1 to 2, times faster, psi": alone_psi,
        "workers 1 to 2, times faster, precision single": alone_single,
        "workers 1 to 2, times faster, plain reading of the same rows": reading,
        "workers 1 to 2, times faster, if a step on 2 were plain reading": most,
        "a step on 2 workers against their plain reading of the same rows": beside,
    }
