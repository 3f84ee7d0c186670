"""Every kind of outcome of the simulated hospital at person level: against a constant, kind linear, and the same model without privacy.

`python -m benchmarks hospital [--data FOLDER]` writes 200,000 admissions of 50,000 patients, fits each kind from the raw export through
configuration, ledger and release, scores 50,000 admissions of other patients by `nightfit predict`, and fits the same model with
scikit-learn on features encoded by hand. A number is the share of what the model without privacy gains over a constant that the private
one keeps: 1 is as good, 0 is the constant.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import yaml
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import GammaRegressor, LinearRegression, LogisticRegression, PoissonRegressor, QuantileRegressor
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance, mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from nightfit import Ledger, load_config, predict, refit
from nightfit.shards.hospital import CHAPTERS, CLASSES, SEXES, VISITS_PER_PATIENT, Hospital
from nightfit.types import Array

ROWS, TESTED, DAYS = 200_000, 50_000, 30
EPSILONS = (1.0, 4.0)
QUANTILE_ROWS = 20_000  # of the quantile without privacy, which scikit-learn fits as a linear program
COLUMNS: dict[str, dict[str, Any]] = {
    "sex": {"kind": "category", "levels": list(SEXES)},
    "age": {"kind": "number", "bounds": [0, 110]},
    "diagnosis": {"kind": "category", "levels": list(CHAPTERS)},
    "emergency": {"kind": "boolean"},
    "prior_visits": {"kind": "number", "transform": "sqrt"},
    "systolic": {"kind": "number"},
    "creatinine": {"kind": "number", "transform": "log", "missing": "indicator"},
    "bmi": {"kind": "number"},
}
OUTCOMES: dict[str, tuple[dict[str, Any], Any]] = {
    "linear: log1p of stay_days": ({"kind": "linear"}, {"column": "stay_days", "transform": "log1p"}),
    "logistic: readmitted": ({"kind": "logistic"}, "readmitted"),
    "logistic: died": ({"kind": "logistic"}, {"column": "outcome", "positive": "died"}),
    "multinomial: outcome": ({"kind": "multinomial"}, {"column": "outcome", "classes": list(CLASSES)}),
    "counts: visits_next_year": ({"kind": "counts"}, "visits_next_year"),
    "amounts: cost": ({"kind": "amounts"}, "cost"),
    "quantile 0.9: stay_days": ({"kind": "quantile", "quantile": 0.9}, "stay_days"),
}
STRAIGHT = {"counts: visits_next_year": "visits_next_year", "amounts: cost": "cost"}
"""Outcomes that kind linear is fitted to as well."""


def content(data: Path | None = None) -> dict[str, Any]:
    """What each private fit keeps of the gain without privacy."""
    if data is None:
        with tempfile.TemporaryDirectory() as folder:
            return {"ratios": dict(_ratios(Path(folder)))}
    return {"ratios": dict(_ratios(data))}


def _ratios(folder: Path) -> Iterator[tuple[str, float]]:
    for name, hospital in (("export", Hospital(rows=ROWS, days=DAYS, seed=1)), ("tested", Hospital(rows=TESTED, days=DAYS, seed=2))):
        if not (folder / name).exists():
            hospital.write(folder / name)
    fitted, tested = (pads.dataset(folder / name).to_table().to_pandas() for name in ("export", "tested"))
    for name, (model, target) in OUTCOMES.items():
        column = target["column"] if isinstance(target, dict) else target
        loss, constant, peer = _without_privacy(name, fitted, tested, column)
        for epsilon in EPSILONS:
            private = loss(_private(folder, name, model, target, epsilon))
            yield f"{name}, epsilon {epsilon:g}", (constant - private) / (constant - peer)
            if name in STRAIGHT:
                by_line = _private(folder, f"{name} by linear", {"kind": "linear"}, STRAIGHT[name], epsilon)
                straight = np.maximum(by_line, _floor(fitted[column]))
                yield f"{name}, by kind linear, epsilon {epsilon:g}", (constant - loss(straight)) / (constant - peer)


def _floor(column: Any) -> float:
    """A hundredth of the mean: what a straight line is cut at, so that its deviance is finite."""
    return float(column.astype(float).mean()) / 100


def _private(folder: Path, name: str, model: dict[str, Any], target: Any, epsilon: float) -> Array:
    """The predictions of a private fit of the raw export: a number, or the probabilities of the labels, of each tested admission."""
    place = Path(tempfile.mkdtemp(dir=folder))
    written = {
        "name": "benchmark",
        "data": {
            "path": str(folder / "export"),
            "name": "hospital",
            "target": target,
            "columns": COLUMNS,
            "unit": "patient_id",
            "units": ROWS // VISITS_PER_PATIENT,
            "rows_per_unit": 20,
        },
        "privacy": {"epsilon": epsilon, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "model": model,
    }
    (place / "refit.yaml").write_text(yaml.safe_dump(written))
    config = load_config(place / "refit.yaml")
    Ledger.create(config.ledger_url)
    predict(refit(config), folder / "tested", place / "scored.parquet", keep=["visit_id"])
    scored = pq.read_table(place / "scored.parquet")
    chances = [scored[column].to_numpy() for column in scored.column_names if column.startswith("probability")]
    if not chances:
        return np.asarray(scored["prediction"].to_numpy(), dtype=np.float64)
    return np.column_stack([1 - chances[0], chances[0]] if len(chances) == 1 else chances)


def _without_privacy(name: str, fitted: Any, tested: Any, column: str) -> tuple[Callable[[Array], float], float, float]:
    """The loss of predictions on the tested admissions, that of a constant, and that of the model without privacy."""
    kind = name.split(":")[0].split()[0]
    X, tests = _by_hand(fitted, tested)
    y, truth = (frame[column] for frame in (fitted, tested))
    if kind == "linear":
        logs, true = np.log1p(y), np.log1p(truth)
        loss = lambda found: float(mean_squared_error(true, np.log1p(np.maximum(found, 0.0))))  # noqa: E731
        return loss, loss(np.full(len(true), np.expm1(logs.mean()))), loss(np.expm1(LinearRegression().fit(X, logs).predict(tests)))
    if kind in ("logistic", "multinomial"):
        labels = list(CLASSES) if kind == "multinomial" else [False, True]
        y, truth = (part == "died" if name.endswith("died") else part for part in (y, truth))
        loss = lambda found: float(_log_loss(truth, found, labels))  # noqa: E731
        model = LogisticRegression(C=1e6, max_iter=1000).fit(X, y)
        chances = model.predict_proba(tests)[:, [list(model.classes_).index(label) for label in labels]]
        return loss, loss(np.tile([float((y == label).mean()) for label in labels], (len(truth), 1))), loss(chances)
    y, truth = y.astype(float), truth.astype(float)
    if kind == "quantile":
        loss = lambda found: float(mean_pinball_loss(truth, found, alpha=0.9))  # noqa: E731
        quantile = QuantileRegressor(quantile=0.9, alpha=0).fit(X[:QUANTILE_ROWS], y[:QUANTILE_ROWS])
        return loss, loss(np.full(len(truth), np.quantile(y, 0.9))), loss(quantile.predict(tests))
    deviance, made = (mean_poisson_deviance, PoissonRegressor) if kind == "counts" else (mean_gamma_deviance, GammaRegressor)
    loss = lambda found: float(deviance(truth, found))  # noqa: E731
    return loss, loss(np.full(len(truth), y.mean())), loss(made(alpha=0, max_iter=1000).fit(X, y).predict(tests))


def _log_loss(truth: Any, found: Array, labels: list[Any]) -> float:
    """Mean of -log of the probability of the true label."""
    places = pd.Categorical(truth, categories=labels).codes
    return float(log_loss(places, found, labels=range(len(labels))))


def _by_hand(fitted: Any, tested: Any) -> tuple[Array, Array]:
    """Features as an analyst encodes them: levels as indicators, square roots and logarithms, means for what is missing."""
    filled = make_pipeline(SimpleImputer(), StandardScaler())
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "diagnosis"]),
        (make_pipeline(FunctionTransformer(np.sqrt), StandardScaler()), ["prior_visits"]),
        (make_pipeline(FunctionTransformer(np.log), SimpleImputer(add_indicator=True), StandardScaler()), ["creatinine"]),
        (filled, ["age", "systolic", "bmi"]),
        (FunctionTransformer(lambda column: column.astype(float)), ["emergency"]),
        sparse_threshold=0,
    )
    return encode.fit_transform(fitted), encode.transform(tested)
