"""The fused pass: exact, order-free, and without a copy of the data."""

import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nightfit.problem.losses
import nightfit.queries.boundings
from nightfit.numerics.exact import decay, margins, rint, rint_int, rint_product
from nightfit.plugins import members
from nightfit.problem.losses import Loss
from nightfit.problem.losses.squared import Squared
from nightfit.queries import kernels
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.kernels import gradient_sums
from nightfit.types import Array, Block, Integers

BOUNDINGS = [b for examples in members(nightfit.queries.boundings).values() for b in examples]
LOSSES = [loss for examples in members(nightfit.problem.losses).values() for loss in examples]
CLIP = L2Clip(bound=1.0)
every_bounding = pytest.mark.parametrize("bounding", [pytest.param(b, id=repr(b)) for b in BOUNDINGS])
every_width = pytest.mark.parametrize("columns", [1, 7, 8, 9, 17, 50])


def hard_block(rows: int, columns: int, seed: int) -> Block:
    """Heavy-tailed rows, labels for targets, and records at the edges of float64 among them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy((rows, columns))
    edges = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1.6e-162, -0.0, 0.0])
    X[rng.integers(0, rows, len(edges)), rng.integers(0, columns, len(edges))] = edges
    return Block(X, rng.choice([-1.0, 1.0], rows))


def read(X: Array, weights: Array) -> tuple[Array, Array]:
    """X . weights and the rows' squares."""
    products, squares = np.empty(len(X)), np.empty(len(X))
    margins(X, weights, products, squares)
    return products, squares


def plain_sums(
    block: Block, weights: Array, loss: Loss, bounding: Bounding, groups: Integers | None, count: int, bits: int
) -> list[list[int]]:
    """The same sums in Python integers, one row at a time."""
    total = [[0] * len(weights) for _ in range(count)]
    for i in range(len(block)):
        row, y = block.X[i : i + 1].copy(), block.y[i : i + 1].copy()
        product, square = read(row, weights)
        steps = np.zeros((1, len(weights)), dtype=np.int64)
        bounding.add(row, loss.slope(y, product), square, np.zeros(1, dtype=np.int64), bits, steps)
        group = 0 if groups is None else int(groups[i])
        total[group] = [sum_ + int(step) for sum_, step in zip(total[group], steps[0], strict=True)]
    return total


@pytest.mark.parametrize(
    ("bounding", "loss"),
    [pytest.param(*pair, id=repr(pair)) for pair in [*((b, Squared()) for b in BOUNDINGS), *((CLIP, loss) for loss in LOSSES)]],
)
def test_the_fused_pass_is_the_sum_of_single_rows_to_the_last_integer(bounding: Bounding, loss: Loss) -> None:
    check_fused(bounding, loss)


@pytest.mark.sweep
@every_bounding
def test_the_fused_pass_of_every_loss_is_the_sum_of_single_rows_to_the_last_integer(bounding: Bounding) -> None:
    for loss in LOSSES:
        check_fused(bounding, loss)


def check_fused(bounding: Bounding, loss: Loss) -> None:
    for bits in (8, 24, 40):
        block, weights = hard_block(25, 9, seed=bits), np.linspace(-1, 1, 9)
        fused = gradient_sums(block, weights, loss, bounding, None, 1, bits)
        assert fused.dtype == np.int64
        assert fused.tolist() == plain_sums(block, weights, loss, bounding, None, 1, bits), (loss, bits)


@every_bounding
def test_groups_are_summed_apart(bounding: Bounding) -> None:
    block, weights = hard_block(200, 5, seed=2), np.full(5, 0.3)
    groups = np.random.default_rng(3).integers(0, 7, 200)
    assert gradient_sums(block, weights, Squared(), bounding, groups, 7, 30).tolist() == plain_sums(
        block, weights, Squared(), bounding, groups, 7, 30
    )


@every_bounding
def test_a_group_that_is_not_there_is_refused_before_anything_is_written(bounding: Bounding) -> None:
    block, groups = hard_block(5, 5, seed=2), np.zeros(5, dtype=np.int64)
    for wrong in (-1, 7, 2**40):
        groups[4] = wrong
        for named in (groups, groups[:3]):
            with pytest.raises(ValueError, match="every unit needs a group"):
                gradient_sums(block, np.full(5, 0.3), Squared(), bounding, named, 7, 30)


@every_bounding
@every_width
def test_any_tiling_splitting_or_order_gives_the_same_integers(bounding: Bounding, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    block, weights = hard_block(500, columns, seed=columns), np.linspace(-0.7, 0.9, columns)
    groups = np.random.default_rng(columns).integers(0, 3, 500)

    def sums(rows: Integers | slice) -> Integers:
        part = Block(np.ascontiguousarray(block.X[rows]), block.y[rows])
        return gradient_sums(part, weights, Squared(), bounding, groups[rows], 3, 40)

    whole_block = sums(slice(None))
    assert np.array_equal(sums(np.random.default_rng(1).permutation(500)), whole_block)
    for cuts in ([250], [1, 2, 3, 499], range(0, 500, 7)):
        parts = [sums(rows) for rows in np.split(np.arange(500), cuts)]
        assert np.array_equal(sum(parts), whole_block)
    for bytes_ in (1, 8 * columns * 3, 8 * columns * 499):
        monkeypatch.setattr(kernels, "TILE_BYTES", bytes_)
        assert np.array_equal(sums(slice(None)), whole_block)


@every_bounding
def test_rows_in_single_precision_are_summed_as_the_same_numbers_in_double(bounding: Bounding) -> None:
    block, weights = hard_block(300, 2, seed=4), np.array([-1.0, 0.7])  # two terms, so that the order of a sum is one
    with np.errstate(over="ignore"):
        single = Block(block.X.astype(np.float32), block.y)
    double = Block(single.X.astype(np.float64), block.y)
    sums = [gradient_sums(rows, weights, Squared(), bounding, None, 1, 36).tolist() for rows in (single, double)]
    assert sums[0] == sums[1]


@every_bounding
def test_sums_beyond_the_whole_numbers_of_float64_are_exact(bounding: Bounding) -> None:
    extreme, odd, bits = np.full((1, 3), 1.0), np.full((1, 3), 1e-9), 40
    X = np.concatenate([np.repeat(extreme, 9_999, axis=0), np.repeat(odd, 10_000, axis=0)])
    y = np.full(len(X), -0.9 * bounding.grid(0))
    one = [plain_sums(Block(x, y[:1]), np.zeros(3), Squared(), bounding, None, 1, bits)[0] for x in (extreme, odd)]
    expected = [9_999 * a + 10_000 * b for a, b in zip(*one, strict=True)]
    assert max(expected) > 2**52
    assert gradient_sums(Block(X, y), np.zeros(3), Squared(), bounding, None, 1, bits).tolist() == [expected]


@every_bounding
def test_an_empty_block_sums_to_zero(bounding: Bounding) -> None:
    empty = Block(np.empty((0, 4)), np.empty(0))
    assert gradient_sums(empty, np.ones(4), Squared(), bounding, None, 2, 20).tolist() == [[0] * 4] * 2


@every_width
def test_a_rows_products_are_the_same_bits_alone_or_in_any_block(columns: int) -> None:
    rng = np.random.default_rng(columns)
    X, weights = rng.standard_cauchy((257, columns)), rng.normal(size=columns)
    alone = np.array([np.concatenate(read(row[None].copy(), weights)) for row in X])
    for start in (0, 1, 2, 3, 100, 250):
        for stop in (start + 1, start + 6, 257):
            assert np.column_stack(read(X[start:stop], weights)).tobytes() == alone[start:stop].tobytes()
    order = rng.permutation(257)
    assert np.column_stack(read(X[order], weights)).tobytes() == alone[order].tobytes()


def test_rows_and_weights_may_lie_anywhere() -> None:
    rng = np.random.default_rng(5)
    wide, weights = rng.normal(size=(40, 30)), rng.normal(size=18)[::2]
    for X in (wide[:, 3:12], np.asfortranarray(wide[:, 3:12]), wide[::2, :9]):
        tidy = np.column_stack(read(np.ascontiguousarray(X), weights.copy()))
        assert np.column_stack(read(X, weights)).tobytes() == tidy.tobytes()
        y, places = np.ones(len(X)), ((X, weights), (X.copy("C"), weights.copy()))
        for bounding in BOUNDINGS[::3]:
            sums = [gradient_sums(Block(x, y), w, Squared(), bounding, None, 1, 30).tolist() for x, w in places]
            assert sums[0] == sums[1]


@every_width
def test_a_rows_products_err_by_less_than_the_margin_of_the_l2_clip(columns: int) -> None:
    rng = np.random.default_rng(columns)
    X, weights = rng.standard_cauchy((50, columns)), rng.normal(size=columns)
    products, squares = read(X, weights)
    for row, product, square in zip(X, products, squares, strict=True):
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, weights, strict=True)]
        assert abs(Fraction(float(product)) - sum(terms)) <= Fraction(columns + 8, 2**53) * sum(map(abs, terms))
        norm = sum(Fraction(float(a)) ** 2 for a in row)
        assert abs(Fraction(float(square)) - norm) <= Fraction(columns + 8, 2**53) * norm


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(st.floats(-(2.0**51), 2.0**51, exclude_min=True, exclude_max=True), st.integers(1 - 2**51, 2**51 - 1).map(lambda n: n / 2))
)
def test_whole_and_nearest_round_exactly_like_rint(steps: float) -> None:
    assert rint(steps) == np.rint(steps)
    assert rint_int(steps) == int(np.rint(steps))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(-(2.0**25), 2.0**25), st.floats(-(2.0**25), 2.0**25))
def test_a_product_is_rounded_to_a_whole_number_once(a: float, b: float) -> None:
    assert rint_product(a, b) == round(Fraction(a) * Fraction(b))


def test_decay_is_exp() -> None:
    rng = np.random.default_rng(0)
    for x in [0.0, -0.0, -5e-324, -1e-17, -708.0, -745.0, *-(10.0 ** rng.uniform(-9, 2.9, 3000))]:
        exact = mpmath.exp(mpmath.mpf(x))
        assert abs(mpmath.mpf(float(decay(x))) - exact) <= exact * 2.0**-51 + mpmath.mpf(5e-324)
    assert decay(-np.inf) == decay(-1e308) == 0.0
    assert np.isnan(decay(np.nan))
    assert decay(0.0) == 1.0


def test_whole_of_what_is_too_large_is_as_large() -> None:
    assert rint(np.inf) == np.inf
    assert rint(-np.inf) == -np.inf
    assert np.isnan(rint(np.nan))
    for large in (2.0**51, 2.0**52 + 1, 2.0**60, 1e308):
        assert rint(large) >= 2.0**51
        assert rint(-large) <= -(2.0**51)


def test_no_copy_of_the_block_is_made() -> None:
    X = np.random.default_rng(0).random((200_000, 50))
    block, weights = Block(X, X[:, 0].copy()), np.full(50, 0.01)
    for bounding in BOUNDINGS[::3]:
        gradient_sums(Block(X[:10], block.y[:10]), weights, Squared(), bounding, None, 1, 30)
        tracemalloc.start()
        try:
            gradient_sums(block, weights, Squared(), bounding, None, 1, 30)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < X.nbytes / 50
