"""Each fused pass and the histograms of columns on 1e6 x 50 float64, one thread, against X.sum() of the array: reading it once is 1."""

import numpy as np

from benchmarks._measure import REPEATS, ratio
from nightfit.plugins import members
from nightfit.problem.losses.squared import Squared
from nightfit.queries import boundings as bounding
from nightfit.queries.histograms import Histogram
from nightfit.queries.kernels import gradient_sums
from nightfit.queries.magnitudes import COLUMN_GRID, ColumnMagnitudes, ColumnSpreads
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
    everything, hidden = tuple(range(COLUMNS)), np.zeros(COLUMNS, dtype=np.bool_)
    measures = {
        "magnitudes": ColumnMagnitudes(columns=everything, known=hidden),
        "spreads": ColumnSpreads(columns=everything, centre=weights),
    }
    for name, measure in measures.items():
        query = Histogram(measure=measure, log_grid=COLUMN_GRID, bits=BITS)
        found[f"histogram of {name}"] = ratio(lambda query=query: query.chunk(block), X.sum)  # type: ignore[misc]
    return found
