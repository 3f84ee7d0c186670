"""A prediction wants the columns that the model was fitted on, by name, order and number."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from nightfit.estimators import PrivateLinearRegression, PrivateLogisticRegression
from nightfit.planning.plan import PlanError

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1)}
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(RNG.uniform(-1, 1, (500, 3)), columns=["age", "bmi", "dose"])
LABELS = FRAME["age"] > 0


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
def test_columns_in_another_order_or_of_other_names_are_refused(kind: Any) -> None:
    model = kind(**BUDGET).fit(FRAME, LABELS)
    model.predict(FRAME)
    model.score(FRAME, LABELS)
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(FRAME[["bmi", "age", "dose"]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- weight\nFeature names seen at fit time, yet now missing:\n- dose"):
        model.predict(FRAME.rename(columns={"dose": "weight"}))
    with pytest.raises(ValueError, match="yet now missing:\n- dose"):
        model.score(FRAME[["age", "bmi"]], LABELS)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(FRAME.to_numpy())


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
def test_another_number_of_columns_or_of_dimensions_is_refused(kind: Any) -> None:
    model = kind(**BUDGET).fit(FRAME.to_numpy(), LABELS)
    with pytest.raises(ValueError, match=f"X has 2 features, but {kind.__name__} is expecting 3 features as input"):
        model.predict(np.zeros((5, 2)))
    with pytest.raises(ValueError, match="Reshape your data"):
        model.predict(np.zeros(3))


def test_a_model_that_was_not_fitted_says_so() -> None:
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(PrivateLogisticRegression(**BUDGET), method)(FRAME)
    for method in ("coef_interval", "intercept_interval"):
        with pytest.raises(NotFittedError):
            getattr(PrivateLinearRegression(**BUDGET), method)()


def test_a_second_fit_forgets_the_names_of_the_first() -> None:
    model = PrivateLinearRegression(**BUDGET).fit(FRAME, LABELS).fit(FRAME.to_numpy()[:, :2], LABELS)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2


def test_names_that_are_partly_strings_are_refused_before_anything_is_spent() -> None:
    with pytest.raises(PlanError, match="astype\\(str\\)"):
        PrivateLinearRegression(**BUDGET).fit(FRAME.rename(columns={"dose": 2}), LABELS)
    model = PrivateLinearRegression(**BUDGET).fit(FRAME.set_axis([0, 1, 2], axis=1), LABELS)
    assert not hasattr(model, "feature_names_in_")
