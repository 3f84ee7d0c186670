"""What 50 categories with 1,000 levels in all cost in a pass, against 50 numbers: the loop's gradient, and the widest query of `auto`.

Rows are as they are staged: an indicator for each level, and for `other` of each category. The loop's pass should cost at most twice that
of 50 numbers. `auto`, which asks for a matrix of all columns or chooses columns first, is told beside it.
"""

import numpy as np

from benchmarks._measure import REPEATS, ratio
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.whitened_gradients import GradientAndMoment
from nightfit.records.columns.category import Category
from nightfit.types import Array, Block

ROWS, CATEGORIES, LEVELS = 100_000, 50, 1000
ROWS_OF_AUTO = 2_000  # whose matrix of 1,050 columns takes 400 times the work of one of 50


def ratios(rows: int = ROWS, rows_of_auto: int = ROWS_OF_AUTO) -> dict[str, float]:
    rng = np.random.default_rng(0)
    y = rng.normal(size=rows)
    numbers, levels = Block(rng.normal(size=(rows, CATEGORIES)), y), Block(_indicators(rng, rows), y)
    few = [Block(block.X[:rows_of_auto], y[:rows_of_auto]) for block in (levels, numbers)]

    def loop(block: Block) -> object:
        query = GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.full(block.X.shape[1], 0.01), bits=36)
        return query.chunk(block)

    return {
        "gradient of the loop, 50 categories of 1,000 levels against 50 numbers": ratio(lambda: loop(levels), lambda: loop(numbers)),
        "gradient and moment of auto, the same": ratio(lambda: _of_auto(few[0]), lambda: _of_auto(few[1]), min(3, REPEATS)),
    }


def _of_auto(block: Block) -> object:
    columns = block.X.shape[1]
    query = GradientAndMoment(
        rows=Rows(centre=np.zeros(columns), scale=np.ones(columns), reach=np.full(columns, 4.0)),
        rotation=Rotation.of(np.eye(columns)),
        loss=Squared(),
        weights=np.zeros(columns),
        clip=1.0,
        cap=10.0,
        bits=12,
    )
    return query.chunk(block)


def _indicators(rng: np.random.Generator, rows: int) -> Array:
    """One level of each category in each row."""
    each = Category(levels=tuple(map(str, range(LEVELS // CATEGORIES))))
    out = np.empty((rows, CATEGORIES * len(each.shown)))
    for place in range(CATEGORIES):
        each.encode(rng.integers(0, len(each.shown), rows), out[:, place * len(each.shown) : (place + 1) * len(each.shown)])
    return out
