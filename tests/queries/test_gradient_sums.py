"""What may be asked: no record moves an answer by more than the declared sensitivity, however rows are cut into blocks."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nightfit.problem.losses
import nightfit.queries.boundings
from nightfit.plugins import members
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import bits_for
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.ball import Ball
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.boundings.threshold import Threshold
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Array

BOUNDINGS = [b for examples in members(nightfit.queries.boundings).values() for b in examples]
LOSSES = [loss for examples in members(nightfit.problem.losses).values() for loss in examples]
every_bounding = pytest.mark.parametrize("bounding", [pytest.param(b, id=repr(b)) for b in BOUNDINGS])
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]

EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.7e-162, 1.55e-162, -0.0, 0.0, 1.0, -1.0, 2.0]
values = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES), st.floats())
uniform_rows = st.sampled_from(EDGES)


@st.composite
def records(draw: st.DrawFn, rows: int, features: int) -> tuple[Array, Array]:
    """Raw features and targets; some rows are one extreme value throughout, as an adversary's would be."""
    raw = np.empty((rows, features))
    for i in range(rows):
        raw[i] = draw(st.one_of(st.lists(values, min_size=features, max_size=features), uniform_rows.map(lambda v: [v] * features)))
    return raw, np.array(draw(st.lists(values, min_size=rows, max_size=rows)))


def exact_total(query: GradientSum, preprocessing: Preprocessing, raw: Array, target: Array) -> list[int]:
    return [int(v) for v in query.finalise(query.chunk(preprocessing.block(raw, target)))]


def squared_distance(a: list[int], b: list[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


@every_bounding
@settings(max_examples=25, deadline=None, suppress_health_check=QUIET)
@given(loss=st.sampled_from([Squared(), Logistic()]), data=st.data())
def test_a_neighbour_moves_the_sum_by_at_most_the_sensitivity(bounding: Bounding, loss: Loss, data: st.DataObject) -> None:
    check_neighbours(bounding, loss, data)


@pytest.mark.parametrize("loss", [pytest.param(loss, id=repr(loss)) for loss in LOSSES])
@settings(max_examples=15, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_neighbour_moves_the_clipped_sum_of_any_loss_by_at_most_the_sensitivity(loss: Loss, data: st.DataObject) -> None:
    check_neighbours(L2Clip(bound=1.0), loss, data)


@pytest.mark.sweep
@every_bounding
@pytest.mark.parametrize("loss", [pytest.param(loss, id=repr(loss)) for loss in LOSSES])
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_neighbour_moves_the_sum_of_any_loss_by_at_most_the_sensitivity(bounding: Bounding, loss: Loss, data: st.DataObject) -> None:
    check_neighbours(bounding, loss, data)


def check_neighbours(bounding: Bounding, loss: Loss, data: st.DataObject) -> None:
    rows, features = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 9))
    preprocessing = Preprocessing(
        features=tuple(f"x{j}" for j in range(features)),
        target="y",
        centre=tuple(data.draw(st.lists(st.floats(-1, 1), min_size=features, max_size=features))),
        scale=tuple(data.draw(st.lists(st.sampled_from([1e-3, 1.0, 1e6]), min_size=features, max_size=features))),
        target_scale=data.draw(st.sampled_from([1e-300, 1.0, 1e6])) if loss.target is Target.REAL else 1.0,
        target_reach=data.draw(st.sampled_from([(-1.0, 1.0), (-math.inf, math.inf)])),
        intercept=data.draw(st.booleans()),
        target_domain=loss.target,
    )
    weights = st.lists(
        st.one_of(st.floats(-2, 2), st.floats(-1e300, 1e300)), min_size=preprocessing.columns, max_size=preprocessing.columns
    )
    query = GradientSum(loss=loss, bounding=bounding, weights=np.array(data.draw(weights)), bits=data.draw(st.integers(8, 40)))
    raw, target = data.draw(records(rows, features))
    changed_raw, changed_target = data.draw(records(1, features))
    place = data.draw(st.integers(0, rows - 1))

    before = exact_total(query, preprocessing, raw, target)
    removed = exact_total(query, preprocessing, np.delete(raw, place, axis=0), np.delete(target, place))
    replaced_raw, replaced_target = raw.copy(), target.copy()
    replaced_raw[place], replaced_target[place] = changed_raw[0], changed_target[0]
    nulled_raw, nulled_target = raw.copy(), target.copy()
    nulled_raw[place], nulled_target[place] = math.nan, math.nan
    neighbours = {
        Adjacency.REPLACE_ONE: exact_total(query, preprocessing, replaced_raw, replaced_target),
        Adjacency.ZERO_OUT: exact_total(query, preprocessing, nulled_raw, nulled_target),
        Adjacency.ADD_REMOVE: removed,
    }
    assert neighbours[Adjacency.ZERO_OUT] == removed
    for adjacency, after in neighbours.items():
        assert squared_distance(before, after) <= Fraction(query.sensitivity(adjacency)) ** 2

    cut = data.draw(st.integers(0, rows))
    parts = [exact_total(query, preprocessing, raw[rows_], target[rows_]) for rows_ in (slice(cut), slice(cut, None))]
    assert [a + b for a, b in zip(*parts, strict=True)] == before


@every_bounding
@pytest.mark.parametrize("bits", [8, 20, 40])
@pytest.mark.parametrize("columns", [1, 4, 30])
def test_an_adversary_reaches_the_sensitivity_and_goes_no_further(bounding: Bounding, bits: int, columns: int) -> None:
    preprocessing = Preprocessing(
        features=tuple(f"x{j}" for j in range(columns)),
        target="y",
        centre=(0.0,) * columns,
        scale=(1.0,) * columns,
        intercept=False,
    )
    query = GradientSum(loss=Squared(), bounding=bounding, weights=np.zeros(columns), bits=bits)
    bulk = np.random.default_rng(0).normal(size=(20, columns))
    drops, overflows = isinstance(bounding, Threshold), isinstance(bounding, Ball)  # beyond its bound; where squares are no numbers
    far = bounding.grid(0) if drops else 1e100 if overflows else 1e300
    ends = [exact_total(query, preprocessing, np.vstack([bulk, np.ones(columns)]), np.append(bulk[:, 0], y)) for y in (-far, far)]
    without = exact_total(query, preprocessing, bulk, bulk[:, 0])
    for adjacency, other in ((Adjacency.REPLACE_ONE, ends[1]), (Adjacency.ZERO_OUT, without), (Adjacency.ADD_REMOVE, without)):
        sensitivity, moved = Fraction(query.sensitivity(adjacency)), squared_distance(ends[0], other)
        assert (sensitivity * Fraction(97, 100)) ** 2 <= moved <= sensitivity**2


@every_bounding
def test_a_record_whose_squares_underflow_moves_the_sum_no_further(bounding: Bounding) -> None:
    preprocessing = Preprocessing(
        features=tuple(f"x{j}" for j in range(40)),
        target="y",
        centre=(0.0,) * 40,
        scale=(1.0,) * 40,
        intercept=False,
    )
    query = GradientSum(loss=Squared(), bounding=bounding, weights=np.zeros(40), bits=20)
    tiny = np.array([[2.7e-162, *[1.55e-162] * 39]])
    moved = squared_distance(exact_total(query, preprocessing, tiny, np.array([1e308])), [0] * 40)
    assert moved <= Fraction(query.sensitivity(Adjacency.ADD_REMOVE)) ** 2


@every_bounding
def test_a_query_declares_what_it_finishes_with(bounding: Bounding) -> None:
    query = GradientSum(loss=Squared(), bounding=bounding, weights=np.zeros(3), bits=20)
    block = Preprocessing(features=("a", "b"), target="y", centre=(0, 0), scale=(1, 1), intercept=True).block(np.ones((5, 2)), np.ones(5))
    answer = query.finalise(query.chunk(block) + query.chunk(block))
    assert answer.dtype == np.int64
    assert answer.shape == (query.coordinates,)
    assert query.grid == bounding.grid(20)


@settings(max_examples=100, deadline=None)
@given(rows=st.one_of(st.integers(0, 2**52), st.integers(0, 52).map(lambda k: 2**k)), ceiling=st.integers(8, 40))
def test_the_finest_grid_for_any_number_of_rows_cannot_overflow(rows: int, ceiling: int) -> None:
    bits = bits_for(rows, ceiling)
    assert 8 <= bits <= ceiling
    assert rows * 2**bits < 2**61
    assert bits == ceiling or rows * 2 ** (bits + 1) >= 2**60


@pytest.mark.parametrize("rows", [2**53, 2**60, 2**70])
def test_more_rows_than_the_grid_can_hold_are_refused(rows: int) -> None:
    with pytest.raises(ValueError, match="split the data set"):
        bits_for(rows)
