"""`auto` on several classes: it asks what was reserved, one gradient a step serves all classes, and intervals hold."""

import math

import numpy as np
import pytest
from benchmarks._fits import Memory, unbounded
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from nightfit.methods.auto.class_margins import curvature, with_shares
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.procedure import Outcome
from nightfit.privacy.accounting import UNIT, Currency, cost, limit
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.penalties.none import NoPenalty
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Adjacency, Array

ROWS = 40_000
TRUE = np.array([[0.5, -0.4, 0.2, 0.0, 0.6], [-0.3, 0.5, 0.0, 0.4, -0.6], [0.0, 0.0, 0.0, 0.0, 0.0]])


def plan_of(
    features: int, units: int, classes: int = 3, *, intercept: bool = True, adjacency: Adjacency = Adjacency.REPLACE_ONE
) -> AutoFit:
    loss = Softmax(classes=classes)
    return AutoFit(
        loss=loss,
        penalty=NoPenalty(),
        preprocessing=unbounded(features, intercept=intercept, target=loss.target),
        units=units,
        adjacency=adjacency,
        mu_squared=float(limit(1.0, 1e-6, Currency.GAUSSIAN).amount * UNIT),
        largest_units=units,
    )


def ran(plan: AutoFit, X: Array, y: Array, seed: int = 0) -> tuple[Outcome, Memory]:
    account = Memory({event.label: event for event in plan.events})
    gate = Gate(account=account, records=ArrayRecords(X, y, plan.preprocessing), noise=SeededNoise(np.random.default_rng(seed)))
    return plan.run(gate, lambda _: None), account


def endings(seed: int, rows: int) -> tuple[Array, Array]:
    """Three classes, of which the second has one record in ten."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, 4)), rng.random(rows) < 0.2])
    scores = np.exp(X @ TRUE.T + [-1.0, -2.3, 0.0])
    chances = np.cumsum(scores / scores.sum(axis=1, keepdims=True), axis=1)
    return X, (rng.random((rows, 1)) > chances[:, :-1]).sum(axis=1).astype(float)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_auto_asks_exactly_its_events_whatever_the_classes_are(intercept: bool, adjacency: Adjacency) -> None:
    plan = plan_of(3, 40, 4, intercept=intercept, adjacency=adjacency)
    for X in (np.zeros((40, 3)), np.full((40, 3), math.nan), np.full((40, 3), 1e308), np.random.default_rng(1).normal(size=(40, 3))):
        for y in (np.zeros(40), np.full(40, math.nan), np.arange(40.0) % 4, np.full(40, 3.0)):
            outcome, account = ran(plan, X, y)
            assert list(account.stored) == [event.label for event in plan.events]
            assert outcome.weights.shape == (3 + intercept, 4)
            assert np.isfinite(outcome.weights).all()


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_ten_classes_cost_what_two_cost(adjacency: Adjacency) -> None:
    ceiling = limit(1.0, 1e-6, Currency.GAUSSIAN)
    for classes in (2, 10):
        plan = plan_of(8, ROWS, classes, adjacency=adjacency)
        assert ceiling.amount * 0.999999 <= cost(plan.events, Currency.GAUSSIAN).amount <= ceiling.amount
        assert sum(label.startswith("gradient") for label in plan.shares) == plan.steps


def test_classes_are_told_apart_nearly_as_well_as_without_privacy_and_intervals_hold() -> None:
    """Of 30 intervals at 95%, all but three or more hold in 97 of 100 runs if they hold as stated; the seeds are fixed."""
    X, y = endings(0, 2 * ROWS)
    X, y, tested, truth = X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]
    peer = log_loss(truth, LogisticRegression(C=1e6, max_iter=500).fit(X, y).predict_proba(tested))
    constant = log_loss(truth, np.tile(np.bincount(y.astype(int)) / ROWS, (ROWS, 1)))
    expected, held = TRUE - TRUE.mean(axis=0), []
    for seed, adjacency in ((0, Adjacency.REPLACE_ONE), (1, Adjacency.ADD_REMOVE)):
        outcome, _ = ran(plan_of(5, ROWS, adjacency=adjacency), X, y, seed)
        assert outcome.preprocessing is not None
        found = Softmax(classes=3).link.inverse(outcome.preprocessing.features_of(tested)[0] @ outcome.weights)
        assert log_loss(truth, found) - peer < 0.02 * (constant - peer)
        np.testing.assert_allclose(found.mean(axis=0), np.bincount(truth.astype(int)) / ROWS, atol=0.01)
        np.testing.assert_allclose(outcome.weights.sum(axis=1), 0.0, atol=1e-9)
        for one, true in zip(outcome.class_intervals, expected, strict=True):
            low, high = one.at(0.95)[:5].T
            held += ((low <= true) & (true <= high)).tolist()
            assert (high - low).max() < 0.5
    assert sum(held) >= len(held) - 3


def test_intercepts_give_every_class_its_share_and_curvature_is_the_derivative() -> None:
    loss, rng = Softmax(classes=3), np.random.default_rng(3)
    V, H, shares = rng.normal(size=(4, 2)), np.eye(4), np.array([0.9, 0.07, 0.03])
    V = with_shares(loss, H, V, 3, shares)
    from nightfit.methods.auto.class_margins import normal_rows

    points = normal_rows(H, (3,))
    np.testing.assert_allclose(loss.probabilities(points @ V).mean(axis=0), shares, atol=1e-9)
    labels = np.zeros(len(points))

    def mean_gradient(W: Array) -> Array:
        return (points.T @ loss.slope(labels, points @ W) / len(points)).T.ravel()

    K, step = curvature(loss, H, V, (3,)), 1e-5
    for place in range(8):
        shift = np.zeros((2, 4))
        shift[place // 4, place % 4] = step
        np.testing.assert_allclose((mean_gradient(V + shift.T) - mean_gradient(V - shift.T)) / (2 * step), K[:, place], atol=1e-8)


def test_large_noise_of_several_classes_is_told_before_anything_is_spent() -> None:
    plan = plan_of(60, 500)
    assert plan.hopeless
    assert any("noise hides all but strong effects" in line for line in plan.explain())


def test_more_classes_are_expected_to_be_known_less_well() -> None:
    errors = [plan_of(8, 20_000, classes).prediction.error for classes in (2, 3, 10)]
    assert errors == sorted(errors)
    assert not plan_of(8, ROWS).prediction.large
