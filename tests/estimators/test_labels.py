"""A classifier's labels are declared, of any type; which ones occur decides nothing."""

from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from nightfit.estimators import PrivateLogisticRegression
from nightfit.estimators.inputs import InputError
from nightfit.ledger import Ledger, Policy
from nightfit.planning.plan import PlanError
from nightfit.types import Adjacency

BUDGET: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-6, "bounds": (-1, 1)}
ROWS = 4000
RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (ROWS, 2))
POSITIVE = RNG.logistic(size=ROWS) < 6 * X[:, 0]
SIGNS = np.array([[-0.9, 0.0], [0.9, 0.0]])


def named(negative: Any, positive: Any) -> np.ndarray:
    return np.where(POSITIVE, positive, negative)


FORMS = (np.asarray, pd.Series, da.from_array, lambda y: dd.from_pandas(pd.Series(y), npartitions=2))
CLASSES = (("well", "ill"), (1, 2), (-1, 1), (False, True), (True, False), (0.5, 1.5), ["b", "a"])


@pytest.mark.parametrize(("classes", "form"), [*((one, np.asarray) for one in CLASSES), *((CLASSES[0], form) for form in FORMS[1:])])
def test_labels_of_any_type_are_fitted_and_predicted(classes: Any, form: Any) -> None:
    y = named(*classes)
    model = PrivateLogisticRegression(**BUDGET, classes=classes).fit(X, form(y))
    assert model.classes_.tolist() == list(classes)
    predicted = model.predict(SIGNS)
    assert predicted.tolist() == list(classes)
    assert predicted.dtype == model.classes_.dtype == y.dtype
    assert model.score(X, form(y)) == np.mean(model.predict(X) == y)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (pd.Series(named("well", "ill"), dtype="category"), ("well", "ill")),
        (pd.Series(named("well", "ill"), dtype="string"), ("well", "ill")),
        (pd.Series(named(0, 1), dtype="Int64"), (0, 1)),
        (pd.Series(POSITIVE, dtype="boolean"), None),
        (POSITIVE, None),
        (POSITIVE.astype(float), (0, 1)),
        (named("well", "ill").astype(object), ("well", "ill")),
        (np.array([0, "ill"], dtype=object)[POSITIVE.astype(int)], (0, "ill")),
    ],
    ids=range(8),
)
def test_types_of_pandas_and_objects_are_fitted_and_a_missing_label_stops_nothing(y: Any, classes: Any) -> None:
    y = y.copy()
    if not isinstance(y, np.ndarray):
        y.iloc[7] = pd.NA
    elif y.dtype == object:
        y[:3] = [pd.NA, None, np.zeros(2)]
    model = PrivateLogisticRegression(**BUDGET, classes=classes).fit(X, y)
    assert model.predict(SIGNS).tolist() == list(classes or (0, 1))


@pytest.mark.parametrize(
    ("y", "classes", "said"),
    [
        (named(1, 2), None, "y holds int64, and its labels are not declared"),
        (named(0.0, 1.0), None, "y holds float64, and its labels are not declared"),
        (named("secret", "ill"), None, r"y holds text, and its labels are not declared: .*classes=\('well', 'ill'\)"),
        (named("secret", "ill").astype(object), None, "y holds object, and its labels are not declared"),
        (pd.Series(named("secret", "ill")), None, "y holds str.*, and its labels are not declared"),
        (pd.Series(named("secret", "ill"), dtype="category"), None, "y holds category, and its labels are not declared"),
        (dd.from_pandas(pd.Series(named("secret", "ill")), npartitions=2), None, "y holds str.*, and its labels are not declared"),
        (named(0, 1), ("well", "ill"), "y holds int64, and classes declares labels of another type"),
        (named("0", "1"), (0, 1), "y holds text, and classes declares labels of another type"),
        (named(0, 1), (0, 1, 1), "are equal"),
        (named(0, 1), (1,), "at least two labels"),
        (named("a", "b"), "ab", "at least two labels"),
        (named("a", "b"), ("a", "a"), "are equal"),
        (named(0, 1), (0, float("nan")), "equals nothing"),
    ],
    ids=range(14),
)
def test_labels_that_are_not_declared_or_cannot_be_held_are_refused_before_it_is_paid(
    y: Any, classes: Any, said: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).set_policy(Policy(data_set="cohort", adjacency=Adjacency.REPLACE_ONE, epsilon=30.0, delta=1e-5))
    model = PrivateLogisticRegression(**BUDGET, classes=classes, ledger=url, data_set="cohort", window="tonight")
    with pytest.raises((InputError, PlanError), match=said) as caught:
        model.fit(X, y)
    assert "secret" not in str(caught.value)
    assert Ledger.open(url).runs() == []


def test_no_label_that_occurs_or_is_missing_decides_whether_a_fit_starts() -> None:
    for y in (np.zeros(ROWS), np.ones(ROWS), np.arange(ROWS), np.full(ROWS, 0.3)):
        assert PrivateLogisticRegression(**BUDGET, classes=(0, 1)).fit(X, y).classes_.tolist() == [0, 1]


def test_a_misspelt_label_is_told_by_its_name() -> None:
    with pytest.warns(UserWarning, match="of this fit: within the noise no record has the label Ill"):
        PrivateLogisticRegression(**BUDGET | {"epsilon": 20.0}, classes=("well", "Ill")).fit(X, np.full(ROWS, "well"))


@pytest.mark.parametrize("form", [np.asarray, lambda X: da.from_array(X, chunks=(999, 1))])
def test_the_decision_the_probabilities_and_their_logarithms_agree(form: Any) -> None:
    model = PrivateLogisticRegression(**BUDGET, classes=("well", "ill")).fit(X, named("well", "ill"))
    given = form(X)
    lazy = [getattr(model, name)(given) for name in ("predict", "decision_function", "predict_proba", "predict_log_proba")]
    assert all(isinstance(part, type(given)) for part in lazy)
    predicted, decision, probabilities, logarithms = (np.asarray(part) for part in lazy)
    assert [part.shape for part in lazy] == [(ROWS,), (ROWS,), (ROWS, 2), (ROWS, 2)]
    np.testing.assert_allclose(decision, X @ model.coef_[0] + model.intercept_[0], atol=1e-12)
    np.testing.assert_array_equal(predicted, np.where(decision > 0, "ill", "well"))
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-decision)))
    np.testing.assert_allclose(np.exp(logarithms), probabilities)
