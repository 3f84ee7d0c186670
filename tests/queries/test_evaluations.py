"""How good predictions are: no unit moves a histogram by more than its sensitivity, and the histograms say what they mean."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.problem.links.identity import Identity
from nightfit.problem.links.logit import Logit
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.squared import Squared
from nightfit.queries.evaluations import (
    LARGEST_SCORE,
    NODES,
    SCORE_BINS,
    ErrorHistogram,
    LossChange,
    LossErrors,
    LossSizes,
    ScoreHistogram,
    nodes,
    score_middles,
)
from nightfit.queries.predictions import Predictor
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Block

EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 1.0, -1.0, 2.0**-64, 2.0**80]
VALUES = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES), st.floats())
KINDS = ["squared", "compared", "sizes", "poisson", "change", "scores"]


def predictor(weights, link=None, **more):
    count = len(weights) - 1
    fields = {"centre": np.zeros(count), "scale": np.ones(count), "reach": np.ones(count), "absent": np.zeros(count), **more}
    return Predictor(weights=np.array(weights, dtype=float), link=link or Identity(), **fields)


def query_of(kind, bits):
    model, other = predictor([0.5, -2.0, 0.25]), predictor([0.4, -1.0, 0.5])
    weights = (0.7, 0.5, 0.5)
    errors = LossErrors(loss=Squared(), model=model, constant=0.25)
    sizes = LossSizes(loss=Squared(), model=model, constant=0.25, earlier=other)
    return {
        "squared": lambda: ErrorHistogram(errors=errors, weights=weights, bits=bits),
        "compared": lambda: ErrorHistogram(
            errors=replace(errors, earlier=other), weights=(0.6, 0.5, 0.4, 0.45), bits=bits, tops=(90, 80, 64, 70)
        ),
        "sizes": lambda: ErrorHistogram(errors=sizes, weights=weights, bits=bits),
        "poisson": lambda: ErrorHistogram(errors=replace(errors, loss=Poisson()), weights=weights, bits=bits),
        "change": lambda: ErrorHistogram(errors=LossChange(loss=Logistic(), model=model, earlier=other), weights=(1.0,), bits=bits),
        "scores": lambda: ScoreHistogram(model=predictor([3.0, -2.0, 0.25], Logit()), bits=bits),
    }[kind]()


def distance(one, other):
    return sum((int(a) - int(b)) ** 2 for a, b in zip(one, other, strict=True))


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    bits=st.integers(8, 40),
    first=st.tuples(VALUES, VALUES, VALUES),
    second=st.tuples(VALUES, VALUES, VALUES),
)
def test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity(kind, bits, first, second):
    query = query_of(kind, bits)

    def sums(*one):
        return query.chunk(Block(np.array([[one[0], one[1], 1.0], [0.3, 0.2, 1.0]]), np.array([one[2], 1.0])))

    null = query.chunk(Block(np.array([[0.0] * 3, [0.3, 0.2, 1.0]]), np.array([0.0, 1.0])))
    here, there = sums(*first), sums(*second)
    assert here.dtype == np.int64
    assert len(here) == query.coordinates
    assert distance(here, there) <= Fraction(query.sensitivity(Adjacency.REPLACE_ONE)) ** 2
    assert distance(here, null) <= Fraction(query.sensitivity(Adjacency.ZERO_OUT)) ** 2
    assert query.sensitivity(Adjacency.ADD_REMOVE) == query.sensitivity(Adjacency.ZERO_OUT)


@settings(max_examples=80, deadline=None)
@given(kind=st.sampled_from(KINDS), bits=st.integers(8, 40), content=st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=6))
def test_a_person_moves_an_evaluation_by_at_most_its_sensitivity(kind, bits, content):
    X = np.array([[*one[:2], 1.0] for one in content])
    block = Block(X, np.array([one[2] for one in content]), np.zeros(len(X), dtype=np.uint64), np.array([0, len(X)]))
    assert (
        distance(query_of(kind, bits).chunk(block), query_of(kind, bits).chunk(replace(block, X=0 * np.nan_to_num(X))))
        <= Fraction(query_of(kind, bits).sensitivity(Adjacency.ZERO_OUT)) ** 2
    )


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_reach_nearly_all_of_the_sensitivity(kind):
    query = query_of(kind, 40)
    blocks = [Block(np.array([[a, b, 1.0]]), np.array([y])) for a, b, y in ((1.0, -1.0, 0.9), (-1.0, 0.3, -4.0), (-0.7, 1.0, 9.0))]
    largest = max(distance(query.chunk(one), query.chunk(other)) for one in blocks for other in blocks)
    assert math.sqrt(largest) >= 0.6 * query.sensitivity(Adjacency.REPLACE_ONE)


def test_sums_of_nodes_are_means_of_errors():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (5000, 2)), np.ones(5000)])
    y = X @ [0.5, -2.0, 0.25] + rng.standard_t(3, 5000)
    query = replace(query_of("compared", 40), tops=())
    counts = query.chunk(Block(X, y)).reshape(4, 2, NODES) * query.grid / np.array(query.weights)[:, None, None]
    values = query.errors.of(X, y)
    for axis in range(4):
        assert (counts[axis, 0] - counts[axis, 1]) @ nodes() == pytest.approx(values[:, axis].sum(), rel=1e-9, abs=1e-9)
        assert counts[axis].sum() == pytest.approx(5000, rel=1e-6)
    assert values[:, 0] == pytest.approx((y - X @ [0.5, -2.0, 0.25]) ** 2 / 2)
    assert values[:, 2].mean() == np.mean(np.abs(y - X @ [0.5, -2.0, 0.25]) <= 0.1 * np.abs(y))


def test_what_lies_above_a_top_counts_there():
    X, y = np.array([[0.5, 0.0, 1.0], [0.1, 0.0, 1.0]]), np.array([1000.0, 0.3])
    query = replace(query_of("squared", 40), tops=(66, 66, 64))
    counts = query.chunk(Block(X, y)).reshape(3, 2, NODES) * query.grid / np.array(query.weights)[:, None, None]
    assert counts[0, 0, 66] == pytest.approx(1.0, abs=1e-6)
    assert (counts[:, :, 67:] == 0).all()
    assert counts[0].sum() == pytest.approx(2.0, abs=1e-6)


def test_a_score_is_counted_in_its_bin_with_its_outcome():
    query = ScoreHistogram(model=predictor([5.0, 0.0, 0.0], Logit(), reach=np.full(2, 10.0)), bits=30)
    X = np.array([[-9.0, 0, 1], [0.01, 0, 1], [0.01, 0, 1], [9.0, 0, 1], [0.0, 0.0, 0.0]])
    counts = query.chunk(Block(X, np.array([1.0, -1.0, 1.0, 1.0, 0.0]))).reshape(2, SCORE_BINS) / 2.0**30
    middle = SCORE_BINS // 2
    assert counts[1, [0, middle, SCORE_BINS - 1]].tolist() == [1, 1, 1]
    assert counts[0, middle] == 1
    assert counts.sum() == 4
    assert score_middles()[[0, -1]].tolist() == [-LARGEST_SCORE + 0.25, LARGEST_SCORE - 0.25]
    narrow = replace(query, low=-1.0, high=1.0)
    assert narrow.chunk(Block(X, np.array([1.0, -1.0, 1.0, 1.0, 0.0])))[SCORE_BINS:].sum() == 3 * 2**30
    assert score_middles(-1.0, 1.0)[0] == -1.0 + 1 / SCORE_BINS


def test_a_model_predicts_the_same_on_blocks_of_another_preprocessing():
    names = ("a", "b")
    fitted = Preprocessing(
        features=names, target="y", centre=(3.0, 1.0), scale=(2.0, 4.0), target_centre=5.0, target_scale=2.0, intercept=True
    )
    shape = Preprocessing(
        features=names, target="y", centre=(0.0, 0.0), scale=(1.0, 10.0), reach=(math.inf,) * 2, target_scale=3.0, intercept=True
    )
    raw, weights = np.array([[4.0, -2.0], [900.0, 2.0], [1.0, 5.0]]), np.array([0.5, -1.0, 0.25])
    expected = 5.0 + 2.0 * (fitted.features_of(raw)[0] @ weights)
    made = Predictor.of(weights, Identity(), fitted, shape)
    assert 3.0 * made(shape.features_of(raw)[0]) == pytest.approx(expected, rel=1e-12)
    missing = replace(fitted, absent=(0.5, 0.0))
    block = np.array([[math.nan, 0.1, 1.0]])
    assert Predictor.of(weights, Identity(), missing, shape).margin(block) == pytest.approx([0.5 * 0.5 + 0.0 + 0.25])
    with pytest.raises(ValueError, match="its own features"):
        Predictor.of(weights, Identity(), replace(fitted, target="z"), shape)


def test_weights_that_would_make_a_unit_count_more_than_once_are_refused():
    with pytest.raises(ValueError, match="at most 1"):
        replace(query_of("squared", 30), weights=(0.6, 0.6, 0.6))
    with pytest.raises(ValueError, match="positive weight"):
        replace(query_of("squared", 30), weights=(0.6, 0.6))
