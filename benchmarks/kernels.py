"""Each fused pass on 1e6 x 50 float64, one thread, against X.sum() of the same array: the cost of reading memory once is 1."""

import numpy as np

from benchmarks._measure import REPEATS, ratio
from nightfit.plugins import members
from nightfit.problem.losses.squared import Squared
from nightfit.queries import boundings as bounding
from nightfit.queries.kernels import gradient_sums
from nightfit.types import Block

ROWS, COLUMNS, BITS, GROUPS = 1_000_000, 50, 36, 16


def ratios(rows: int = ROWS) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(rows, COLUMNS)), rng.normal(size=rows), rng.normal(size=COLUMNS)
    block, groups = Block(X, y), rng.integers(0, GROUPS, rows)
    found = {}
    for name, (example, *_) in members(bounding).items():

        def plain(e: bounding.Bounding = example) -> object:
            return gradient_sums(block, weights, Squared(), e, None, 1, BITS)

        def grouped(e: bounding.Bounding = example) -> object:
            return gradient_sums(block, weights, Squared(), e, groups, GROUPS, BITS)

        found[name] = ratio(plain, X.sum)
        found[f"{name}, {GROUPS} groups against none"] = ratio(grouped, plain, 3 * REPEATS)
    return found
