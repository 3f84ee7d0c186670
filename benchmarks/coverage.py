"""How often intervals hold what they promise: coverage of the automatic method's 90% and 95% intervals, by simulation.

Data y = x . w + 1 + e: normal or t(3) features, normal, t(3) or lognormal e, two numbers of records, epsilon 1, delta 1e-6; nothing
about the columns is told. A slope is covered if its interval holds w_j; the intercept if it holds 1 + E e. Lognormal noise has a
log-deviation of 1 and is skewed, so its clipped tail moves the intercept: the interval's bias is for that. The last rows are not
promised: correlated features (a common part of 0.95 of their variance), whose second moment noise may hide, and then there are no
intervals ("given" is the share of refits with them); residuals that spread with a feature, which the intervals assume they do not;
labels; and a category of three levels without a reference beside two numbers, which alone have intervals. Seeded noise: for measuring only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._fits import fitted
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.types import Array

LEVELS = (0.9, 0.95)
SIZES = (4_000, 20_000)
COLUMNS, REPEATS, EPSILON = 5, 200, 1.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    rows: int
    features: str = "normal"
    noise: str = "normal"

    @property
    def loss(self) -> Loss:
        return Logistic() if self.noise == "labels" else Squared()

    @property
    def name(self) -> str:
        return f"{self.features} features, {self.noise}{' noise' if self.noise != 'labels' else ''}, {self.rows:,} rows"

    @property
    def intercept(self) -> float:
        return 1.0 + (float(np.exp(0.5)) if self.noise == "lognormal" else 0.0)

    def drawn(self, seed: int) -> tuple[Array, Array, Array]:
        """X, y and w."""
        rng = np.random.default_rng([seed, self.rows])
        w = np.linspace(-1, 1, COLUMNS)
        X = rng.standard_t(3, (self.rows, COLUMNS)) if self.features == "t(3)" else rng.normal(size=(self.rows, COLUMNS))
        if self.features == "levels":  # two numbers, and a category of three levels without a reference
            X[:, 2:] = np.eye(3)[rng.choice(3, size=self.rows, p=[0.5, 0.35, 0.15])]
        if self.features == "correlated":
            X = np.sqrt(0.05) * X + np.sqrt(0.95) * rng.normal(size=(self.rows, 1))
        margin = X @ w + 1.0
        if self.noise == "labels":
            return X, (rng.logistic(size=self.rows) < margin).astype(float), w
        noise = {
            "normal": lambda: rng.normal(size=self.rows),
            "t(3)": lambda: rng.standard_t(3, self.rows),
            "lognormal": lambda: rng.lognormal(0.0, 1.0, self.rows),
            "uneven": lambda: rng.normal(size=self.rows) * (0.5 + np.abs(X[:, 0])),
        }
        return X, margin + noise[self.noise](), w


PROMISED = tuple(
    Setting(rows=rows, features=features, noise=noise)
    for rows in SIZES
    for features in ("normal", "t(3)")
    for noise in ("normal", "t(3)", "lognormal")
)
OTHERS = (
    *(Setting(rows=rows, features="correlated") for rows in SIZES),
    *(Setting(rows=rows, features="levels", noise=noise) for rows in SIZES for noise in ("normal", "labels")),
    *(Setting(rows=rows, noise="uneven") for rows in SIZES),
    *(Setting(rows=rows, noise="labels") for rows in SIZES),
)


def covered(setting: Setting, seed: int, epsilon: float = EPSILON) -> dict[str, Array] | None:
    """Which terms (slopes, then the intercept) each level's interval holds in one simulated refit, and the 95% interval's width; None
    if it gives no intervals.
    """
    X, y, w = setting.drawn(seed)
    found = fitted(X, y, setting.loss, epsilon, seed).outcome.intervals
    if found is None:
        return None
    truth = np.r_[w, setting.intercept]
    held = {f"{level:.0%}": (found.at(level)[:, 0] <= truth) & (truth <= found.at(level)[:, 1]) for level in LEVELS}
    return {**{level: np.where(found.known, each, np.nan) for level, each in held.items()}, "width": found.at(0.95) @ [-1.0, 1.0]}


def measured(setting: Setting, repeats: int = REPEATS) -> dict[str, float]:
    runs = [run for seed in range(repeats) if (run := covered(setting, seed)) is not None]
    if not runs:
        return {**dict.fromkeys(HEAD, float("nan")), "given": 0.0}
    found = {"given": len(runs) / repeats}
    for level in ("90%", "95%"):
        held = np.array([run[level] for run in runs])
        found |= {f"slopes {level}": float(np.nanmean(held[:, :-1])), f"intercept {level}": _mean(held[:, -1])}
    worst = min(_mean(column) for column in np.array([run["95%"][:-1] for run in runs]).T if not np.isnan(column).all())
    return {**found, "worst 95%": worst, "width": float(np.median([np.nanmean(run["width"][:-1]) for run in runs]))}


def _mean(held: Array) -> float:
    """Of the refits in which the term has an interval; NaN without one."""
    return float(np.nanmean(held)) if not np.isnan(held).all() else float("nan")


def content(repeats: int = REPEATS) -> dict[str, Any]:
    return {"repeats": repeats, "coverage": {setting.name: measured(setting, repeats) for setting in (*PROMISED, *OTHERS)}}


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'coverage, ' + str(found['repeats']) + ' repetitions':48}" + "".join(f"{name:>15}" for name in HEAD)
    for name, row in found["coverage"].items():
        yield f"{name:48}" + "".join(f"{row[key]:15.3f}" for key in HEAD)


HEAD = ("slopes 90%", "slopes 95%", "worst 95%", "intercept 90%", "intercept 95%", "width", "given")
