"""Whether the noise that a plan expects has the size of errors where the model is right: ten settings that no constant was fitted on.

The error is the root mean square, over rows, of the difference between the released model's predictions and those of the true one, in
residual standard deviations (median absolute residual over 0.6745) or, for labels, in log-odds; slopes and intercept both count. Where the
model is wrong a fit has the bias of clips, clamps and shrinkage too, which no plan tells. Nothing about the columns is told. Seeded
noise: for measuring only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._fits import auto_of, fitted, unbounded
from nightfit.methods.auto.prediction import Prediction, predicted
from nightfit.methods.auto.tuning import Tuning
from nightfit.problem.losses import Loss
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.types import Array

SEEDS, TEST_ROWS = 10, 2_000


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A linear model: rows, columns, epsilon; how features and noise are drawn; the signal in residual standard deviations."""

    rows: int
    columns: int
    epsilon: float
    loss: str = "squared"
    features: str = "normal"
    noise: str = "normal"
    signal: float = 1.0

    @property
    def name(self) -> str:
        what = "labels" if self.loss == "logistic" else f"{self.noise} noise"
        drawn = f"{self.features} features, {what}, signal {self.signal:g}"
        return f"{self.loss}, {self.rows:,} x {self.columns}, epsilon {self.epsilon:g}, {drawn}"

    @property
    def loss_of(self) -> Loss:
        return {"squared": Squared(), "huber": Huber(), "logistic": Logistic()}[self.loss]

    @property
    def prediction(self) -> Prediction:
        shape = unbounded(self.columns, target=self.loss_of.target)
        return predicted(auto_of(shape, self.rows, self.loss_of, self.epsilon, Tuning(), NoPenalty()))

    def realised(self, seed: int) -> float:
        """One fit's error."""
        rng = np.random.default_rng([seed, self.rows, self.columns])
        w = rng.normal(size=self.columns)
        w *= self.signal / np.linalg.norm(w)
        X = self._drawn(rng, self.rows + TEST_ROWS)
        margin = X @ w + 0.5
        noise = _noise(self.noise, rng, len(X))
        size = 1.0 if self.loss == "logistic" else float(np.median(np.abs(noise))) / 0.6745
        y = (rng.logistic(size=len(X)) < margin).astype(float) if self.loss == "logistic" else margin * size + noise
        fit = fitted(X[: self.rows], y[: self.rows], self.loss_of, self.epsilon, seed)
        off = fit.predict(X[self.rows :]) - margin[self.rows :] * size
        return float(np.sqrt(np.mean(off**2))) / size

    def _drawn(self, rng: np.random.Generator, rows: int) -> Array:
        """Features of variance one."""
        if self.features == "t(4)":
            return rng.standard_t(4, (rows, self.columns)) / np.sqrt(2)
        if self.features == "indicators":
            shares = np.linspace(0.1, 0.5, self.columns)
            return np.asarray((rng.random((rows, self.columns)) < shares) / np.sqrt(shares * (1 - shares)))
        X = rng.normal(size=(rows, self.columns))
        if self.features == "correlated":
            X = np.sqrt(0.5) * X + np.sqrt(0.5) * rng.normal(size=(rows, 1))
        return X


def _noise(kind: str, rng: np.random.Generator, rows: int) -> Array:
    if kind == "t(3)":
        return rng.standard_t(3, rows)
    return rng.lognormal(0, 0.5, rows) - float(np.exp(0.125)) if kind == "lognormal" else rng.normal(size=rows)


UNSEEN = (
    Setting(rows=7_000, columns=6, epsilon=1.8),
    Setting(rows=45_000, columns=22, epsilon=0.6, noise="t(3)"),
    Setting(rows=18_000, columns=11, epsilon=2.2, features="correlated"),
    Setting(rows=35_000, columns=33, epsilon=1.4, features="t(4)", noise="t(3)", signal=1.5),
    Setting(rows=22_000, columns=16, epsilon=0.5, noise="lognormal"),
    Setting(rows=14_000, columns=17, epsilon=1.1, loss="huber", noise="t(3)"),
    Setting(rows=32_000, columns=24, epsilon=0.7, loss="huber", features="indicators"),
    Setting(rows=16_000, columns=8, epsilon=1.3, loss="logistic", signal=1.3),
    Setting(rows=40_000, columns=28, epsilon=0.8, loss="logistic", features="correlated"),
    Setting(rows=12_000, columns=13, epsilon=2.4, loss="logistic", features="indicators"),
)


def content(settings: tuple[Setting, ...] = UNSEEN, seeds: int = SEEDS) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in settings:
        said, errors = setting.prediction, [setting.realised(seed) for seed in range(seeds)]
        found[setting.name] = {"noise": said.error, "errors": sorted(errors), "ratio": float(np.median(errors)) / said.error}
    return {"settings": found}


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'setting':90}{'expected noise':>20}{'error, median (least, most)':>34}{'ratio':>8}"
    for name, row in found["settings"].items():
        errors = row["errors"]
        said, came = f"{row['noise']:.3f}", f"{np.median(errors):.3f} ({errors[0]:.3f}, {errors[-1]:.3f})"
        yield f"{name:90}{said:>20}{came:>34}{row['ratio']:8.2f}"
