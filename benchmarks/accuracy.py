"""How accurate the automatic method is on data sets given as Parquet: `python -m benchmarks accuracy --data DIR [--json]`.

A file has responses `y_*`, ids, weights and splits `_*`, and numeric features. Where there is a `_split`, it divides training from
test rows; else one row per person is kept (`_first`, or the first of `_person`) and a quarter of them is held out, anew for each
seed. Nothing about a column is told to the method: no bounds, no scales. Seeded noise: for measuring only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
from sklearn.linear_model import HuberRegressor
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from benchmarks._fits import fitted
from pipeline.losses import Loss
from pipeline.losses.huber import Huber
from pipeline.losses.logistic import Logistic
from pipeline.losses.squared import Squared
from pipeline.types import Array

EPSILONS = (0.25, 1.0, 4.0)
SEEDS = 5


@dataclass(frozen=True, kw_only=True)
class Task:
    """A file, a target, what to leave out, how to fit and score, and the targets at each epsilon."""

    name: str
    file: str
    target: str
    loss: Loss
    metric: str
    wanted: tuple[float, float, float]
    without: str = "\0"


TASKS = (
    Task(name="adult AUC", file="adult", target="y_income_gt_50k", loss=Logistic(), metric="auc", wanted=(0.893, 0.901, 0.903)),
    Task(
        name="MEPS without use_*, R2",
        file="meps_2012_2015",
        target="y_totexp",
        loss=Squared(),
        metric="r2",
        wanted=(0.105, 0.138, 0.150),
        without="use_",
    ),
    Task(name="MEPS with use_*, R2", file="meps_2012_2015", target="y_totexp", loss=Squared(), metric="r2", wanted=(0.38, 0.45, 0.50)),
    Task(
        name="MEPS, Huber loss, MAE",
        file="meps_2012_2015",
        target="y_totexp",
        loss=Huber(),
        metric="mae",
        wanted=(3160, 3160, 3160),
        without="use_",
    ),
    Task(name="blogfeedback R2", file="blogfeedback", target="y_comments_next24h", loss=Squared(), metric="r2", wanted=(0.15, 0.27, 0.32)),
    Task(name="randhie y_mdvis R2", file="randhie", target="y_mdvis", loss=Squared(), metric="r2", wanted=(0.04, 0.097, 0.115)),
)


def read(folder: Path, task: Task) -> tuple[Array, Array, dict[str, Array]]:
    """Features, target, and the columns that are neither."""
    table = parquet.read_table(folder / f"{task.file}.parquet")
    features = [name for name in table.column_names if not name.startswith(("y_", "_", task.without))]
    X = np.column_stack([table[name].to_numpy().astype(np.float64) for name in features])
    others = {name: table[name].to_numpy() for name in table.column_names if name.startswith("_")}
    return X, table[task.target].to_numpy().astype(np.float64), others


def divided(X: Array, y: Array, others: dict[str, Array], seed: int) -> tuple[Array, Array, Array, Array]:
    """Training and test rows."""
    if "_split" in others:
        test = others["_split"] == 1
        return X[~test], y[~test], X[test], y[test]
    kept = np.flatnonzero(others["_first"] == 1) if "_first" in others else np.sort(np.unique(others["_person"], return_index=True)[1])
    order = np.random.default_rng(seed).permutation(kept)
    test_rows, rows = order[: len(order) // 4], order[len(order) // 4 :]
    return X[rows], y[rows], X[test_rows], y[test_rows]


def score(metric: str, y: Array, predicted: Array) -> float:
    return float({"auc": roc_auc_score, "r2": r2_score, "mae": mean_absolute_error}[metric](y, predicted))


def on_files(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Each task at each epsilon: its name, the mean score over seeds, and the target."""
    for task in TASKS:
        if not (folder / f"{task.file}.parquet").exists():
            continue
        X, y, others = read(folder, task)
        for epsilon, wanted in zip(EPSILONS, task.wanted, strict=True):
            scores = []
            for seed in range(SEEDS):
                rows, target, test, test_target = divided(X, y, others, seed)
                scores.append(score(task.metric, test_target, fitted(rows, target, task.loss, epsilon, seed).predict(test)))
            yield f"{task.name}, epsilon {epsilon:g}", float(np.mean(scores)), wanted


def on_heavy_tails() -> Iterator[tuple[str, float, float]]:
    """t(2) noise on Gaussian features, n 1e5, d 50: the error of the coefficients over that of the non-private Huber fit."""
    for epsilon, wanted in zip(EPSILONS, (1.5, 1.05, 1.0), strict=True):
        ratios = []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            X, w = rng.normal(size=(100_000, 50)), rng.normal(size=50)
            w /= np.linalg.norm(w)
            y = X @ w + rng.standard_t(2, len(X))
            plain = HuberRegressor(alpha=0.0).fit(X, y).coef_
            private = fitted(X, y, Huber(), epsilon, seed)
            coef = private.preprocessing.in_original_units(private.outcome.weights)[0]
            ratios.append(np.linalg.norm(coef - w) / np.linalg.norm(plain - w))
        yield f"t(2), error over Huber's, epsilon {epsilon:g}", float(np.mean(ratios)), wanted


def ratios(data: Path | None = None) -> dict[str, float]:
    """Scores by name; the targets stand in the name."""
    found = [*on_heavy_tails(), *(on_files(data) if data is not None else ())]
    return {f"{name} (target {wanted:g})": value for name, value, wanted in found}
