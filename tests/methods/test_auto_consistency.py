"""As the budget grows, a fit of `auto` tends to the fit without privacy: clips, clamps and shrinkage open with it."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks._fits import Fitted, Memory, auto_of, unbounded
from benchmarks._fits import fitted as seeded
from benchmarks._generated import correlated, indicators, labelled, one_hot
from sklearn.linear_model import LinearRegression, LogisticRegression

from nightfit.methods.auto.tuning import Tuning
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.shards.arrays import ArrayRecords

pytestmark = pytest.mark.statistical
ROWS = 6_000
MU_SQUARED = 104.0  # epsilon 100 at delta 1e-6, which a configuration may not ask for: 104 / 2 + sqrt(104) 4.7 = 100


def fitted(X, y, loss):
    shape = unbounded(X.shape[1], target=loss.target)
    plan = replace(auto_of(shape, len(y), loss, 1.0, Tuning(), NoPenalty()), mu_squared=MU_SQUARED)
    account = Memory({event.label: event for event in plan.events})
    gate = Gate(account=account, records=ArrayRecords(X, y, shape), noise=SeededNoise(np.random.default_rng(0)))
    outcome = plan.run(gate, lambda _: None)
    return Fitted(outcome=outcome, preprocessing=outcome.preprocessing or shape)


@pytest.mark.parametrize("noise", ["normal", "skewed", "heavy"])
def test_means_tend_to_least_squares(noise):
    rng = np.random.default_rng(1)
    X = np.hstack([indicators(rng, ROWS, 6), correlated(rng, ROWS, 6, 1.0)])
    drawn = {"normal": rng.normal, "skewed": lambda size: rng.lognormal(0, 1, size), "heavy": lambda size: rng.standard_t(3, size)}
    y = 5 + X @ rng.normal(size=12) + drawn[noise](size=ROWS)
    usual = LinearRegression().fit(X, y).predict(X)
    assert np.mean((fitted(X, y, Squared()).predict(X) - usual) ** 2) < 0.01 * usual.var()


@pytest.mark.parametrize("share", [0.1, 0.2])
@pytest.mark.parametrize("collinear", [False, True])
def test_labels_of_one_in_five_and_one_in_ten_tend_to_the_logistic_fit_and_are_calibrated(share, collinear):
    rng = np.random.default_rng(2)
    sizes = correlated(rng, 2 * ROWS, 4, 0.5)
    X = np.hstack([one_hot(rng, 2 * ROWS, 5), one_hot(rng, 2 * ROWS, 4), sizes]) if collinear else sizes
    y = labelled(rng, X / X.std(axis=0) @ rng.normal(size=X.shape[1]), 1.2, {0.1: 2.7, 0.2: 1.7}[share])
    margins = fitted(X[:ROWS], y[:ROWS], Logistic()).predict(X)
    usual = LogisticRegression(C=1e4, max_iter=1_000).fit(X[:ROWS], y[:ROWS]).decision_function(X)
    assert np.mean((margins - usual) ** 2) < 0.01 * usual.var()
    slopes = [LogisticRegression(C=1e9).fit(z[:, None], y).coef_[0, 0] for z in (margins, usual)]
    assert abs(slopes[0] / slopes[1] - 1) < 0.05


@pytest.mark.parametrize("size", [5.0, 30.0])
def test_labels_that_nearly_follow_a_line_are_not_fitted_by_zeros(size):
    """Where the last step was taken whatever it found, the slopes were shrunk to nothing."""
    rng = np.random.default_rng(3)
    X, w = rng.normal(size=(ROWS, 10)), rng.normal(size=10)
    margin = size * X @ w / np.linalg.norm(w)
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-margin))).astype(float)
    assert np.corrcoef(seeded(X, y, Logistic(), 2.0, 0).predict(X), margin)[0, 1] > 0.97
