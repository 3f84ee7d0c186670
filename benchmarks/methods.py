"""Every named method beside each other: by default, by its theorem, at its best of a small search, `auto`, without privacy, and zero.

The error of a fit is ||S (w - w*)|| / ||S w*||, w* the true slopes and S the columns' standard deviations: zero weights have 1. Columns
have no public bounds, so scales are paid for. The median of three seeds is shown.
"""

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from benchmarks._fits import Memory, unbounded
from benchmarks._generated import correlated
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Method, Specification, method_named, penalty_of
from nightfit.privacy.accounting import Currency
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Adjacency, Array

Random = np.random.Generator
ROWS, SEEDS = 100_000, (1, 2, 3)
MOST_ROWS = 10**7


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Generated records, and what is fitted to them."""

    draw: Callable[[Random, int], tuple[Array, Array, Array]]
    rows: int = ROWS
    epsilon: float = 1.0
    loss: Loss = Squared()  # noqa: RUF009 - a frozen value
    penalty: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return self.draw.__name__


def slopes(rng: Random, columns: int) -> Array:
    return rng.normal(size=columns) / math.sqrt(columns)


def lognormal(rng: Random, n: int) -> tuple[Array, Array, Array]:
    X, w = rng.uniform(-1, 1, (n, 10)), slopes(rng, 10)
    return X, X @ w + 0.5 * (rng.lognormal(0, 1, n) - math.exp(0.5)), w


def lasso(rng: Random, n: int) -> tuple[Array, Array, Array]:
    """As Xie et al. (2023): a few slopes of one, t(2) noise."""
    X, w = rng.normal(size=(n, 20)), np.r_[np.ones(10), np.zeros(10)]
    return X, X @ w + rng.standard_t(2, n), w


def student(rng: Random, n: int) -> tuple[Array, Array, Array]:
    """Heavy tails in columns and noise, columns of many sizes far from zero."""
    size = 10 ** rng.uniform(-2, 2, 10)
    X, w = (rng.standard_t(4, (n, 10)) + rng.uniform(-3, 3, 10)) * size, slopes(rng, 10) / size
    return X, 20 + X @ w + rng.standard_t(2.5, n), w


def logistic(rng: Random, n: int) -> tuple[Array, Array, Array]:
    X, w = rng.normal(size=(n, 10)), 3 * slopes(rng, 10)
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ w))).astype(float), w


def sparse(rng: Random, n: int) -> tuple[Array, Array, Array]:
    X, w = rng.normal(size=(n, 20)), np.zeros(20)
    w[rng.choice(20, 3, replace=False)] = rng.choice([-1.0, 1.0], 3)
    return X, X @ w + rng.standard_t(3, n), w


def groups(rng: Random, n: int) -> tuple[Array, Array, Array]:
    X, w = rng.normal(size=(n, 20)), np.zeros(20)
    w[:4] = slopes(rng, 4) * 2
    return X, X @ w + rng.standard_t(3, n), w


def collinear(rng: Random, n: int) -> tuple[Array, Array, Array]:
    X, w = correlated(rng, n, 15, 1.0), slopes(rng, 15)
    return X, 3 + X @ w + rng.standard_t(3, n), w


def wide(rng: Random, n: int) -> tuple[Array, Array, Array]:
    """Many columns, all of which matter a little."""
    X, w = rng.normal(size=(n, 60)), slopes(rng, 60)
    return X, X @ w + rng.standard_t(3, n), w


def rare_indicators(rng: Random, n: int) -> tuple[Array, Array, Array]:
    """Indicators of one record in 50 to one in two, as categories are, with a few sizes that are skewed."""
    X = np.hstack([rng.random((n, 10)) < np.geomspace(0.02, 0.5, 10), rng.lognormal(0, 0.8, (n, 4))])
    w = slopes(rng, 14) / X.std(axis=0)
    return X, 2 + X @ w + rng.laplace(0, 0.7, n), w


def rare_labels(rng: Random, n: int) -> tuple[Array, Array, Array]:
    """One label in ten."""
    X, w = rng.normal(size=(n, 10)), slopes(rng, 10)
    return X, (rng.random(n) < 1 / (1 + np.exp(2.6 - X @ w))).astype(float), w


GROUP_LASSO = (("group_lasso", {"groups": [j // 4 for j in range(20)], "weight": 0.02}),)
SETTINGS = (
    Setting(draw=lognormal),
    Setting(draw=lasso, rows=10_000, epsilon=0.5, penalty=(("l1", 0.01),)),
    Setting(draw=student),
    Setting(draw=logistic, loss=Logistic()),
    Setting(draw=sparse),
    Setting(draw=groups, penalty=GROUP_LASSO),
    Setting(draw=collinear),
    Setting(draw=wide),
    Setting(draw=rare_indicators),
    Setting(draw=rare_labels, loss=Logistic()),
)
METHODS = (
    "clipped",
    "coordinate",
    "soft",
    "smoothed",
    "threshold",
    "ball",
    "range_ball",
    "median_of_means",
    "trimmed",
    "proximal_sgd",
    "phased",
    "private_lasso",
    "frank_wolfe",
    "hard_thresholding",
    "sample_aggregate",
    "vertex",
)
BALLS = {"private_lasso": "l1_ball", "frank_wolfe": "l1_ball", "vertex": "l1_ball", "sample_aggregate": "l2_ball"}
SCALE = 1.645  # the 0.9 quantile of a normal magnitude: slopes of scaled columns are about so many times as large


def specification(setting: Setting, name: str, method: Method, w: Array, X: Array, rows: int | None = None) -> Specification:
    """A user's specification of this method; a ball has twice the true radius, and a sparsity the true number."""
    penalty = dict(setting.penalty)
    if name in BALLS:
        size = X.std(axis=0) * SCALE * w
        penalty = {BALLS[name]: float(2 * np.linalg.norm(size, 1 if BALLS[name] == "l1_ball" else 2))}
    if name == "hard_thresholding":
        penalty = {"sparsity": min(int((w != 0).sum()), len(w) - 1)}
    adjacency = Adjacency.ZERO_OUT if name == "proximal_sgd" else Adjacency.REPLACE_ONE
    return Specification(
        name="m",
        data_set="d",
        preprocessing=unbounded(X.shape[1], target=setting.loss.target),
        budget=Budget(
            epsilon=setting.epsilon,
            delta=min(1e-6, 0.1 / (rows or len(X))),
            adjacency=adjacency,
            currency=Currency.GAUSSIAN if name == "auto" else Currency.ZCDP,
        ),
        loss=setting.loss,
        penalty=penalty_of(penalty),
        method=method,
    )


def error_of(spec: Specification, X: Array, y: Array, w: Array, seed: int) -> float:
    """The error of one fit with seeded noise and no ledger."""
    plan = make(spec, len(y))
    account = Memory({event.label: event for event in plan.events})
    records = ArrayRecords(X, y, spec.preprocessing)
    outcome = plan.procedure.run(Gate(account=account, records=records, noise=SeededNoise(np.random.default_rng(seed))), lambda _: None)
    coef, _ = (outcome.preprocessing or spec.preprocessing).in_original_units(outcome.weights)
    return relative(coef, w, X)


def relative(coef: Array, w: Array, X: Array) -> float:
    size = X.std(axis=0)
    return float(np.linalg.norm(size * (coef - w)) / np.linalg.norm(size * w))


def median_error(setting: Setting, name: str, **changed: Any) -> float:
    """The median over seeds; infinite where the plan is refused."""
    errors = []
    for seed in SEEDS:
        X, y, w = setting.draw(np.random.default_rng(seed), setting.rows)
        try:
            errors.append(error_of(specification(setting, name, replace(method_named(name), **changed), w, X), X, y, w, seed))
        except PlanError:
            return math.inf
    return statistics.median(errors)


def without_privacy(setting: Setting) -> float:
    errors = []
    for seed in SEEDS:
        X, y, w = setting.draw(np.random.default_rng(seed), setting.rows)
        plain = LogisticRegression(C=np.inf) if setting.loss.target.value == "labels" else LinearRegression()
        errors.append(relative(plain.fit(X, y).coef_.ravel(), w, X))
    return statistics.median(errors)


def searched(setting: Setting, name: str) -> float:
    """The least error of a few numbers of steps."""
    steps = (None,) if name == "sample_aggregate" else (8, 20, 40)
    return min(median_error(setting, name, steps=count) for count in steps)


def needed_rows(setting: Setting) -> float:
    """The rows at which `sample_aggregate` would have half the error of zero weights, if its blocks are large enough to agree.

    Its noise is S / shift in each of d coordinates, and S is about twice the distance within which the most central minimiser has half of
    the others, the root of tr(H^-1 V H^-1) m / n for m blocks, H and V the curvature and the gradients' covariance at the true slopes.
    So n = 4 d m tr(H^-1 V H^-1) / (shift error ||w||)^2.
    """
    X, y, w = setting.draw(np.random.default_rng(SEEDS[0]), ROWS)
    size = np.quantile(np.abs(X - X.mean(axis=0)), 0.9, axis=0)
    rows = np.column_stack([(X - X.mean(axis=0)) / size, np.ones(ROWS)])
    z = X @ w + (y.mean() - X.mean(axis=0) @ w)
    labels = setting.loss.target.value == "labels"
    slope, weight = (1 / (1 + np.exp(-z)) - y, np.exp(-np.abs(z)) / (1 + np.exp(-np.abs(z))) ** 2) if labels else (z - y, np.ones(ROWS))
    inverse = np.linalg.inv((rows * weight[:, None]).T @ rows / ROWS)
    spread = float(np.trace(inverse @ ((rows * slope[:, None] ** 2).T @ rows / ROWS) @ inverse))
    loop: Any = make(specification(setting, "sample_aggregate", method_named("sample_aggregate"), w, X, MOST_ROWS), MOST_ROWS).procedure
    allowed = loop.allowances[0]
    made = loop.estimator.aggregation(loop.public_point(0), allowed.epsilon, allowed.delta)
    return 4 * rows.shape[1] * made.blocks * spread / (made.shift * 0.5 * float(np.linalg.norm(size * w))) ** 2


def ratios() -> dict[str, float]:
    return dict(measured())


def measured() -> Iterator[tuple[str, float]]:
    for setting in SETTINGS:
        yield f"{setting.name}: without privacy", without_privacy(setting)
        yield f"{setting.name}: auto", median_error(setting, "auto")
        yield f"{setting.name}: rows that sample_aggregate needs for half the error of zero", needed_rows(setting)
        for name in METHODS:
            if name == "private_lasso" and setting.loss != Squared():
                continue
            for what, error in (
                ("default", median_error(setting, name)),
                ("theory", median_error(setting, name, schedule="theory")),
                ("best of a search", searched(setting, name)),
            ):
                yield f"{setting.name}: {name}, {what}", error
