"""How accurate the automatic method is: on generated data, and on data sets given as Parquet.

`python -m benchmarks accuracy [--data DIR] [--json]` prints each score, its target and whether it holds.

A file has responses `y_*`, ids, weights and splits `_*`, and numeric features. Where there is a `_split`, it divides training from
test rows; else one row per person is kept (`_first`, or the first of `_person`) and a quarter of them is held out, anew for each
seed. Nothing about a column is told to the method: no bounds, no scales. Seeded noise: for measuring only. Beside a score on a file
stands that of least squares or a logistic fit of scikit-learn on the same rows, without privacy: what a draw of the split is worth.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._fits import fitted
from nightfit.problem.losses import Loss
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.types import Array

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The mean over seeds, its target, whether less is better, and the score of a fit without privacy if there is one."""

    name: str
    epsilon: float
    value: float
    wanted: float
    less: bool
    plain: float | None = None

    @property
    def holds(self) -> bool:
        return self.value <= self.wanted if self.less else self.value >= self.wanted


def without_privacy(task: Task, split: tuple[Array, Array, Array, Array]) -> float | None:
    """The score of the usual fit of means or labels."""
    rows, target, test, test_target = split
    if task.metric == "r2":
        return score("r2", test_target, LinearRegression().fit(rows, target).predict(test))
    if task.metric == "auc":
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)).fit(rows, target)
        return score("auc", test_target, model.decision_function(test))
    return None


def on_files(folder: Path) -> Iterator[Score]:
    for task in TASKS:
        if not (folder / f"{task.file}.parquet").exists():
            continue
        X, y, others = read(folder, task)
        usual = [without_privacy(task, divided(X, y, others, seed)) for seed in range(SEEDS)]
        plain = float(np.mean([found for found in usual if found is not None])) if None not in usual else None
        for epsilon, wanted in zip(EPSILONS, task.wanted, strict=True):
            scores = []
            for seed in range(SEEDS):
                rows, target, test, test_target = divided(X, y, others, seed)
                scores.append(score(task.metric, test_target, fitted(rows, target, task.loss, epsilon, seed).predict(test)))
            mean = float(np.mean(scores))
            yield Score(name=task.name, epsilon=epsilon, value=mean, wanted=wanted, less=task.metric == "mae", plain=plain)


def coefficients(X: Array, y: Array, epsilon: float, seed: int) -> Array:
    private = fitted(X, y, Huber(), epsilon, seed)
    return private.preprocessing.in_original_units(private.outcome.weights)[0]


def on_heavy_tails() -> Iterator[Score]:
    """t(2) noise on Gaussian features, n 1e5, d 50: the error of the coefficients over that of the non-private Huber fit."""
    errors: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(100_000, 50)), rng.normal(size=50)
        w /= np.linalg.norm(w)
        y = X @ w + rng.standard_t(2, len(X))
        plain = np.linalg.norm(HuberRegressor(alpha=0.0).fit(X, y).coef_ - w)
        for epsilon in EPSILONS:
            errors[epsilon].append(float(np.linalg.norm(coefficients(X, y, epsilon, seed) - w) / plain))
    for epsilon, wanted in zip(EPSILONS, (1.5, 1.05, 1.0), strict=True):
        ratio = float(np.mean(errors[epsilon]))
        yield Score(name="t(2), n 1e5, d 50, over Huber's error", epsilon=epsilon, value=ratio, wanted=wanted, less=True)


def on_sparse_tails() -> Iterator[Score]:
    """t(2) noise, n 1e4, d 1000, ten non-zero coefficients of norm one together: the error of the coefficients."""
    for epsilon, wanted in ((1.0, 0.30), (4.0, 0.20)):
        errors = []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            X, w = rng.normal(size=(10_000, 1_000)), np.zeros(1_000)
            w[rng.choice(1_000, 10, replace=False)] = rng.normal(size=10)
            w /= np.linalg.norm(w)
            errors.append(float(np.linalg.norm(coefficients(X, X @ w + rng.standard_t(2, len(X)), epsilon, seed) - w)))
        mean = float(np.mean(errors))
        yield Score(name="t(2), n 1e4, d 1000, 10 non-zeros, error", epsilon=epsilon, value=mean, wanted=wanted, less=True)


def content(data: Path | None = None) -> dict[str, Any]:
    found = [*on_heavy_tails(), *on_sparse_tails(), *(on_files(data) if data is not None else ())]
    return {"seeds": SEEDS, "scores": [asdict(row) | {"holds": row.holds} for row in found]}


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'mean of ' + str(found['seeds']) + ' seeds':44} epsilon      score     target           without privacy"
    for row in found["scores"]:
        sign = "<=" if row["less"] else ">="
        verdict = "holds" if row["holds"] else "missed"
        plain = "" if row["plain"] is None else f"{row['plain']:.4g}"
        yield f"{row['name']:44} {row['epsilon']:7g} {row['value']:10.4g} {sign} {row['wanted']:<8g} {verdict:8} {plain}".rstrip()
