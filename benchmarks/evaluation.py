"""How often the 90% intervals of an evaluation hold: ten settings, a thousand simulated evaluations of each.

The held-out units, their exact histograms and the noise are simulated; queries and metrics are those of a refit. The truth is the metric
of the same predictions on four million other units.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.evaluation.held_out import Earlier, HeldOut
from nightfit.privacy.accounting import UNIT, Currency, limit
from nightfit.problem.losses import Loss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.squared import Squared
from nightfit.queries.predictions import Predictor
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Array, Block

REPETITIONS, SHARE, DELTA, TRUTH_UNITS = 1_000, 0.2, 1e-6, 4_000_000
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
    Setting(name="numbers, 400,000 units", loss=Squared(), targets=lambda rng, z: z + rng.normal(size=len(z)), units=400_000),
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


def evaluated(asked: HeldOut, block: Block, deviations: dict[str, float], rng: np.random.Generator) -> dict[str, Any]:
    """One evaluation of the units of a block, with noise of these standard deviations."""
    model = Predictor.of(np.array(WEIGHTS), asked.loss.link, SHAPE, SHAPE)
    queries = asked.queries(model)
    exact = {label: query.chunk(block) * query.grid for label, query in queries.items()}
    answers = {label: counts + rng.normal(0, deviations[label], len(counts)) for label, counts in exact.items()}
    return asked.found(answers, deviations, model, asked.loss)


def coverage(setting: Setting, repetitions: int = REPETITIONS, seed: int = 0) -> dict[str, dict[str, float]]:
    """For each metric how often its interval holds the truth, and its median half-width."""
    rng, asked = np.random.default_rng(seed), held_out(setting)
    queries = asked.queries(Predictor.of(np.array(WEIGHTS), asked.loss.link, SHAPE, SHAPE))
    noise = {event.label: event.sigma * queries[event.label].grid for event in asked.events}
    true = _numbers(evaluated(asked, setting.draw(rng, TRUTH_UNITS), dict.fromkeys(noise, 1e-6), rng))
    found = []
    for _ in range(repetitions):
        units = rng.binomial(setting.units, SHARE)
        found.append(_numbers(evaluated(asked, setting.draw(rng, units), noise, rng)))
    return {name: _judged(true[name]["value"], [one[name] for one in found if name in one], repetitions) for name in true}


def _judged(truth: float, found: list[dict[str, float]], repetitions: int) -> dict[str, float]:
    """Of the intervals that were told; noise may hide all but the main metric, whose interval is then everything."""
    return {
        "coverage": float(np.mean([one["low"] <= truth <= one["high"] for one in found])),
        "half width": float(np.median([(one["high"] - one["low"]) / 2 for one in found])),
        "truth": truth,
        "told": len(found) / repetitions,
    }


def _numbers(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Metrics, the change, and constants that are no definitions, by name."""
    return {**found["metrics"], "change": found["change"]}


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
