"""How good predictions are: no unit moves a histogram by more than its sensitivity, and the histograms say what they mean."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.problem.links.identity import Identity
from nightfit.problem.links.log import Log
from nightfit.problem.links.logit import Logit
from nightfit.problem.links.softmax import Softmax
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.squared import Squared
from nightfit.queries.checks import Check, CheckCounts, CheckKind, checks_of
from nightfit.queries.class_scores import ClassLossChange, ClassPredictions, ClassScores, log_losses, log_odds
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
from nightfit.queries.prediction_bins import LARGEST_RATIO, PREDICTION_BINS, PredictionBins
from nightfit.queries.predictions import Predictor
from nightfit.queries.weighted_counts import Groups
from nightfit.records.columns.category import Category
from nightfit.records.columns.number import Number
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Block

EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 1.0, -1.0, 2.0, 3.0, 2.0**-64, 2.0**80]
VALUES = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES), st.floats())
KINDS = ["squared", "compared", "sizes", "poisson", "change", "scores"]
KINDS += [
    "grouped errors",
    "grouped scores",
    "classes",
    "grouped classes",
    "class change",
    "class predictions",
    "predictions",
    "targets",
    "checks",
    "many checks",
]
GROUPS = Groups(column="g", names=("a", "b", "rest"), places=(0, 1), middles=(0.5, -0.5))
CHECKS = (
    Check(kind=CheckKind.MISSING, column="x0", place=0),
    Check(kind=CheckKind.UNKNOWN, column="x1", place=1, high=0.5),
    Check(kind=CheckKind.AT_BOUNDS, column="x0", place=0, low=-1.0, high=1.0),
    Check(kind=CheckKind.AT_BOUNDS, column="x1", place=1, high=2.0),
)


def predictor(weights, link=None, **more):
    count = len(weights) - 1
    fields = {"centre": np.zeros(count), "scale": np.ones(count), "reach": np.ones(count), "absent": np.zeros(count), **more}
    return Predictor(weights=np.array(weights, dtype=float), link=link or Identity(), **fields)


def classes(sign=1):
    """A model of three classes."""
    return predictor(sign * np.array([[3.0, -1.0, -2.0], [-2.0, 2.0, 0.0], [0.25, 0.0, -0.25]]), Softmax())


def query_of(kind, bits):
    log = predictor([1.0, -2.0, 0.25], Log(low=1e-3, high=1e3))
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
        "grouped errors": lambda: ErrorHistogram(errors=errors, weights=weights, bits=bits, tops=(90, 80, 64), groups=GROUPS),
        "grouped scores": lambda: ScoreHistogram(model=predictor([3.0, -2.0, 0.25], Logit()), bits=bits, groups=GROUPS),
        "classes": lambda: ClassScores(model=classes(), classes=3, bits=bits),
        "grouped classes": lambda: ClassScores(model=classes(), classes=3, bits=bits, low=-2.0, high=1.0, groups=GROUPS),
        "class change": lambda: ErrorHistogram(errors=ClassLossChange(model=classes(), earlier=classes(-1)), weights=(1.0,), bits=bits),
        "class predictions": lambda: ClassPredictions(model=classes(), classes=3, bits=bits, low=-2.0, high=1.0),
        "predictions": lambda: PredictionBins(model=model, bits=bits, low=-1.0, high=1.0, margins=False),
        "targets": lambda: PredictionBins(model=log, bits=bits, low=-1.0, high=1.0, margins=True, targets=True, floor=8.0),
        "checks": lambda: CheckCounts(checks=CHECKS, bits=bits),
        "many checks": lambda: CheckCounts(checks=CHECKS * 40, bits=bits),
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
    rows = (
        (1.0, -1.0, 0.9),
        (-1.0, 0.3, -4.0),
        (-0.7, 1.0, 9.0),
        (-1.0, 1.0, 2.0),
        (1.0, -1.0, 0.0),
        (math.nan, 3.0, 0.0),
        (0.2, 0.2, 1.0),
    )
    blocks = [Block(np.array([[a, b, 1.0]]), np.array([y])) for a, b, y in rows]
    largest = max(distance(query.chunk(one), query.chunk(other)) for one in blocks for other in blocks)
    reached = 0.55 if "checks" in kind else 0.6  # of checks both rows count as rows, and the bound of all counts leaves that out
    assert math.sqrt(largest) >= reached * query.sensitivity(Adjacency.REPLACE_ONE)


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


def test_the_scores_the_table_and_the_losses_of_classes_are_counted_where_they_belong():
    query = ClassScores(model=classes(), classes=3, bits=40, top=4.0)
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.uniform(-1, 1, (500, 2)), np.ones(500)]), rng.integers(0, 3, 500).astype(float)
    y[:3] = (3.0, -1.0, 0.5)
    counts, (of_score, of_cell, of_loss) = query.chunk(Block(X, y)) * query.grid, query.weights
    scores, table, lost = (
        counts[: query.cells].reshape(3, 2, SCORE_BINS) / of_score,
        counts[query.cells : -2] / of_cell,
        counts[-2:] / of_loss,
    )
    margins = query.model.margin(X)[3:]
    expected = [np.sum((y[3:] == i) & (margins.argmax(axis=1) == j)) for i in range(3) for j in range(3)]
    assert table == pytest.approx(np.array(expected), rel=1e-6, abs=1e-6)
    assert scores.sum(axis=(1, 2)) == pytest.approx([497.0] * 3, rel=1e-6)
    assert scores[:, 1].sum(axis=1) == pytest.approx(np.bincount(y[3:].astype(int)).astype(float), rel=1e-6)
    p = np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True)
    each = -np.log(p[np.arange(497), y[3:].astype(int)])
    assert log_odds(margins) == pytest.approx(np.log(p / (1 - p)))
    assert log_losses(margins, y[3:]) == pytest.approx(each)
    assert lost == pytest.approx([np.minimum(each / 4, 1).sum(), 497 - np.minimum(each / 4, 1).sum()], rel=1e-6)
    assert np.isnan(log_losses(margins[:3], np.array([3.0, -1.0, 0.5]))).all()
    assert 3 * of_score**2 + of_cell**2 + of_loss**2 == pytest.approx(1.0)


def test_groups_divide_the_counts_of_all_rows():
    rng = np.random.default_rng(1)
    X, y = np.column_stack([rng.integers(0, 2, (400, 2)), np.ones(400)]) * 1.0, rng.normal(size=400)
    query = query_of("grouped errors", 40)
    by_group = query.chunk(Block(X, y)).reshape(3, -1)
    assert np.array_equal(by_group.sum(axis=0), replace(query, groups=None).chunk(Block(X, y)))
    of_a = replace(query, groups=None).chunk(Block(X[X[:, 0] > 0.5], y[X[:, 0] > 0.5]))
    assert np.array_equal(by_group[0], of_a)


def test_levels_of_a_category_are_groups_with_the_reference_last():
    encoding = Encoding((("age", Number()), ("sex", Category(levels=("F", "M"), reference="F", missing="indicator"))))
    shape = Preprocessing(
        features=encoding.names, encoding=encoding, target="y", centre=(0.0,) * 4, scale=(1.0,) * 4, reach=(math.inf,) * 4, intercept=True
    )
    groups = Groups.of_category(shape, "sex")
    assert groups.names == ("M", "other", "missing", "F")
    X = np.array([[5.0, 1, 0, 0, 1], [5.0, 0, 0, 0, 1], [0.0, 0, 0, 1, 1], [math.nan, 0, 1, 0, 1]])
    assert [groups.names[place] for place in groups.of(X)] == ["M", "F", "missing", "other"]
    with pytest.raises(ValueError, match=r"names a category of data\.columns, sex; got 'age'"):
        Groups.of_category(shape, "age")


def test_sums_of_targets_are_means_of_targets_up_to_eight_times_the_prediction():
    query = replace(query_of("targets", 40), floor=0.0, low=-4.0, high=4.0)
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(-1, 1, (4000, 2)), np.ones(4000)])
    predicted = query.model(X)
    y = predicted * rng.exponential(size=4000)
    counts, sums = (query.chunk(Block(X, y)) * query.grid / query.weight).reshape(2, PREDICTION_BINS)
    assert counts.sum() == pytest.approx(4000, rel=1e-6)
    assert sums.sum() == pytest.approx(np.minimum(y / predicted / LARGEST_RATIO, 1.0).sum(), rel=1e-6)
    place = np.floor((query.model.margin(X) + 4) * 4).astype(int)
    assert counts == pytest.approx(np.bincount(place, minlength=PREDICTION_BINS), rel=1e-6, abs=1e-6)


def test_checks_see_gaps_unknown_levels_and_values_at_their_bounds():
    encoding = Encoding(
        (
            ("age", Number(bounds=(0.0, 110.0))),
            ("lab", Number(missing="indicator")),
            ("sex", Category(levels=("F", "M"))),
            ("gone", Number(missing="drop")),
        )
    )
    count = len(encoding.names)
    shape = Preprocessing(
        features=encoding.names,
        encoding=encoding,
        target="y",
        centre=(0.0,) * count,
        scale=(1.0,) * count,
        reach=(math.inf,) * count,
        intercept=True,
        imputes=False,
    )
    fitted = replace(shape, centre=(50.0, 3.0, *(0.0,) * (count - 2)), scale=(100.0, 2.0, *(1.0,) * (count - 2)), reach=(1.0,) * count)
    checks = checks_of(shape, fitted)
    assert len(checks) == len(checks_of(shape, shape))
    found = {(check.kind, check.column): check for check in checks}
    assert [(str(kind), column) for kind, column in found] == [
        ("missing", "age"),
        ("at_bounds", "age"),
        ("missing", "lab"),
        ("at_bounds", "lab"),
        ("unknown", "sex"),
        ("at_bounds", "gone"),
    ]
    raw = {
        "age": np.array([math.nan, 200.0, 0.0, 50.0]),
        "lab": np.array([1.0, 9.0, math.nan, 2.0]),
        "sex": np.array([0, 2, 1, -1]),
        "gone": np.zeros(4),
    }
    X = shape.features_of(encoding.encode(raw, 4))[0]
    held = {key: check.of(X).tolist() for key, check in found.items()}
    assert held[CheckKind.MISSING, "age"] == [True, False, False, False]
    assert held[CheckKind.AT_BOUNDS, "age"] == [False, True, False, False]
    assert held[CheckKind.MISSING, "lab"] == [False, False, True, False]
    assert held[CheckKind.AT_BOUNDS, "lab"] == [True, True, False, False]
    assert held[CheckKind.UNKNOWN, "sex"] == [False, True, False, True]
    query = CheckCounts(checks=checks, bits=40)
    answer = query.chunk(Block(X, np.zeros(4))) * query.grid / query.weights
    assert answer == pytest.approx([4.0, 2 / 2, 2.0, 3 / 3, 1, 1, 1, 2, 2, 0], rel=1e-6, abs=1e-6)
