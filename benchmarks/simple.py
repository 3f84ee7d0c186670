"""`auto` beside two methods that fit on a page, on generated data: what its parts are worth where nothing was tuned.

Both pay for the scales and centres of all columns, the target's too, by the same queries as `auto`, and take what is left of the budget for

- `gradients`: gradient descent on standardised columns, each record's gradient clipped to a norm of one, 50 steps of a half, untuned;
- `moments`: the second moment of features and target, with noise, and the ridge regression that its noise asks for; labels are numbers.

`python -m benchmarks simple` prints scores of `ablation`'s families, of those of `odd` and of correlated indicators, beside those of least
squares or a logistic fit without privacy. Seeded noise: for measuring only.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression
from sklearn.metrics import log_loss

from benchmarks._fits import Memory, auto_of, fitted, unbounded
from benchmarks._generated import Drawn, Family, Random, families
from benchmarks.ablation import scored
from benchmarks.odd import FAMILIES as ODD
from benchmarks.odd import ROWS
from nightfit.methods.auto.column_scales import find_rows
from nightfit.methods.auto.tuning import Tuning
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses import Estimand
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.records.targets import Target
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Array

EPSILONS = (0.25, 1.0, 4.0)
SEEDS = 5
CLAMP = 4.0
"""Standardised columns are clamped here."""
STEPS, STEP, CLIP = 50, 0.5, 1.0
NORMAL_TENTH = 1.645
"""The 0.9 quantile of a normal magnitude, which scales are, in standard deviations."""


def correlated_indicators(rng: Random, n: int) -> Drawn:
    """Thirty indicators that three hidden sizes switch on together, as diagnoses of one illness do."""
    hidden, shares = rng.normal(size=(n, 3)), rng.uniform(-2.5, 0.0, 30)
    X = (hidden @ rng.normal(size=(3, 30)) + 0.7 * rng.normal(size=(n, 30)) + shares > 0).astype(float)
    signal = X @ rng.normal(size=30)
    return X, signal / signal.std() + 1.5 * rng.standard_t(4, n)


def everything() -> Iterator[Family]:
    yield from families()
    for rows in (4_500, 20_000):
        yield Family(draw=correlated_indicators, loss=Squared(), rows=rows)
    for draw in ODD:
        yield Family(draw=draw, loss=Squared(), rows=ROWS)


@dataclass(frozen=True, kw_only=True)
class Standardised:
    """Rows in units of paid scales about paid centres, the target last, and what is left of the budget."""

    rows: Array
    centre: Array
    scale: Array
    mu_squared: float

    @classmethod
    def of(cls, X: Array, y: Array, epsilon: float, seed: int) -> "Standardised":
        """The target is one more column."""
        table = np.column_stack([X, y])
        shape = unbounded(table.shape[1])
        plan = auto_of(shape, len(y), Squared(), epsilon, Tuning(), NoPenalty())
        account = Memory({event.label: event for event in plan.events})
        gate = Gate(account=account, records=ArrayRecords(table, y, shape), noise=SeededNoise(np.random.default_rng(seed)))
        found = find_rows(plan, gate)
        paid = sum(share for label, share in plan.shares.items() if label in account.stored)
        centre, scale = found.centre[:-1], found.scale[:-1] / NORMAL_TENTH
        rows = np.clip((table - centre) / scale, -CLAMP, CLAMP)
        return cls(rows=rows, centre=centre, scale=scale, mu_squared=plan.mu_squared * (1 - paid))

    def predicted(self, w: Array, X: Array) -> Array:
        """Predictions, in units of the target's scale."""
        return np.clip((X - self.centre[:-1]) / self.scale[:-1], -CLAMP, CLAMP) @ w[:-1] + w[-1]


def gradients(at: Standardised, y: Array, logistic: bool, rng: Random) -> Array:
    """Full batches, clipped by the norm of the whole gradient; a replaced record moves a sum by two clips."""
    n = len(at.rows)
    X, target = np.c_[at.rows[:, :-1], np.ones(n)], y if logistic else at.rows[:, -1]
    w, noise = np.zeros(X.shape[1]), 2 * CLIP / n * math.sqrt(STEPS / at.mu_squared)
    norms = np.linalg.norm(X, axis=1)
    for _ in range(STEPS):
        z = X @ w
        r = target - (1 / (1 + np.exp(-z)) if logistic else z)
        r *= np.minimum(1.0, CLIP / np.maximum(np.abs(r) * norms, 1e-12))
        w = w + STEP * (X.T @ r / n + noise * rng.normal(size=len(w)))
    return w


def moments(at: Standardised, y: Array, logistic: bool, rng: Random) -> Array:
    """Rows are scaled back to the norm of a row of ones, and eigenvalues are no less than what noise may have made."""
    n = len(at.rows)
    rows = np.c_[at.rows[:, :-1], np.ones(n), 2 * y - 1 if logistic else at.rows[:, -1]]
    d = rows.shape[1]
    rows *= np.minimum(1.0, math.sqrt(d) / np.linalg.norm(rows, axis=1))[:, None]
    sigma = 2 * d / n / math.sqrt(at.mu_squared) / math.sqrt(2)  # of the upper triangle with off-diagonals times sqrt(2)
    noise = np.triu(rng.normal(size=(d, d)) * sigma, 1)
    M = rows.T @ rows / n + noise + noise.T + np.diag(rng.normal(size=d) * sigma * math.sqrt(2))
    values, vectors = np.linalg.eigh(M[:-1, :-1])
    ridge = 2 * sigma * math.sqrt(d)
    solved: Array = vectors @ ((vectors.T @ M[:-1, -1]) / (np.maximum(values, 0.0) + ridge))
    return solved


METHODS = {"gradients": gradients, "moments": moments}


def without_privacy(family: Family, X: Array, y: Array, test: Array) -> Array:
    size = np.maximum(X.std(axis=0), 1e-9)
    if family.loss.target is Target.LABELS:
        fit = LogisticRegression(max_iter=1_000).fit(X / size, y)
        return np.asarray(fit.decision_function(test / size), dtype=np.float64)
    usual: Any = HuberRegressor(max_iter=500) if family.loss.estimand is Estimand.MEDIAN else LinearRegression()
    return np.asarray(usual.fit(X / size, y).predict(test / size), dtype=np.float64)


def on_family(family: Family, seeds: int) -> dict[str, dict[str, float]]:
    """Mean scores by method and epsilon; of labels the log loss of `auto` too."""
    found: dict[str, dict[str, list[float]]] = {}
    logistic = family.loss.target is Target.LABELS

    def add(name: str, epsilon: float, value: float) -> None:
        found.setdefault(name, {}).setdefault(f"{epsilon:g}", []).append(value)

    for seed in range(seeds):
        X, y, test, target = family.split(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = without_privacy(family, X, y, test)
        for epsilon in EPSILONS:
            margins = fitted(X, y, family.loss, epsilon, seed).predict(test)
            add("auto", epsilon, scored(family, target, margins))
            add("without privacy", epsilon, scored(family, target, plain))
            at = Standardised.of(X, y, epsilon, seed)
            for name, method in METHODS.items():
                z = at.predicted(method(at, y, logistic, np.random.default_rng(seed)), test)
                add(name, epsilon, scored(family, target, z if logistic else z * at.scale[-1] + at.centre[-1]))
            if logistic:
                for name, z in (("auto, log loss", margins), ("without privacy, log loss", plain)):
                    add(name, epsilon, float(log_loss(target, 1 / (1 + np.exp(-z)))))
    return {name: {epsilon: float(np.mean(values)) for epsilon, values in row.items()} for name, row in found.items()}


def content(seeds: int = SEEDS) -> dict[str, Any]:
    return {"seeds": seeds, "families": [{"family": family.name, "scores": on_family(family, seeds)} for family in everything()]}


def lines(found: dict[str, Any]) -> Iterator[str]:
    names = ("auto", *METHODS, "without privacy")
    yield f"{'mean of ' + str(found['seeds']) + ' seeds':28} epsilon" + "".join(f"{name:>17}" for name in names)
    for row in found["families"]:
        for epsilon in map("{:g}".format, EPSILONS):
            scores = [row["scores"][name][epsilon] for name in names]
            worse = "  *" if scores[0] < max(scores[1:-1]) - 0.01 else ""
            yield f"{row['family']:28} {epsilon:>7}" + "".join(f"{score:17.3f}" for score in scores) + worse
