"""Sums of gradients of rows of numbers and codes are those of the dense rows, in Python integers."""

from typing import Any

import numpy as np
import pytest

import nightfit.problem.losses
import nightfit.queries.boundings
from nightfit.numerics.coded_rows import coded_gradient_sum_loop
from nightfit.numerics.fused_loops import gradient_sum_loop
from nightfit.numerics.prf import slots_of
from nightfit.plugins import members
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import chunk_of
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.boundings.psi import Psi
from nightfit.queries.gradient_sums import GradientSum, Groups, Magnitudes, ShrunkenSum, Vertices
from nightfit.queries.kernels import gradient_sums
from nightfit.queries.parts import Division, of_part
from nightfit.queries.rows import Rows
from nightfit.queries.trimmed_gradients import TrimmedGradients
from nightfit.records.coded_rows import CodedBlock, Layout
from nightfit.types import Array, Block, Part, Sample

BOUNDINGS = [b for examples in members(nightfit.queries.boundings).values() for b in examples]
LOSSES = [loss for examples in members(nightfit.problem.losses).values() for loss in examples if loss.formula() is not None]
WIDTHS = (3, 1, 30, 7, 2, 2, 2, 5, 4)  # of categories: more than eight of them
TARGETS = np.array([-700.0, -1.0, 0.0, 0.3, 1.0, 3.0, 20.0])
KEY = bytes(range(16))
every_bounding = pytest.mark.parametrize("bounding", [pytest.param(b, id=repr(b)) for b in BOUNDINGS])


def layout() -> Layout:
    """Numbers before, between and behind categories."""
    first, found = 2, []
    for place, width in enumerate(WIDTHS):
        found.append((first, width))
        first += width + (1 if place % 3 == 0 else 0)
    return Layout(first + 1, tuple(found))


def rows(count: int, targets: Array, numbers: Any, seed: int = 0) -> Block:
    """Dense rows with at most one level of each category; some are null, and some have levels alone."""
    rng, made = np.random.default_rng(seed), layout()
    X = np.zeros((count, made.columns))
    X[:, made.numbers] = numbers(rng, (count, len(made.numbers)))
    for first, width in made.categories:
        level = rng.integers(-1, width, count)
        X[np.flatnonzero(level >= 0), first + level[level >= 0]] = 1.0
    X[::11] = 0.0
    X[5::11, made.numbers] = 0.0  # rows of levels alone
    return Block(X, np.where(X.any(axis=1), rng.choice(targets, count), 0.0), slots_of("file", 0, count))


def on_a_grid(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Multiples of 2^-6, whose products and sums no order of addition changes."""
    return rng.integers(-64, 65, size) / 64.0


def hostile(rng: np.random.Generator, size: tuple[int, int]) -> Array:
    """Heavy tails, and numbers at the edges of float64."""
    X = rng.standard_cauchy(size)
    edges = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1.6e-162, -0.0])
    X[rng.integers(0, size[0], 8), rng.integers(0, size[1], 8)] = edges
    return X


PAIRS = [(b, Squared()) for b in BOUNDINGS] + [(L2Clip(bound=1.0), Logistic())]
OTHERS = [(L2Clip(bound=1.0), loss) for loss in LOSSES if not isinstance(loss, Squared | Logistic)]


@pytest.mark.parametrize(
    ("bounding", "loss"),
    [
        *(pytest.param(*pair, id=repr(pair)) for pair in PAIRS),
        *(pytest.param(*pair, id=repr(pair), marks=pytest.mark.sweep) for pair in OTHERS),
    ],
)
def test_codes_give_the_integers_of_dense_rows(bounding: Bounding, loss: Loss) -> None:
    targets = np.unique(loss.target.encoded(TARGETS[loss.target.holds(TARGETS)]))
    block, rng = rows(90, targets, on_a_grid), np.random.default_rng(1)
    weights = rng.integers(-64, 65, block.X.shape[1]) / 256.0
    codes = layout().coded(block)
    groups = rng.integers(0, 4, 90)
    for of_rows, count in ((None, 1), (groups, 4)):
        dense = gradient_sums(block, weights, loss, bounding, of_rows, count, 30)
        assert gradient_sums(codes, weights, loss, bounding, of_rows, count, 30).tolist() == dense.tolist()


@every_bounding
def test_codes_give_the_integers_of_any_dense_rows_to_the_last_bit(bounding: Bounding) -> None:
    """Whatever the numbers are: against dense rows whose columns lie so that category c is added to lane c mod 8 after all numbers."""
    formulas = bounding.formulas(layout().columns, 48)  # so fine that the last bit of a margin shows
    if formulas is None:
        pytest.skip("dense tiles are summed")
    loss = Squared()
    slope, parameters = loss.formula()  # type: ignore[misc]
    block = rows(200, np.array([-1e9, 1.5, 0.3]), hostile)
    codes, weights = layout().coded(block), np.random.default_rng(2).normal(size=block.X.shape[1])
    X, w, back = spread(block.X, weights)
    expected, none = np.zeros((1, len(w)), dtype=np.int64), np.empty(0, dtype=np.int64)
    gradient_sum_loop(slope, formulas.factor, formulas.steps)(X, block.y, w, none, parameters, formulas.parameters, expected)
    found = np.zeros((1, len(layout().order)), dtype=np.int64)
    order = layout().order
    placed = np.where(order >= 0, weights[order], 0.0)
    loop = coded_gradient_sum_loop(slope, formulas.factor, formulas.steps)
    loop(codes.numbers, codes.codes, len(WIDTHS), codes.squares, codes.y, placed, none, parameters, formulas.parameters, found)
    assert found[0, order >= 0].tolist() == expected[0, back[order[order >= 0]]].tolist()


def spread(X: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Rows and weights with columns of zeros between them, and the new place of each column."""
    made = layout()
    first = -(-len(made.numbers) // 8) * 8
    places = np.empty(made.columns, dtype=np.int64)
    places[made.numbers] = np.arange(len(made.numbers))
    for start in range(0, len(WIDTHS), 8):
        for lane, (at, width) in enumerate(made.categories[start : start + 8]):
            places[at : at + width] = first + lane + 8 * np.arange(width)
        first += 8 * max(WIDTHS[start : start + 8])
    wide, w = np.zeros((len(X), first)), np.zeros(first)
    wide[:, places], w[places] = X, weights
    return wide, w, places


def queries(columns: int) -> list[Any]:
    """Every query that reads codes, and others that are asked in the same runs."""
    rng = np.random.default_rng(3)
    weights = rng.integers(-9, 9, columns) / 64
    facts: dict[str, Any] = {"loss": Squared(), "bounding": L2Clip(bound=1.0), "weights": weights, "bits": 30, "key": KEY}
    plain = GradientSum(**facts)
    rows = Rows(centre=rng.normal(size=columns) / 9, scale=rng.uniform(0.5, 2, columns), reach=np.full(columns, 2.0), level=0.3)
    trimmed = TrimmedGradients(loss=Squared(), bound=1.0, weights=weights, bits=20, trimmed=3, expected=200, smoothness=0.1)
    whole = Division(part=Part(0, 2**31), key=KEY)
    return [
        plain,
        GradientSum(**facts, rows=rows),
        GradientSum(**facts, rows=rows, groups=Groups(count=4)),
        GradientSum(**facts, groups=Groups(count=4), draw=Part(0, 2**31)),
        GradientSum(**facts, draw=Sample(0.3, 2)),
        GradientSum(**facts | {"bounding": Psi(scale=1.0)}),
        ShrunkenSum(**facts, target=0.2),
        Magnitudes(sums=plain, offsets=np.zeros(columns)),
        Vertices(sums=plain),
        of_part(plain, whole),
        of_part(trimmed, whole),
    ]


@pytest.mark.parametrize("place", range(11))
def test_every_query_of_coded_rows_is_that_of_dense_ones(place: int) -> None:
    block = rows(400, np.array([-2.0, 0.25, 1.0]), on_a_grid)
    query, codes = queries(block.X.shape[1])[place], layout().coded(block)
    expected = query.finalise(query.chunk(block))
    parts = [chunk_of(query, part) for part in (codes.first(130), codes.select_units(np.arange(400) >= 130))]
    found = query.finalise(query.merge(*parts))
    assert np.asarray(found).tolist() == np.asarray(expected).tolist()


def test_codes_without_groups_they_belong_to_are_refused() -> None:
    codes = layout().coded(rows(20, np.ones(1), on_a_grid))
    assert isinstance(codes, CodedBlock)
    weights = np.zeros(layout().columns)
    for groups in (np.full(20, 4), np.zeros(3, dtype=np.int64)):
        with pytest.raises(ValueError, match="group"):
            gradient_sums(codes, weights, Squared(), L2Clip(bound=1.0), groups, 4, 30)
