"""How often the 90% intervals of an evaluation hold: ten settings, a thousand simulated evaluations of each.

The held-out units, their exact histograms and the noise are simulated; queries and metrics are those of a refit. The truth is the metric
of the same predictions on two million other units, with errors clipped where the evaluation clipped them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nightfit.evaluation import Earlier, Fitted, HeldOut
from nightfit.evaluation.held_out import CHANGE, ERRORS
from nightfit.privacy.accounting import UNIT, Currency, limit
from nightfit.privacy.events import GaussianEvent
from nightfit.problem.losses import Loss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.squared import Squared
from nightfit.queries.evaluations import NODES, nodes
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Array, Block

REPETITIONS, SHARE, DELTA, TRUTH_UNITS = 1_000, 0.2, 1e-6, 2_000_000
WEIGHTS, EARLIER = (1.0, 0.0), (0.8, 0.1)  # of a standardised score and the intercept; of the model to compare with

Targets = Callable[[np.random.Generator, Array], Array]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A kind of target, given a score z with a mean of `level` and a spread of `spread`."""

    name: str
    loss: Loss
    targets: Targets
    units: int = 20_000
    epsilon: float = 1.0
    level: float = 0.0
    spread: float = 1.0

    def draw(self, rng: np.random.Generator, units: int) -> Block:
        """Units with one column, the score."""
        z = rng.normal(self.level, self.spread, units)
        return Block(np.column_stack([z, np.ones(units)]), self.targets(rng, z), np.arange(units, dtype=np.uint64))


def _labels(rng: np.random.Generator, z: Array) -> Array:
    return np.where(rng.random(len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)


def _amounts(rng: np.random.Generator, z: Array) -> Array:
    return rng.gamma(2.0, np.exp(z) / 2.0)


SETTINGS = (
    Setting(name="numbers, R2 0.5", loss=Squared(), targets=lambda rng, z: z + rng.normal(size=len(z))),
    Setting(name="numbers, R2 0.9", loss=Squared(), targets=lambda rng, z: z + rng.normal(0, 1 / 3, len(z))),
    Setting(name="numbers, R2 0.1", loss=Squared(), targets=lambda rng, z: z + rng.normal(0, 3, len(z))),
    Setting(name="numbers, heavy tails", loss=Squared(), targets=lambda rng, z: z + rng.standard_t(5, len(z))),
    Setting(name="numbers, 100,000 units", loss=Squared(), targets=lambda rng, z: z + rng.normal(size=len(z)), units=100_000),
    Setting(name="quantile 0.7", loss=Quantile(quantile=0.7), targets=lambda rng, z: z + rng.normal(size=len(z))),
    Setting(name="labels, balanced", loss=Logistic(), targets=_labels, spread=1.5),
    Setting(name="labels, one in ten", loss=Logistic(), targets=_labels, level=-2.6, epsilon=2.0),
    Setting(name="counts", loss=Poisson(), targets=lambda rng, z: rng.poisson(np.exp(z)).astype(float), spread=0.7, epsilon=2.0),
    Setting(name="amounts", loss=Gamma(), targets=_amounts, level=3.0),
)

SHAPE = Preprocessing(features=("z",), target="y", centre=(0.0,), scale=(1.0,), reach=(np.inf,), intercept=True)


def held_out(setting: Setting) -> HeldOut:
    """The evaluation of a setting's model, compared with another one."""
    earlier = Earlier(run="earlier", weights=EARLIER, preprocessing=SHAPE, link=setting.loss.link)
    return HeldOut(
        share=SHARE,
        loss=setting.loss,
        shape=SHAPE,
        adjacency=Adjacency.REPLACE_ONE,
        units=setting.units,
        largest_units=TRUTH_UNITS,
        mu_squared=float(limit(setting.epsilon, DELTA, Currency.GAUSSIAN).amount * UNIT),
        earlier=earlier,
    )


@dataclass
class Simulated:
    """A gate that adds normal noise to the exact counts of one block, of the size that was reserved; it keeps the queries."""

    block: Block
    events: dict[str, GaussianEvent]
    rng: np.random.Generator
    noisy: bool = True
    asked: dict[str, Any] = field(default_factory=dict)

    def ask(self, label: str, query: Any) -> Array:
        self.asked[label] = query
        noise = self.rng.normal(0, self.events[label].sigma, query.coordinates) if self.noisy else 0.0
        counts: Array = (query.chunk(self.block) + noise) * query.grid
        return counts


FITTED = Fitted(weights=np.array(WEIGHTS), preprocessing=None, loss=None)


def evaluated(asked: HeldOut, block: Block, rng: np.random.Generator, noisy: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """One evaluation of the units of a block, and the queries that it asked."""
    gate: Any = Simulated(block=block, events={event.label: event for event in asked.events}, rng=rng, noisy=noisy)
    return asked.run(gate, FITTED, exact=not noisy), gate.asked


class Truth:
    """The metrics of very many units, with errors clipped where an evaluation clipped them."""

    def __init__(self, asked: HeldOut, block: Block, rng: np.random.Generator) -> None:
        found, queries = evaluated(replace(asked, units=round(len(block) / SHARE)), block, rng, noisy=False)
        self.labels = asked.judge.labels
        errors = queries[CHANGE if self.labels else ERRORS].errors
        self.values = np.concatenate([errors.of(block.X[i : i + 2**16], block.y[i : i + 2**16]) for i in range(0, len(block), 2**16)])
        self.main, self.size, self.squared = asked.judge.main, asked.judge.size, asked.judge.squared
        self.known: dict[tuple[int, ...], dict[str, float]] = {}
        self.scores = _exact_scores(block.X[:, 0], block.y) if self.labels else {}
        self.entropy = found["constant"]["log_loss"]["value"] if self.labels else 0.0

    def __call__(self, queries: dict[str, Any]) -> dict[str, float]:
        tops = queries[CHANGE if self.labels else ERRORS].tops or (NODES - 1,) * self.values.shape[1]
        if tops not in self.known:
            means = [float(np.clip(v, -nodes()[top], nodes()[top]).mean()) for v, top in zip(self.values.T, tops, strict=True)]
            self.known[tops] = {**self.scores, "change": means[0] / self.entropy} if self.labels else self._of_means(means, tops)
        return self.known[tops]

    def _of_means(self, means: list[float], tops: tuple[int, ...]) -> dict[str, float]:
        lost, constant, within, change = means
        absolute = float(np.sqrt(2 * np.minimum(self.values[:, 0], nodes()[tops[0]])).mean())
        sizes = {"rmse": math.sqrt(2 * lost), "mae": absolute} if self.squared else {self.size: lost}
        return {self.main: 1 - lost / constant, **sizes, "within_10": within, "change": change / constant}


def _exact_scores(z: Array, y: Array) -> dict[str, float]:
    """Metrics of labels from rows: the area by ranks, and means."""
    p, positive = 1 / (1 + np.exp(-z)), y > 0
    ranks = np.argsort(np.argsort(z)) + 1.0
    P, N = int(positive.sum()), int((~positive).sum())
    rate, lost = P / (P + N), float(np.logaddexp(0.0, -y * z).mean())
    return {
        "deviance_explained": 1 + lost / (rate * math.log(rate) + (1 - rate) * math.log(1 - rate)),
        "auc": float((ranks[positive].sum() - P * (P + 1) / 2) / (P * N)),
        "log_loss": lost,
        "brier": float(((p - positive) ** 2).mean()),
        "accuracy": float(((p > 0.5) == positive).mean()),
    }


def coverage(setting: Setting, repetitions: int = REPETITIONS, seed: int = 0) -> dict[str, dict[str, float]]:
    """For each metric how often its interval holds the truth, and its median half-width."""
    rng, asked = np.random.default_rng(seed), held_out(setting)
    truth, found = Truth(asked, setting.draw(rng, TRUTH_UNITS), rng), []
    for _ in range(repetitions):
        told, queries = evaluated(asked, setting.draw(rng, rng.binomial(setting.units, SHARE)), rng)
        previous = told["previous"]["change"]
        found.append({name: (one, truth(queries)[name]) for name, one in {**told["metrics"], "change": previous}.items()})
    names = dict.fromkeys(name for one in found for name in one)
    return {name: _judged([one[name] for one in found if name in one], repetitions) for name in names}


def _judged(found: list[tuple[dict[str, float], float]], repetitions: int) -> dict[str, float]:
    """Of the intervals that were told; noise may hide all but the main metric, whose interval is then everything."""
    return {
        "coverage": float(np.mean([one["low"] <= truth <= one["high"] for one, truth in found])),
        "half width": float(np.median([(one["high"] - one["low"]) / 2 for one, _ in found])),
        "truth": float(np.median([truth for _, truth in found])),
        "told": len(found) / repetitions,
    }


def content() -> dict[str, Any]:
    """Coverage of every metric in every setting."""
    return {"coverage": {setting.name: coverage(setting) for setting in SETTINGS}}


def lines(found: dict[str, Any]) -> list[str]:
    """A table of them."""
    rows = [
        f"{name:24} {metric:20} {one['coverage']:7.1%} {one['truth']:9.4g} +- {one['half width']:<8.2g} {one['told']:6.1%}"
        for name, metrics in found["coverage"].items()
        for metric, one in metrics.items()
    ]
    return [f"{'setting':24} {'metric':20} {'covered':>7} {'truth':>9}    half width  told", *rows]
