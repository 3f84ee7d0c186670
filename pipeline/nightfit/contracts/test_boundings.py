"""The contract of every bounding: on it rests the privacy of whatever uses it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nightfit.contracts.sums import contribution, hard_block, row_by_row, squares_of
from nightfit.plugins import members
from nightfit.problem.losses.squared import Squared
from nightfit.queries import boundings
from nightfit.queries.boundings import Bounding
from nightfit.queries.kernels import gradient_sums

every_bounding = pytest.mark.parametrize(
    "bounding", [pytest.param(bounding, id=repr(bounding)) for examples in members(boundings).values() for bounding in examples]
)
thorough = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
brief = settings(thorough, max_examples=40)

magnitudes = st.builds(math.ldexp, st.floats(-2, 2), st.integers(-1074, 1022))
anything = st.one_of(st.floats(), magnitudes, st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0]))
rows = st.one_of(
    st.lists(anything, min_size=1, max_size=40),
    st.builds(lambda row, scale: [v * scale for v in row], st.lists(st.floats(-2, 2), min_size=1, max_size=40), magnitudes),
)
widths_in_bits = st.integers(8, 40)


@every_bounding
@thorough
@given(row=rows, slope=anything, bits=widths_in_bits)
@example(row=[2.7e-162], slope=1e308, bits=20)
@example(row=[2.2e-162, *[1.55e-162] * 39], slope=-math.inf, bits=20)
@example(row=[1e154] * 40, slope=1e308, bits=40)
@example(row=[1.0] * 40, slope=math.inf, bits=8)
@example(row=[1.0, 0.5], slope=1e6, bits=40)
def test_a_contribution_stays_within_its_declared_norm(bounding: Bounding, row: list[float], slope: float, bits: int) -> None:
    steps = contribution(bounding, row, slope, bits)
    assert np.all(np.isfinite(steps))
    assert np.array_equal(steps, np.rint(steps))
    assert np.max(np.abs(steps)) <= bounding.linf_bound(bits)
    assert sum(int(step) ** 2 for step in steps) <= Fraction(bounding.l2_bound(len(row), bits)) ** 2


@every_bounding
@brief
@given(row=st.lists(anything, min_size=1, max_size=40), slope=anything, place=st.integers(0, 39), bits=widths_in_bits)
def test_a_nan_adds_zero(bounding: Bounding, row: list[float], slope: float, place: int, bits: int) -> None:
    assert not contribution(bounding, row, math.nan, bits).any()
    place %= len(row)
    row[place] = math.nan
    assert contribution(bounding, row, slope, bits)[place] == 0


@every_bounding
def test_rows_add_to_their_own_group_and_to_what_was_there(bounding: Bounding) -> None:
    rng = np.random.default_rng(0)
    X, slopes, groups = rng.normal(size=(30, 4)), rng.normal(size=30), rng.integers(0, 3, 30)
    sums = np.full((3, 4), 7)
    bounding.add(X, slopes, squares_of(X), groups, 16, sums)
    expected = np.full((3, 4), 7)
    for row, slope, group in zip(X, slopes, groups, strict=True):
        expected[group] += contribution(bounding, list(row), slope, 16).astype(np.int64)
    assert np.array_equal(sums, expected)


@every_bounding
def test_one_more_bit_halves_the_step_and_doubles_the_norm_in_steps(bounding: Bounding) -> None:
    assert bounding.grid(21) * 2 == bounding.grid(20) > 0
    assert bounding.l2_bound(5, 21) == 2 * bounding.l2_bound(5, 20)


@every_bounding
@pytest.mark.parametrize("bits", [8, 40])
def test_the_formulas_make_the_same_integers_as_adding_row_by_row(bounding: Bounding, bits: int) -> None:
    block, weights = hard_block(np.array([-1.0, 1.0]), seed=bits), np.linspace(-1, 1, 9)
    assert gradient_sums(block, weights, Squared(), bounding, None, 1, bits)[0].tolist() == row_by_row(
        block, weights, Squared(), bounding, bits
    )
