"""Columns of a data frame by kind: dtypes propose, missing values count as the mean, unknown levels are defined and wrong types refused."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from nightfit import PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegression
from nightfit.planning.plan import PlanError
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import Category
from nightfit.records.encoding import Encoding
from nightfit.shards.frames import encoded_frame
from nightfit.shards.manifest import DataError

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}


def frame(rows: int = 3000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(20, 90, rows),
            "sex": rng.choice(["F", "M"], rows),
            "urgent": rng.uniform(size=rows) < 0.4,
            "admitted": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, rows), unit="D"),
        }
    )


SEX = {"sex": {"kind": "category", "levels": ["F", "M"]}}


def test_dtypes_propose_kinds_and_text_must_be_described() -> None:
    X = frame()
    y = X["age"] > 55
    model = PrivateLogisticRegression(**BUDGET, columns=SEX).fit(X, y)
    features = model.release_.preprocessing.features
    assert features[:5] == ("age", "sex=F", "sex=M", "sex=other", "urgent")
    assert "admitted=Monday" in features
    assert model.coef_.shape[-1] == len(features)
    with pytest.raises(PlanError, match=r"column 'sex' of X holds .* describe it, as in columns="):
        PrivateLogisticRegression(**BUDGET, columns={}).fit(X, y)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({**SEX, "bmi": {"kind": "number"}}, "X has no such column"),
        ({**SEX, "age": {"kind": "numbr"}}, r"columns\['age'\]"),
        ({"sex": {"kind": "category", "levels": "discover", "at_most": 4}}, "nightfit discover"),
        ({**SEX, "both": {"kind": "product", "of": ["sex", "nobody"]}}, "nobody"),
    ],
)
def test_a_wrong_description_is_refused_with_its_column(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        PrivateLinearRegression(**BUDGET, columns=columns).fit(frame(), np.zeros(3000))


@pytest.mark.parametrize("kind", ["float64", "Int64", "string", "object", "category"])
def test_a_code_is_the_same_in_every_type_that_pandas_gives_it(kind: str) -> None:
    """A column of whole numbers and gaps is of floats, of nullable integers, of text or of objects, by how it came about."""
    codes = pd.Series([1.0, 2.0, np.nan, 7.0, 1.0])
    given = codes.map({1.0: "1", 2.0: "2", 7.0: "7"}) if kind == "string" else codes
    encoding = Encoding((("code", Category(levels=("1", "2"), missing="indicator")),))
    made = encoded_frame(pd.DataFrame({"code": given.astype(kind)}), encoding)
    assert made.argmax(axis=1).tolist() == [0, 1, 3, 2, 0]


def test_booleans_among_objects_are_levels_and_no_kind_boolean() -> None:
    X = pd.DataFrame({"urgent": pd.Series([True, False, None], dtype=object)})
    assert encoded_frame(X, Encoding((("urgent", Category(levels=("true",))),)))[:, 0].tolist() == [1, 0, 0]
    with pytest.raises(DataError, match=r"or another type, as in X.astype\(\{'urgent': 'boolean'\}\)"):
        encoded_frame(X, Encoding((("urgent", Boolean()),)))


def test_a_prediction_takes_what_the_fit_took() -> None:
    X = frame()
    model = PrivateLinearRegression(**BUDGET, columns=SEX).fit(X, X["age"] / 10)
    known = model.predict(X)
    as_category = X.astype({"sex": "category"})
    assert model.predict(as_category) == pytest.approx(known)
    odd = X.assign(sex="?", age=np.nan)
    assert np.isfinite(model.predict(odd)).all()
    assert model.predict(X.assign(sex=None)) == pytest.approx(model.predict(X.assign(sex="?")))
    with pytest.raises(DataError, match="column 'urgent' of X holds"):
        model.predict(X.assign(urgent="yes"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.drop(columns="sex"))
    with pytest.raises(ValueError, match="data frame"):
        model.predict(X.to_numpy())


KINDS: dict[str, tuple[Any, Any]] = {
    "linear": (PrivateLinearRegression, LinearRegression()),
    "logistic": (partial(PrivateLogisticRegression, classes=(0, 1)), LogisticRegression(C=1e9)),
    "counts": (PrivatePoissonRegression, PoissonRegressor(alpha=0, max_iter=1000)),
}
SLOPE_OFF, LEVEL_OFF = {"linear": 0.045, "logistic": 0.11, "counts": 0.04}, {"linear": 0.04, "logistic": 0.01, "counts": 0.03}


def imputed(share: float, depends: bool, kind: str, rows: int = 40_000) -> tuple[pd.DataFrame, Any]:
    """Three columns, of which `b` is missing in this share of records, at random or four times as often where the outcome is high."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3)) * [1, 2, 1] + [0, 3, -1]
    X[:, 2] += 0.5 * X[:, 0]
    z = X @ [0.8, -0.4, 0.5]
    if kind == "counts":
        y = rng.poisson(np.exp(0.5 + z / 2)).astype(float)
    else:
        y = (rng.logistic(size=rows) < z).astype(int) if kind == "logistic" else z + rng.standard_t(4, rows)
    chance = np.where(y > np.median(y), 1.6, 0.4) * share if depends else np.full(rows, share)
    X[rng.uniform(size=rows) < chance, 1] = np.nan
    return pd.DataFrame(X, columns=list("abc")), y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("share", "depends"), [(0.26, True), *(pytest.param(s, d, marks=pytest.mark.sweep) for s, d in [
    (0.0, False), (0.1, False), (0.26, False), (0.5, False), (0.1, True), (0.5, True)])])  # fmt: skip
def test_calibration_and_slopes_are_those_of_the_same_imputation_without_privacy(share: float, depends: bool, kind: str) -> None:
    """The tolerances hold noise (about 0.01 of a standard deviation) and what `auto` shrinks slopes of log odds by, which is a tenth
    with and without missing values. A centre that counted missing values as zeros would move the slope of `b` by 0.05 to 0.5.
    """
    X, y = imputed(share, depends, kind)
    filled, (private, public) = X.fillna(X.mean()), KINDS[kind]
    model, plain = private(**BUDGET, columns={name: {"kind": "number"} for name in "abc"}).fit(X, y), clone(public).fit(filled, y)
    predicted = model.predict_proba(X)[:, 1] if kind == "logistic" else model.predict(X)
    spread = X.std().to_numpy()
    slopes, wanted = np.ravel(model.coef_) * spread, np.ravel(plain.coef_) * spread
    assert slopes == pytest.approx(wanted, abs=SLOPE_OFF[kind])
    assert predicted.mean() == pytest.approx(y.mean(), abs=LEVEL_OFF[kind])
    centre = dict(zip("abc", model.release_.preprocessing.centre, strict=True))
    assert centre["b"] == pytest.approx(float(X["b"].mean()), abs=0.2)  # counted as zeros, missing values would move it by 0.8
