"""A nightfit model as a scikit-learn Pipeline. This file needs numpy, pandas and scikit-learn, and nothing else: keep it, import it.

`pipeline.predict(frame)` takes raw records, a pandas DataFrame or a dict of arrays, with the columns `INPUTS`. A record that the fit
would have dropped gets NaN. `FORMULA` is the whole model; the classes below only compute it.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.pipeline import Pipeline

FORMULA: dict[str, Any] = json.loads(r"""{"inputs": [], "terms": [], "intercept": 0.0, "outputs": {}, "labels": false}""")
INPUTS = [one["name"] for one in FORMULA["inputs"]]
DAY = 86_400_000_000  # microseconds
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?"


def evaluate(expression: Any, raw: dict[str, Any], made: dict[str, Any], margin: Any) -> Any:
    """The value of an expression for all records: floats with NaN where missing, or booleans for a condition."""
    if not isinstance(expression, list):
        return expression
    op, *parts = expression
    if op in COLUMN:
        return COLUMN[op](raw[parts[0]], *parts[1:])
    if op == "feature":
        return made[parts[0]]
    if op == "margin":
        return margin[:, int(parts[0])] if parts else margin
    return COMPUTED[op](*(evaluate(part, raw, made, margin) for part in parts))


def texts(values: Any) -> tuple[Any, Any]:
    """Values as text, and which are missing; a yes or no is true or false, as in Parquet."""
    series = pd.Series(values)
    missing = series.isna().to_numpy()
    words = ["" if gone else word(value) for value, gone in zip(series, missing, strict=True)]
    return np.array(words, dtype=object), missing


def word(value: Any) -> str:
    """A value as Parquet's text has it; pandas makes floats of whole numbers where some are missing."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def numbers(values: Any) -> Any:
    """Values as finite floats; NaN where there is none."""
    series = pd.Series(values)
    if not pd.api.types.is_numeric_dtype(series.dtype):
        words = series.map(lambda value: str(float(value)) if isinstance(value, bool) else str(value).strip())
        series = pd.to_numeric(words.where(words.str.fullmatch(NUMBER)), errors="coerce")
    found = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(found), found, np.nan)


def instants(values: Any, zone: str) -> tuple[Any, Any]:
    """Microseconds since 1970-01-01T00:00 by the wall clock of the zone, and which are missing. Whole numbers are taken as that."""
    series = pd.Series(values)
    if pd.api.types.is_integer_dtype(series.dtype):
        missing = series.isna().to_numpy()
        return series.fillna(0).to_numpy(dtype=np.int64), missing
    if not pd.api.types.is_datetime64_any_dtype(series.dtype):
        series = pd.to_datetime(series, errors="coerce", format="ISO8601")
    if series.dt.tz is not None:
        series = series.dt.tz_convert(zone).dt.tz_localize(None)
    found = series.to_numpy(dtype="datetime64[us]").astype(np.int64)
    missing = series.isna().to_numpy()
    return np.where(missing, 0, found), missing


def level(column: Any, text: str) -> Any:
    """1 where the column is this text, 0 where it is another, NaN where it is missing."""
    return np.where(column[1], np.nan, column[0] == text)


def other(column: Any, *known: str) -> Any:
    """1 where the column is none of these texts."""
    return np.where(column[1], np.nan, ~np.isin(column[0].astype(str), known))


def months(instants: Any) -> Any:
    """Months since January 1970."""
    return instants.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)


def when(condition: Any, value: Any) -> Any:
    """The value, or NaN where the condition is false; of texts None."""
    texts = np.asarray(value).dtype.kind == "U"
    return np.where(condition, np.asarray(value, dtype=object), np.asarray(None)) if texts else np.where(condition, value, np.nan)


COLUMN: dict[str, Any] = {
    "number": lambda column: column,
    "level": level,
    "other": other,
    "days": lambda column: np.where(column[1], np.nan, column[0] // DAY),
    "clock": lambda column: np.where(column[1], np.nan, column[0] % DAY),
    "year": lambda column: np.where(column[1], np.nan, months(column[0]) // 12 + 1970),
    "month": lambda column: np.where(column[1], np.nan, months(column[0]) % 12),
    "weekday": lambda column: np.where(column[1], np.nan, (column[0] // DAY + 3) % 7),
}
COMPUTED: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floor": np.floor, "log": np.log, "log1p": np.log1p,
    "max": np.maximum,
    "clip": np.clip,
    "finite": lambda a: np.where(np.isfinite(a), a, np.nan),
    "sqrt": np.sqrt, "exp": np.exp, "sin": np.sin, "cos": np.cos, "lt": np.less, "le": np.less_equal, "eq": np.equal,
    "either": np.logical_or, "when": when, "choose": np.where, "missing": lambda a: np.isnan(a).astype(np.float64),
    "coalesce": lambda a, b: np.where(np.isnan(a), b, a),
}  # fmt: skip
READ: dict[str, Any] = {"number": numbers, "text": texts, "instant": instants}


class Encoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Raw records to bounded terms x', one column each; NaN in every term of a record that has no prediction."""

    def fit(self, X: Any, y: Any = None) -> "Encoder":
        """It was fitted already: its facts are those of the release."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        """The terms (records x terms)."""
        columns = {}
        for one in FORMULA["inputs"]:
            if one["name"] not in X:
                raise ValueError(f"column {one['name']!r} is missing: the model reads {', '.join(INPUTS)}")
            more = (one["zone"],) if one["kind"] == "instant" else ()
            columns[one["name"]] = READ[one["kind"]](X[one["name"]], *more)
        made: dict[str, Any] = {}
        out = np.empty((len(X[INPUTS[0]]), len(FORMULA["terms"])))
        kept = np.ones(len(out), dtype=bool)
        with np.errstate(all="ignore"):
            for j, term in enumerate(FORMULA["terms"]):
                value = made[term["feature"]] = evaluate(term["value"], columns, made, None)
                scaled = (value - term["centre"]) / term["scale"]
                scaled = scaled if term["clamp"] is None else np.clip(scaled, *term["clamp"])
                kept &= ~(np.isnan(scaled) & term["required"])
                out[:, j] = np.where(np.isnan(scaled), term["absent"], scaled)
        out[~kept] = np.nan
        return out


class Scorer(BaseEstimator):  # type: ignore[misc]
    """Terms to predictions."""

    def fit(self, X: Any, y: Any = None) -> "Scorer":
        """It was fitted already: its weights are those of the release."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _output(self, name: str, X: Any) -> Any:
        margin = self.decision_function(X)
        terms = dict(zip((term["feature"] for term in FORMULA["terms"]), np.asarray(X).T, strict=True))
        with np.errstate(all="ignore"):
            return evaluate(FORMULA["outputs"][name], {}, terms, margin)  # of terms an exposure alone, which is not scaled

    def decision_function(self, X: Any) -> Any:
        """The margin of each record, before the link; of several classes one column for each."""
        return np.asarray(X) @ np.array([term["weight"] for term in FORMULA["terms"]]) + np.array(FORMULA["intercept"])

    def predict(self, X: Any) -> Any:
        """The prediction of each record."""
        return self._output("prediction", X)


class Regressor(RegressorMixin, Scorer):  # type: ignore[misc]
    """Terms to numbers."""


class Classifier(ClassifierMixin, Scorer):  # type: ignore[misc]
    """Terms to the labels 0.0 and 1.0, or to named ones; a record without a prediction has NaN, or None."""

    classes_ = np.array(FORMULA.get("classes", [0, 1]))

    def predict_proba(self, X: Any) -> Any:
        """The probabilities of the labels, where the model's link gives them."""
        several = [f"probability_{label}" for label in self.classes_]
        if several[0] in FORMULA["outputs"]:
            return np.column_stack([self._output(name, X) for name in several])
        probability = self._output("probability", X)
        return np.column_stack([1.0 - probability, probability])


pipeline = Pipeline([("encode", Encoder()), ("model", Classifier() if FORMULA["labels"] else Regressor())])
