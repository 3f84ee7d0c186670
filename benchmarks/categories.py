"""What 50 categories with 1,000 levels in all cost in a pass, against 50 numbers: the loop's gradient, and the widest query of `auto`.

Rows are as they are staged: a code for each category, whose columns are an indicator for each level and for `other`. The loop's pass
should cost at most twice that of 50 numbers, with public scales and with paid ones, whose centred indicators are no zeros. Told beside it:
`auto`, which asks for a matrix of all columns or chooses columns first. It sees dense rows, a few at a time.
"""

from dataclasses import replace

import numpy as np

from benchmarks._measure import REPEATS, ratio
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import chunk_of
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.whitened_gradients import GradientAndMoment
from nightfit.records.coded_rows import Layout, StagedBlock
from nightfit.records.columns.category import Category
from nightfit.types import Array, Block

ROWS, CATEGORIES, LEVELS = 100_000, 50, 1000
_CATEGORY = Category(levels=tuple(map(str, range(LEVELS // CATEGORIES))))
ROWS_OF_AUTO = 2_000  # whose matrix of 1,050 columns takes 400 times the work of one of 50


def ratios(rows: int = ROWS, rows_of_auto: int = ROWS_OF_AUTO) -> dict[str, float]:
    rng = np.random.default_rng(0)
    y, slots, levels = rng.normal(size=rows), np.arange(rows, dtype=np.uint64), len(_CATEGORY.shown)
    layout = Layout(CATEGORIES * levels, tuple((place * levels, levels) for place in range(CATEGORIES)))
    numbers = Block(rng.normal(size=(rows, CATEGORIES)), y, slots)
    first, *pieces = (layout.coded(replace(piece, X=_indicators(rng, len(piece)))) for _, piece in numbers.pieces())
    codes = first.joined(pieces)
    few = [block.first(rows_of_auto) for block in (codes, numbers)]
    passes = {
        "gradient of the loop": ratio(lambda: _of_loop(codes), lambda: _of_loop(numbers)),
        "gradient of the loop, paid scales": ratio(lambda: _of_loop(codes, True), lambda: _of_loop(numbers, True)),
        "gradient and moment of auto": ratio(lambda: _of_auto(few[0]), lambda: _of_auto(few[1]), min(3, REPEATS)),
    }
    return {f"{name}, 50 categories of 1,000 levels against 50 numbers": found for name, found in passes.items()}


def _of_loop(block: StagedBlock, paid: bool = False) -> object:
    columns = _columns(block)
    rows = Rows(centre=np.full(columns, 0.05), scale=np.ones(columns), reach=np.full(columns, 4.0)) if paid else None
    query = GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.full(columns, 0.01), bits=36, rows=rows)
    return chunk_of(query, block)


def _of_auto(block: StagedBlock) -> object:
    columns = _columns(block)
    query = GradientAndMoment(
        rows=Rows(centre=np.zeros(columns), scale=np.ones(columns), reach=np.full(columns, 4.0)),
        rotation=Rotation.of(np.eye(columns)),
        loss=Squared(),
        weights=np.zeros(columns),
        clip=1.0,
        cap=10.0,
        bits=12,
    )
    return chunk_of(query, block)


def _columns(block: StagedBlock) -> int:
    return int(next(piece for _, piece in block.first(1).pieces()).X.shape[1])


def _indicators(rng: np.random.Generator, rows: int) -> Array:
    """One level of each category in each row."""
    each = _CATEGORY
    out = np.empty((rows, CATEGORIES * len(each.shown)))
    for place in range(CATEGORIES):
        each.encode(rng.integers(0, len(each.shown), rows), out[:, place * len(each.shown) : (place + 1) * len(each.shown)])
    return out
