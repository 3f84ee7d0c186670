"""Histogram ranges and the mean inside a ball: no record moves them further than declared, whatever it holds."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.squared import Squared
from nightfit.queries.histograms import BucketCounts
from nightfit.queries.inside_means import InsideMean
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import WHOLE, Adjacency, Block

EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 1.0, -1.0]
PREPROCESSING = Preprocessing(features=("a", "b", "c"), target="y", centre=(0.0,) * 3, scale=(1.0,) * 3, intercept=False)


def counts(bits=20):
    return BucketCounts(loss=Squared(), weights=np.array([0.3, -1.0, 0.2]), bound=2.0, buckets=9, bits=bits, draw=WHOLE, key=bytes(16))


def inside(expected=30, bound=1.0):
    weights, centre = np.array([0.1, 0.0, -0.2]), np.array([0.2, -0.1, 0.0])
    return InsideMean(loss=Squared(), weights=weights, centre=centre, bound=bound, bits=20, expected=expected, draw=WHOLE, key=bytes(16))


def finished(query, raw, target):
    return [int(v) for v in query.finalise(query.chunk(PREPROCESSING.block(raw, target)))]


def neighbours(seed, query):
    rng = np.random.default_rng(seed)
    raw, target = rng.normal(0, 0.6, (30, 3)), rng.normal(0, 1.5, 30)
    for array in (raw, target):
        odd = rng.random(array.shape) < 0.05
        array[odd] = rng.choice(EDGES, odd.sum())
    place = rng.integers(30)
    replaced, other = raw.copy(), target.copy()
    replaced[place], other[place] = rng.choice([*EDGES, 0.5, -0.5], 3), rng.choice([*EDGES, 2.0, -2.0])
    nulled = raw.copy()
    nulled[place] = math.nan
    before = finished(query, raw, target)
    yield Adjacency.REPLACE_ONE, before, finished(query, replaced, other)
    yield Adjacency.ZERO_OUT, before, finished(query, nulled, target)
    yield Adjacency.ADD_REMOVE, before, finished(query, np.delete(raw, place, axis=0), np.delete(target, place))


def check_moves(query):
    for seed in range(200):
        for adjacency, before, after in neighbours(seed, query):
            moved = sum((x - y) ** 2 for x, y in zip(before, after, strict=True))
            assert moved <= Fraction(query.sensitivity(adjacency)) ** 2, seed


def test_a_neighbour_moves_the_counts_by_at_most_the_sensitivity():
    check_moves(counts())


def test_the_counts_reach_their_sensitivity():
    query = counts()
    one, other = (finished(query, np.full((1, 3), 1.0), np.array([y])) for y in (-2.0, 2.0))
    assert sum((x - y) ** 2 for x, y in zip(one, other, strict=True)) == 6 * 4**20


@pytest.mark.parametrize("expected", [5, 30, 60])
def test_a_neighbour_moves_the_inside_mean_by_at_most_the_sensitivity(expected):
    check_moves(inside(expected))


def test_an_adversary_comes_near_the_sensitivity_of_the_inside_mean():
    """Three quarters of the expected records inside, all on one side: a replaced one moves the mean by 2 r / nu."""
    preprocessing = Preprocessing(features=("a",), target=None, centre=(0.0,), scale=(1.0,), intercept=False)
    query = InsideMean(loss=Columns(), weights=np.zeros(1), centre=np.zeros(1), bound=1.0, bits=20, expected=40, draw=WHOLE, key=bytes(16))
    raw = np.full((30, 1), 0.999)
    moved = []
    for last in (0.999, -0.999):
        raw[-1] = last
        moved.append(int(query.finalise(query.chunk(preprocessing.block(raw, None)))[0]))
    assert 0.99 * query.sensitivity(Adjacency.REPLACE_ONE) <= abs(moved[0] - moved[1]) <= query.sensitivity(Adjacency.REPLACE_ONE)


def test_what_lies_outside_the_ball_is_dropped_and_the_divisor_follows():
    query = inside(expected=4, bound=10.0)
    raw = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    target = np.array([0.5, 0.5, -100.0, 0.25])
    gradients = (raw @ query.weights - target)[:, None] * raw - query.centre
    kept = gradients[[0, 1, 3]]
    found = np.array(finished(query, raw, target)) * query.grid / query.divisor(4)
    np.testing.assert_allclose(found, kept.sum(axis=0) / 3, atol=1e-4)


def test_integers_of_chunks_merge_to_those_of_the_whole():
    rng = np.random.default_rng(1)
    raw, target = rng.normal(size=(50, 3)), rng.normal(size=50)
    for query in (counts(), inside()):
        whole = query.chunk(PREPROCESSING.block(raw, target))
        parts = [query.chunk(PREPROCESSING.block(raw[rows], target[rows])) for rows in (slice(17), slice(17, 50))]
        assert np.array_equal(query.merge(*parts), whole)
        empty = query.chunk(Block(np.empty((0, 3)), np.empty(0)))
        assert np.array_equal(query.merge(empty, whole), whole)


def test_a_coordinate_beyond_the_bound_counts_in_the_end_bucket_and_one_that_is_not_finite_nowhere():
    """The gradient of this loss is minus the column."""
    query = BucketCounts(loss=Columns(), weights=np.zeros(2), bound=2.0, buckets=4, bits=8, draw=WHOLE, key=bytes(16))
    rows = np.array([[1.5, -1.5], [1e300, -1e300], [math.inf, -math.inf], [math.nan, 0.5], [0.0, 0.0]])
    assert (query.chunk(Block(rows, np.zeros(5))).reshape(2, 4) / 2**8).tolist() == [[2, 0, 0, 0], [0, 0, 0, 2]]
