"""Each fused pass on 1e6 x 50 float64, one thread, against X.sum() of the same array: the cost of reading memory once is 1."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from pipeline import bounding
from pipeline.discovery import members
from pipeline.kernels import gradient_sums
from pipeline.losses.squared import Squared
from pipeline.types import Block

ROWS, COLUMNS, REPEATS, BITS, GROUPS = 1_000_000, 50, 7, 36, 16


def median_seconds(work: Callable[[], object]) -> float:
    work()
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def ratios() -> dict[str, float]:
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=ROWS), rng.normal(size=COLUMNS)
    block, groups = Block(X, y), rng.integers(0, GROUPS, ROWS)
    found = {}
    for name, (example, *_) in members(bounding).items():
        # the read is measured beside each pass, so that a busy moment weighs on both
        read = median_seconds(X.sum)
        found[name] = median_seconds(lambda e=example: gradient_sums(block, weights, Squared(), e, None, 1, BITS)) / read
        grouped = median_seconds(lambda e=example: gradient_sums(block, weights, Squared(), e, groups, GROUPS, BITS)) / read
        found[f"{name}, {GROUPS} groups"] = grouped
    return found
