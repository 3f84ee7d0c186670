"""The exact metrics of trusted data are those that scikit-learn computes of the same predictions, whoever a record is of."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, mean_absolute_error, r2_score, root_mean_squared_error

from nightfit.problem.links.identity import Identity
from nightfit.problem.links.logit import Logit
from nightfit.problem.links.softmax import Softmax
from nightfit.records.outcomes import Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards import exact_metrics as module
from nightfit.shards.exact_metrics import exact_metrics
from nightfit.shards.manifest import DataError, scan
from nightfit.shards.scorer import Scorer

ROWS = 1000


def shape(**changes: Any) -> Preprocessing:
    fields: dict[str, Any] = {"features": ("a", "b"), "target": "y", "centre": (1.0, -2.0), "scale": (3.0, 0.5), "intercept": True}
    return Preprocessing(**(fields | changes))


MODELS = {
    "numbers": (shape(target_centre=10.0, target_scale=4.0, unit="patient", rows_per_unit=2), np.array([0.7, -1.3, 0.2]), Identity()),
    "medians of logarithms": (shape(outcome=Outcome(transform="log1p")), np.array([0.7, -1.3, 0.2]), Identity()),
    "labels": (shape(target_domain=Target.LABELS), np.array([0.7, -1.3, 0.2]), Logit()),
    "classes": (
        shape(target_domain=Target.CLASSES, outcome=Outcome(labels=("red", "green", "blue"))),
        np.array([[0.7, -1.3, 0.2], [0.1, 0.4, 0.0], [-0.5, 0.2, 0.1]]),
        Softmax(),
    ),
}


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """Records in five row groups; some lack a feature or a target."""
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {"a": rng.normal(1, 3, ROWS), "b": rng.normal(-2, 1, ROWS)}
    columns["a"][::17] = np.nan
    return columns


def targets(name: str, rng: np.random.Generator) -> Any:
    if name == "classes":
        return np.array(["red", "green", "blue", "mauve"], dtype=object)[rng.integers(0, 4, ROWS)]
    values = rng.choice([-1.0, 1.0], ROWS) if name == "labels" else rng.gamma(2.0, 5.0, ROWS)
    values[5::31] = np.nan
    return values


@pytest.mark.parametrize("name", MODELS)
def test_the_exact_metrics_of_trusted_data_are_scikit_learn_s(
    name: str, data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preprocessing, weights, link = MODELS[name]
    y = targets(name, np.random.default_rng(8))
    pq.write_table(pa.table({**data, "y": y}), tmp_path / "a.parquet", row_group_size=200)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1)
    found = exact_metrics(scan(str(tmp_path)), preprocessing, weights, link)
    scorer = Scorer(preprocessing, weights, link)
    raw = np.column_stack([data["a"], data["b"]])
    truth = np.where(y == -1, 0.0, y) if name == "labels" else y
    truth = np.array([{"red": 0.0, "green": 1.0, "blue": 2.0}.get(label, np.nan) for label in y]) if name == "classes" else truth
    kept = np.isfinite(truth) & np.isfinite(raw).all(axis=1)
    assert 0.6 * ROWS < kept.sum() < ROWS
    truth, predicted = truth[kept], scorer.predict(raw[kept])
    expected = {
        "numbers": {"r2": r2_score, "rmse": root_mean_squared_error, "mae": mean_absolute_error},
        "labels": {"accuracy": accuracy_score, "brier": lambda y, _: brier_score_loss(y, scorer.predict_proba(raw[kept])[:, 1])},
        "classes": {"accuracy": accuracy_score},
    }[name if name in ("labels", "classes") else "numbers"]
    assert found == {metric: pytest.approx(function(truth, predicted), rel=1e-12) for metric, function in expected.items()}


@pytest.mark.parametrize("rows", [0, 3])
def test_of_records_that_cannot_be_judged_there_are_no_metrics(rows: int, tmp_path: Path) -> None:
    preprocessing, weights, link = MODELS["numbers"]
    pq.write_table(pa.table({"a": [1.0] * rows, "b": [1.0] * rows, "y": pa.nulls(rows, pa.float64())}), tmp_path / "a.parquet")
    assert exact_metrics(scan(str(tmp_path)), preprocessing, weights, link) == {}


def test_a_constant_target_has_no_r2(tmp_path: Path) -> None:
    preprocessing, weights, link = MODELS["numbers"]
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1.0, 1.0], "y": [3.0, 3.0]}), tmp_path / "a.parquet")
    assert exact_metrics(scan(str(tmp_path)), preprocessing, weights, link).keys() == {"rmse", "mae"}


def test_a_file_that_changed_is_told_by_name_and_no_value(tmp_path: Path) -> None:
    preprocessing, weights, link = MODELS["numbers"]
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1.0, 1.0], "y": [31337.0, 3.0]}), tmp_path / "a.parquet")
    manifest = scan(str(tmp_path))
    pq.write_table(pa.table({"a": [1.0] * 9, "b": [1.0] * 9, "y": [31337.0] * 9}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="rewritten since the plan") as told:
        exact_metrics(manifest, preprocessing, weights, link)
    assert "31337" not in str(told.value)
    assert told.value.__cause__ is None
