"""The estimators behave as scikit-learn's do, and spend as the ledger says."""

import doctest
import os
import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from nightfit.estimators import PrivateLasso, PrivateLinearRegression, PrivateLogisticRegression, PrivateRidge
from nightfit.ledger import BudgetExceeded, Ledger, LedgerError, Policy
from nightfit.planning.plan import PlanError
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release
from nightfit.shards import arrays, tree
from nightfit.shards.arrays import ArrayRecords
from nightfit.shards.manifest import DataError
from nightfit.types import Adjacency

LINEAR = (PrivateLinearRegression, PrivateRidge, PrivateLasso)
EVERY = (*LINEAR, PrivateLogisticRegression)
TRUTH = np.array([1.5, -0.8, 0.3])
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "bounds": [(0, 2), (-1, 1), (-3, 3)]}
LOOP: dict[str, Any] = BUDGET | {"method": "proximal_gradient", "steps": 5}


def sample(rows: int = 2000, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (rows, 3)) * [2, 2, 6] - [0, 1, 3]
    return X, X @ TRUTH + 1.0 + rng.normal(0, 0.3, rows)


def regression(**changes: Any) -> PrivateLinearRegression:
    return PrivateLinearRegression(**(BUDGET | {"target_bounds": (-6, 8)} | changes))


@pytest.mark.parametrize("kind", EVERY)
def test_epsilon_and_delta_have_no_defaults_and_parameters_only_keywords(kind: type) -> None:
    for missing in ("epsilon", "delta"):
        with pytest.raises(TypeError, match=missing):
            kind(**{name: value for name, value in BUDGET.items() if name != missing})
    with pytest.raises(TypeError):
        kind(1.0, 1e-6, (0, 1))


@pytest.mark.parametrize("kind", EVERY)
def test_parameters_are_stored_as_given_and_survive_clone_get_and_set(kind: Any) -> None:
    model = kind(**BUDGET)
    assert model.get_params()["bounds"] is BUDGET["bounds"]
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(epsilon=2.0).epsilon == 2.0
    assert "epsilon=2.0" in repr(model)
    assert is_classifier(model) == (kind is PrivateLogisticRegression)
    assert is_regressor(model) == (kind in LINEAR)
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((1, 3)))


@pytest.mark.parametrize("method", [{}, {"bounds": None, "target_bounds": None}, {"method": "proximal_gradient", "steps": 200}])
def test_a_large_budget_and_many_rows_approach_least_squares(method: dict[str, Any]) -> None:
    X, y = sample(40_000)
    model = regression(epsilon=30.0, **method).fit(X, y)
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]
    np.testing.assert_allclose([*model.coef_, model.intercept_], exact, atol=0.01)
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)


@pytest.mark.parametrize(("method", "size"), [({}, 1.0), ({"method": "proximal_gradient", "steps": 200}, 0.9)])
def test_ridge_and_lasso_penalise_scaled_coefficients_and_not_the_intercept(method: dict[str, Any], size: float) -> None:
    """A column's size is half the width of its bounds for `auto`; a named method pays for the 0.9 quantile about the centre."""
    X, y = sample(40_000)
    strong: dict[str, Any] = BUDGET | {"epsilon": 30.0, "target_bounds": (-6, 8)} | method
    ridge = PrivateRidge(alpha=0.5, **strong).fit(X, y)
    sizes = size * np.array([1, 1, 3])
    exact = Ridge(alpha=0.5 * len(y)).fit((X - [1, 0, 0]) / sizes, (y - 1) / 7)
    np.testing.assert_allclose(ridge.coef_ * sizes / 7, exact.coef_, atol=0.01)
    lasso = PrivateLasso(alpha=10.0, **strong).fit(X, y)
    assert not lasso.coef_.any()
    assert lasso.intercept_ == pytest.approx(y.mean(), abs=0.05)


@pytest.mark.parametrize(("method", "off"), [({}, 0.3), ({"method": "proximal_gradient", "steps": 300}, 0.05)])
def test_a_logistic_model_finds_the_direction_and_gives_probabilities_of_its_public_classes(method: dict[str, Any], off: float) -> None:
    X, _ = sample(40_000)
    rng = np.random.default_rng(2)
    y = np.where(rng.logistic(size=len(X)) < 2 * (X @ TRUTH) - 1, "sick", "well")
    model = PrivateLogisticRegression(**(BUDGET | {"epsilon": 30.0} | method), classes=("well", "sick")).fit(X, y)
    exact = LogisticRegression(C=np.inf).fit(X, y == "sick")
    assert np.linalg.norm(model.coef_ - exact.coef_) < off * np.linalg.norm(exact.coef_)
    assert model.classes_.tolist() == ["well", "sick"]
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), np.where(probabilities[:, 1] > 0.5, "sick", "well"))
    assert model.score(X, y) == np.mean(model.predict(X) == y)


def test_intervals_hold_the_truth_and_are_said_to_be_missing_where_there_are_none(tmp_path: Path) -> None:
    X, y = sample(40_000)
    model = regression(epsilon=4.0, bounds=None, target_bounds=None).fit(X, y)
    low, high = model.coef_interval(1 - 1e-9).T  # three slopes and an intercept: a false alarm has probability below 1e-8
    assert ((low < TRUTH) & (high > TRUTH)).all()
    assert (high - low < 0.3).all()
    low, high = model.intercept_interval(1 - 1e-9)
    assert low < 1.0 < high
    kept = Release.load(model.release_.save(tmp_path)).intervals
    assert kept is not None
    np.testing.assert_array_equal(kept.at(0.5)[:3], model.coef_interval(0.5))
    narrow, wide = (np.ptp(model.coef_interval(level), axis=1) for level in (0.5, 0.95))
    assert (narrow < wide).all()
    with pytest.raises(ValueError, match="method='auto' gives them"):
        PrivateLogisticRegression(**LOOP).fit(X, y > 1).coef_interval()


def test_dask_arrays_of_any_chunks_give_the_same_integers_as_numpy_kept_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample(999)
    X[5, 1], X[6, 0], y[7] = np.nan, np.inf, -np.inf
    shape = Preprocessing(features=("a", "b", "c"), target="y", centre=(1, 0, 0), scale=(1, 1, 3), intercept=True)
    query = GradientSum(loss=Squared(), bounding=L2Clip(bound=2.0), weights=np.array([0.1, 0.2, -0.3, 0.4]), bits=30)
    expected = ArrayRecords(X, y, shape).aggregate(query)
    for rows, columns, targets in ((999, 3, 999), (100, 2, 37), (1, 3, 999)):
        lazy = ArrayRecords(da.from_array(X, chunks=(rows, columns)), da.from_array(y, chunks=targets), shape)
        np.testing.assert_array_equal(lazy.aggregate(query), expected)
    lazy = ArrayRecords(da.from_array(X, chunks=(100, 3)), y, shape)
    for _ in range(2):
        np.testing.assert_array_equal(lazy.aggregate(query), expected)
    monkeypatch.setattr(arrays, "KEPT_BYTES", 0)
    streamed = ArrayRecords(X, y, shape)
    np.testing.assert_array_equal(streamed.aggregate(query), expected)
    np.testing.assert_array_equal(streamed.aggregate(query), expected)
    assert streamed._kept is None
    monkeypatch.setattr(arrays, "SLICE_BYTES", 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    np.testing.assert_array_equal(streamed.aggregate(query), expected)
    np.testing.assert_array_equal(ArrayRecords(da.from_array(X, chunks=(100, 3)), y, shape).aggregate(query), expected)


def test_sums_of_dask_arrays_are_added_by_a_tree_to_the_same_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample(999)
    shape = Preprocessing(features=("a", "b", "c"), target="y", centre=(1, 0, 0), scale=(1, 1, 3), intercept=True)
    query = GradientSum(loss=Squared(), bounding=L2Clip(bound=2.0), weights=np.array([0.1, 0.2, -0.3, 0.4]), bits=30)
    lazy = ArrayRecords(da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=999), shape)
    gathered = lazy.aggregate(query)
    came: list[int] = []
    compute = arrays.dask.compute
    monkeypatch.setattr(arrays.dask, "compute", lambda *parts: came.append(len(parts)) or compute(*parts))
    for most, sums in ((tree.DRIVER_BYTES, 10), (query.coordinates * 8, 1)):
        monkeypatch.setattr(tree, "DRIVER_BYTES", most)
        monkeypatch.setattr(tree, "FAN_IN", 3)
        np.testing.assert_array_equal(lazy.aggregate(query), gathered)
        assert came.pop() == sums
    assert arrays.merge_task(query, [gathered, None]) is None, "a chunk that failed is never left out"


@pytest.mark.parametrize("kept", [True, False])
def test_a_dask_array_is_computed_once_if_it_is_kept_and_predicted_lazily(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample()
    if not kept:
        monkeypatch.setattr(arrays, "KEPT_BYTES", 0)
    computed: list[int] = []

    def noted(block: np.ndarray) -> np.ndarray:
        computed.append(len(block))
        return block

    lazy = da.from_array(X, chunks=(500, 3)).map_blocks(noted, dtype=float, meta=np.empty((0, 0)))
    model = regression().fit(lazy, da.from_array(y, chunks=500))
    assert set(computed) == {500}
    assert len(computed) == 4 * (1 if kept else len(model.release_.content["events"]))
    predicted = model.predict(lazy)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(), model.predict(X))
    assert model.score(lazy, y) == model.score(X, y)


def test_a_failing_chunk_is_a_data_error_without_its_values() -> None:
    X, y = sample()

    def broken(block: np.ndarray) -> np.ndarray:
        return np.array([["secret"] * block.shape[1]] * len(block), dtype=object)

    lazy = da.from_array(X, chunks=(500, 3)).map_blocks(broken, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(DataError) as caught:
        regression().fit(lazy, y)
    assert "secret" not in str(caught.value)


def test_a_chunk_that_failed_is_made_again_when_it_is_asked_for_again() -> None:
    X, y = sample()
    asked: list[int] = []

    def broken_at_first(block: np.ndarray) -> np.ndarray:
        asked.append(len(block))
        return block if len(asked) > 1 else block[:, :1]

    shape = Preprocessing(features=("a", "b", "c"), target="y", centre=(1, 0, 0), scale=(1, 1, 3), intercept=True)
    query = GradientSum(loss=Squared(), bounding=L2Clip(bound=2.0), weights=np.array([0.1, 0.2, -0.3, 0.4]), bits=30)
    lazy = ArrayRecords(da.from_array(X, chunks=X.shape).map_blocks(broken_at_first, dtype=float, meta=np.empty((0, 0))), y, shape)
    with pytest.raises(DataError):
        lazy.aggregate(query)
    np.testing.assert_array_equal(lazy.aggregate(query), ArrayRecords(X, y, shape).aggregate(query))


def test_the_release_and_the_guarantee_say_what_was_spent() -> None:
    X, y = sample()
    frame = pd.DataFrame(X, columns=["age", "bmi", "dose"])
    model = regression().fit(frame, pd.Series(y))
    assert model.release_.private
    assert model.guarantee_ == model.release_.content["guarantee"]
    assert 0.99 < model.guarantee_["epsilon"] <= 1.0
    assert model.guarantee_["delta"] == 1e-6
    assert list(model.release_.content["coef"]) == ["age", "bmi", "dose"] == model.feature_names_in_.tolist()
    assert model.n_features_in_ == 3
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame), model.predict(frame))


def test_no_value_can_stop_a_fit() -> None:
    X, y = sample()
    X[0], X[1, 1], y[2] = np.nan, np.inf, -np.inf
    assert np.isfinite(regression().fit(X, y).coef_).all()
    odd = np.where(np.arange(len(y)) % 3, 1.0, np.nan)
    assert np.isfinite(PrivateLogisticRegression(**BUDGET, classes=(0, 1)).fit(X, odd).coef_).all()
    with pytest.raises(ValueError, match="finite"):
        regression().fit(X, y).predict(X)


def test_it_works_in_a_pipeline_and_in_cross_validation() -> None:
    X, y = sample()
    model = make_pipeline(FunctionTransformer(np.abs), regression())
    assert model.fit(X, y).predict(X).shape == y.shape
    assert len(cross_val_score(regression(), X, y, cv=2)) == 2


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).set_policy(Policy(data_set="cohort", adjacency=Adjacency.REPLACE_ONE, epsilon=1.4, delta=1e-5))
    return url


def test_a_repeated_fit_of_a_window_returns_the_same_run_and_pays_once(ledger: str) -> None:
    X, y = sample()
    model = regression(ledger=ledger, data_set="cohort", window="2026-11-14")
    first = clone(model).fit(X, y)
    spent = Ledger.open(ledger).spent("cohort")
    again = clone(model).fit(np.zeros_like(X), np.zeros_like(y))
    assert again.release_.run_id == first.release_.run_id
    np.testing.assert_array_equal(again.coef_, first.coef_)
    assert Ledger.open(ledger).spent("cohort") == spent


def test_a_changed_plan_of_a_window_is_refused_and_the_lifetime_budget_is_kept(ledger: str) -> None:
    X, y = sample()
    model = regression(ledger=ledger, data_set="cohort", window="2026-11-14").fit(X, y)
    with pytest.raises(LedgerError, match="plan changed"):
        clone(model).set_params(epsilon=0.9).fit(X, y)
    clone(model).set_params(window="2026-11-15").fit(X, y)
    with pytest.raises(BudgetExceeded):
        clone(model).set_params(window="2026-11-16").fit(X, y)


def test_a_ledger_needs_a_data_set_a_window_and_a_policy(ledger: str) -> None:
    X, y = sample()
    for given in ({"data_set": "cohort"}, {"window": "tonight"}):
        with pytest.raises(PlanError, match="data_set and window"):
            regression(ledger=ledger, **given).fit(X, y)
    with pytest.raises(LedgerError, match="no lifetime budget"):
        regression(ledger=ledger, data_set="other", window="tonight").fit(X, y)


def test_under_add_remove_the_number_of_records_is_not_used() -> None:
    X, y = sample(1990)
    with pytest.raises(PlanError, match="units"):
        regression(adjacency="add_remove").fit(X, y)
    model = regression(adjacency="add_remove", units=2000).fit(X, y)
    assert model.release_.content["plan"]["units"] == 2000
    with pytest.raises(PlanError, match="leave `units` out"):
        regression(units=2000).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "X", "y", "said"),
    [
        ({}, np.zeros((2000, 3)), np.zeros(1999), "1999"),
        ({}, np.zeros(2000), np.zeros(2000), "rows and columns"),
        ({}, np.zeros((2000, 2)), np.zeros(2000), "one for each of 2 columns"),
        ({"bounds": (0, 1, 2)}, np.zeros((2000, 3)), np.zeros(2000), "bounds"),
        ({"steps": 5}, np.zeros((2000, 3)), np.zeros(2000), "not for the method auto"),
        ({"method": "cliped"}, np.zeros((2000, 3)), np.zeros(2000), "did you mean 'clipped'"),
        ({}, np.full((2000, 3), "a"), np.zeros(2000), "numbers"),
        ({}, pd.DataFrame(np.zeros((2000, 3)), columns=["a", "a", "b"]), np.zeros(2000), "same name"),
    ],
)
def test_a_wrong_shape_type_or_bound_is_refused_before_anything_is_spent(changes: Any, X: Any, y: Any, said: str) -> None:
    with pytest.raises((PlanError, DataError), match=said):
        regression(**changes).fit(X, y)


def test_unknown_chunks_are_refused_with_the_cure() -> None:
    X, y = sample()
    lazy = da.from_array(X, chunks=(500, 3))
    with pytest.raises(DataError, match="compute_chunk_sizes"):
        regression().fit(lazy[lazy[:, 0] > 0], y)


def test_the_page_of_the_documentation_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "guides" / "estimators.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted >= 8
    assert result.failed == 0


def test_a_notebook_shows_the_release_of_a_fitted_estimator() -> None:
    model = regression(method="proximal_gradient", steps=5)
    assert "differentially private" not in model._repr_html_()
    X, y = sample(300)
    shown = model.fit(X, y)._repr_mimebundle_()["text/html"]
    assert "differentially private for one" in shown
    assert f"{model.coef_[0]:.5g}" in shown
