"""Estimators of counts, amounts, quantiles and several labels: scikit-learn's interface, in the outcome's units."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

from nightfit import PrivateGammaRegression, PrivateLogisticRegression, PrivatePoissonRegression, PrivateQuantileRegression
from nightfit.estimators.inputs import InputError

ROWS = 20_000
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}
RNG = np.random.default_rng(11)
X = RNG.normal(size=(ROWS, 3))
NAMES = np.array(["home", "ward", "died"])
SCORES = np.exp(np.column_stack([0.8 * X[:, 0], np.zeros(ROWS), -0.8 * X[:, 1] - 1]))
LABELS = NAMES[(RNG.random((ROWS, 1)) > np.cumsum(SCORES / SCORES.sum(axis=1, keepdims=True), axis=1)[:, :-1]).sum(axis=1)]


def test_counts_with_exposures_are_rates() -> None:
    days = RNG.uniform(0.5, 4.0, ROWS)
    y = RNG.poisson(days * np.exp(0.5 * X[:, 0] - 0.7))
    model = PrivatePoissonRegression(**BUDGET, exposure_bounds=(0.1, 10.0)).fit(X, y, exposure=days)
    np.testing.assert_allclose([*model.coef_, model.intercept_], [0.5, 0.0, 0.0, -0.7], atol=0.06)
    assert model.predict(X).mean() == pytest.approx((y / days).mean(), rel=0.05)
    lazy = PrivatePoissonRegression(**BUDGET).fit(da.from_array(X, chunks=(7000, 3)), y, exposure=days)
    np.testing.assert_allclose(lazy.coef_, [0.5, 0.0, 0.0], atol=0.06)
    with pytest.raises(InputError, match="one value for each value of y"):
        clone(model).fit(X, y, exposure=days[1:])


def test_amounts_and_quantiles_are_in_their_units() -> None:
    y = 900 * np.exp(0.4 * X[:, 1]) * RNG.gamma(2.0, 0.5, ROWS)
    amounts = PrivateGammaRegression(**BUDGET, target_bounds=(1.0, 1e5)).fit(X, y)
    assert amounts.predict(X).mean() == pytest.approx(y.mean(), rel=0.05)
    assert 0.1 < amounts.score(X, y) < 1
    quantile = PrivateQuantileRegression(**BUDGET, quantile=0.9).fit(X, y)
    assert (y < quantile.predict(X)).mean() == pytest.approx(0.9, abs=0.02)
    assert 0 < quantile.score(X, y) < 1


def test_several_labels_have_probabilities_coefficients_and_intervals() -> None:
    model = PrivateLogisticRegression(**BUDGET, classes=("home", "ward", "died")).fit(X, LABELS)
    assert model.coef_.shape == (3, 3)
    assert model.coef_interval().shape == (3, 3, 2)
    assert model.intercept_interval().shape == (3, 2)
    np.testing.assert_allclose(model.coef_ - model.coef_[1], [[0.8, 0, 0], [0, 0, 0], [0, -0.8, 0]], atol=0.12)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), chances)
    np.testing.assert_array_equal(model.predict(X), NAMES[chances.argmax(axis=1)])
    assert model.score(X, LABELS) == (model.predict(X) == LABELS).mean()
    lazy = da.from_array(X, chunks=(6000, 3))
    for method in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
        np.testing.assert_array_equal(getattr(model, method)(lazy).compute(), getattr(model, method)(X))


def test_an_undeclared_label_adds_nothing_and_is_no_error() -> None:
    model = PrivateLogisticRegression(**BUDGET, classes=("home", "ward", "never")).fit(X, LABELS)
    assert model.predict_proba(X)[:, 2].mean() < 0.05
