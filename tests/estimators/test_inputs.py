"""Frames, nullable types and Dask frames are fitted; what cannot be is refused by shape and type, before anything is spent."""

from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import DataConversionWarning

from nightfit.estimators import PrivateLinearRegression, PrivateLogisticRegression
from nightfit.estimators.inputs import InputError
from nightfit.ledger import Ledger, Policy
from nightfit.shards.manifest import DataError
from nightfit.types import Adjacency

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1)}
ROWS = 400
RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (ROWS, 2))
Y = (X[:, 0] > 0).astype(float)
FRAME = pd.DataFrame(X, columns=["age", "dose"])


def nullable() -> pd.DataFrame:
    frame = FRAME.astype("Float64").assign(age=(FRAME["age"] > 0).astype("boolean"), visits=pd.array([1] * ROWS, dtype="Int64"))
    frame.iloc[3] = pd.NA
    return frame


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).set_policy(Policy(data_set="cohort", adjacency=Adjacency.REPLACE_ONE, epsilon=10.0, delta=1e-5))
    return url


def test_nullable_types_are_fitted_and_a_missing_value_counts_as_nan() -> None:
    y = pd.Series(Y).astype("Int64")
    y[4] = pd.NA
    model = PrivateLinearRegression(**BUDGET).fit(nullable(), y)
    assert np.isfinite(model.coef_).all()
    assert model.predict(nullable().drop(index=3)).shape == (ROWS - 1,)
    with pytest.raises(ValueError, match="NaN or Inf"):
        model.predict(nullable())
    assert np.isfinite(model.score(nullable().drop(index=[3, 4]), y.drop(index=[3, 4])))


def test_booleans_beside_floats_are_numbers() -> None:
    frame = FRAME.assign(age=FRAME["age"] > 0)
    assert PrivateLinearRegression(**BUDGET).fit(frame, Y).n_features_in_ == 2


def lazily(part: Any, known: bool) -> Any:
    lazy = dd.from_pandas(part, npartitions=3)
    return lazy if known else lazy.clear_divisions()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("frame", [FRAME, nullable()])
def test_a_dask_frame_is_fitted_and_predicted_lazily_with_known_divisions_or_not(frame: pd.DataFrame, known: bool) -> None:
    lazy, y = lazily(frame, known), lazily(pd.Series(Y), known)
    assert lazy.known_divisions == known
    model = PrivateLinearRegression(**BUDGET).fit(lazy, y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    whole = frame.drop(index=3)
    predicted = model.predict(lazily(whole, known))
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(), model.predict(whole))
    with pytest.raises(ValueError, match="same order"):
        model.predict(lazy[list(frame.columns[::-1])])


def test_a_dask_frame_that_cannot_be_made_is_a_data_error_without_its_values() -> None:
    def broken(part: pd.DataFrame) -> pd.DataFrame:
        raise ValueError("secret")

    lazy = dd.from_pandas(FRAME, npartitions=2).map_partitions(broken, meta=FRAME.iloc[:0])
    with pytest.raises(DataError) as caught:
        PrivateLinearRegression(**BUDGET).fit(lazy, Y)
    assert "secret" not in str(caught.value)


REFUSED = [
    (X[:, 0], Y, r"got 1D array instead.*Reshape your data by X.reshape\(-1, 1\)"),
    (X[:, :0], Y, r"0 feature\(s\)"),
    (X[:0], Y[:0], r"0 sample\(s\)"),
    (csr_array(X), Y, r"sparse X is not supported.*X.toarray\(\)"),
    (np.ma.masked_array(X, X > 0), Y, r"X is a masked array.*X.filled\(numpy.nan\)"),
    (X, np.ma.masked_array(Y, Y > 0), r"y is a masked array.*y.filled\(numpy.nan\)"),
    (X + 1j, Y, "Complex data not supported"),
    (X.astype(object), Y, "X holds object: encode it"),
    (np.full((ROWS, 2), "secret"), Y, "X holds text: encode it"),
    (FRAME.assign(dose="secret"), Y, "column 'dose' of X holds str.*encode it.*or describe it, as in columns="),
    (FRAME.assign(dose=pd.Categorical(["secret"] * ROWS)), Y, "column 'dose' of X holds category: encode it"),
    (dd.from_pandas(FRAME.assign(dose="secret"), npartitions=2), Y, "column 'dose' of X holds str.*encode it"),
    (X, Y[1:], f"X has {ROWS} rows and y has {ROWS - 1}: y must have one value for each row"),
    (X, np.column_stack([Y, Y]), "y has 2 columns.*fit one model for each"),
    (X, pd.DataFrame({"a": Y, "b": Y}), "y has 2 columns.*fit one model for each"),
    (X, None, "requires y to be passed"),
    (X, da.from_array(Y)[da.from_array(Y) > 0], r"compute_chunk_sizes\(\)"),
]


@pytest.mark.parametrize("kind", [PrivateLinearRegression, partial(PrivateLogisticRegression, classes=(0, 1))])
@pytest.mark.parametrize(("features", "target", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_fitted_is_refused_with_the_cure_before_it_is_paid(
    kind: Any, features: Any, target: Any, said: str, ledger: str
) -> None:
    model = kind(**BUDGET, ledger=ledger, data_set="cohort", window="tonight")
    with pytest.raises(InputError, match=said) as caught:
        model.fit(features, target)
    assert "secret" not in str(caught.value)
    assert Ledger.open(ledger).runs() == []


def test_under_add_remove_no_number_of_rows_is_told_and_none_is_refused() -> None:
    model = PrivateLinearRegression(**BUDGET, adjacency="add_remove", units=500)
    with pytest.raises(InputError, match="different numbers of rows") as caught:
        model.fit(X, Y[1:])
    assert str(ROWS) not in str(caught.value)
    assert np.isfinite(model.fit(X[:0], Y[:0]).coef_).all()


def test_a_target_of_one_column_is_fitted_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        PrivateLinearRegression(**BUDGET).fit(X, Y[:, np.newaxis])


def test_a_dask_array_in_chunks_of_columns_is_predicted() -> None:
    model = PrivateLinearRegression(**BUDGET).fit(X, Y)
    np.testing.assert_array_equal(model.predict(da.from_array(X, chunks=(100, 1))).compute(), model.predict(X))
