"""How often the 90% intervals of an evaluation hold: thirteen settings, a thousand simulated evaluations of each.

The held-out units, their exact histograms and the noise are simulated; queries and metrics are those of a refit. The truth is the metric
of the same predictions on two million other units, with errors clipped where the evaluation clipped them. Of a calibration curve every
point is one interval.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from nightfit.evaluation import Earlier, Fitted, HeldOut
from nightfit.evaluation.budget import CHANGE, DRIFT, ERRORS, PREDICTIONS
from nightfit.evaluation.calibration import groups_of
from nightfit.privacy.accounting import UNIT, Currency, limit
from nightfit.privacy.events import GaussianEvent
from nightfit.problem.losses import Loss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.losses.squared import Squared
from nightfit.queries.evaluations import LARGEST_SCORE, NODES, nodes
from nightfit.queries.prediction_bins import PREDICTION_BINS
from nightfit.records.columns.category import Category
from nightfit.records.columns.number import Number
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Array, Block

REPETITIONS, SHARE, DELTA, TRUTH_UNITS = 1_000, 0.2, 1e-6, 2_000_000
LEAST = 0.88  # of intervals at 90% that must hold
WEIGHTS, EARLIER = (1.0, 0.0), (0.8, 0.1)  # of a standardised score and the intercept; of the model to compare with
CLASS_WEIGHTS = ((-1.0, 0.0, 1.0), (0.0, 0.5, -0.5))  # of the same columns, for three classes
EARLIER_CLASS_WEIGHTS = ((-0.7, 0.0, 0.7), (0.0, 0.3, -0.3))
NAMES, FEWER = ("a", "b"), 0.3  # two groups, and the share of the second
CALIBRATION_UNITS = 200_000  # whose mean targets are looked up for every evaluation

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
    grouped: bool = False

    def draw(self, rng: np.random.Generator, units: int) -> Block:
        """Units with one column, the score; with groups, whose scores differ, an indicator behind it."""
        group = (rng.random(units) < FEWER).astype(np.float64)
        z = rng.normal(self.level, self.spread, units) + (group if self.grouped else 0.0)
        columns = [z, *([1 - group, group] if self.grouped else []), np.ones(units)]
        return Block(np.column_stack(columns), self.targets(rng, z), np.arange(units, dtype=np.uint64))

    @property
    def classes(self) -> int:
        """How many there are of several classes."""
        return self.loss.classes if isinstance(self.loss, Softmax) else 0

    @property
    def shape(self) -> Preprocessing:
        """How its blocks were made."""
        columns: tuple[tuple[str, Any], ...] = (("z", Number(missing="drop")),)
        columns += (("group", Category(levels=NAMES, reference="other")),) if self.grouped else ()
        encoding = Encoding(columns)
        count = len(encoding.names)
        return Preprocessing(
            features=encoding.names,
            encoding=encoding,
            target="y",
            centre=(0.0,) * count,
            scale=(1.0,) * count,
            reach=(np.inf,) * count,
            intercept=True,
            target_domain=self.loss.target,
        )

    def weights(self, earlier: bool = False) -> tuple[Any, ...]:
        """Of the model, or of the one to compare with; groups have none."""
        if self.classes:
            return EARLIER_CLASS_WEIGHTS if earlier else CLASS_WEIGHTS
        slope, intercept = EARLIER if earlier else WEIGHTS
        return (slope, *([0.0, 0.0] if self.grouped else []), intercept)


def _labels(rng: np.random.Generator, z: Array) -> Array:
    return np.where(rng.random(len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)


def _amounts(rng: np.random.Generator, z: Array) -> Array:
    return rng.gamma(2.0, np.exp(z) / 2.0)


def _classes(rng: np.random.Generator, z: Array) -> Array:
    """Places of classes, with the probabilities that the model states."""
    scores = np.column_stack([z, np.ones(len(z))]) @ np.array(CLASS_WEIGHTS)
    return (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.float64)


SETTINGS = (
    Setting(name="numbers, R2 0.5", loss=Squared(), targets=lambda rng, z: z + rng.normal(size=len(z))),
    Setting(name="numbers, R2 0.9", loss=Squared(), targets=lambda rng, z: z + rng.normal(0, 1 / 3, len(z))),
    Setting(name="numbers, R2 0.1", loss=Squared(), targets=lambda rng, z: z + rng.normal(0, 3, len(z))),
    Setting(name="numbers, heavy tails", loss=Squared(), targets=lambda rng, z: z + rng.standard_t(5, len(z))),
    Setting(name="numbers, 100,000 units", loss=Squared(), targets=lambda rng, z: z + rng.normal(size=len(z)), units=100_000),
    Setting(name="quantile 0.7", loss=Quantile(quantile=0.7), targets=lambda rng, z: z + rng.normal(size=len(z))),
    Setting(name="labels, balanced", loss=Logistic(), targets=_labels, spread=1.5),
    Setting(name="labels, nearly apart", loss=Logistic(), targets=_labels, spread=8.0),
    Setting(name="labels, one in ten", loss=Logistic(), targets=_labels, level=-2.6, epsilon=2.0),
    Setting(name="counts", loss=Poisson(), targets=lambda rng, z: rng.poisson(np.exp(z)).astype(float), spread=0.7, epsilon=2.0),
    Setting(name="amounts", loss=Gamma(), targets=_amounts, level=3.0),
    Setting(name="three classes", loss=Softmax(classes=3), targets=_classes, epsilon=2.0),
    Setting(name="labels, two groups", loss=Logistic(), targets=_labels, epsilon=2.0, grouped=True),
)


def held_out(setting: Setting) -> HeldOut:
    """The evaluation of a setting's model, compared with another one."""
    earlier = Earlier(run="earlier", weights=setting.weights(earlier=True), preprocessing=setting.shape, link=setting.loss.link)
    return HeldOut(
        share=SHARE,
        loss=setting.loss,
        shape=setting.shape,
        adjacency=Adjacency.REPLACE_ONE,
        units=setting.units,
        largest_units=TRUTH_UNITS,
        mu_squared=float(limit(setting.epsilon, DELTA, Currency.GAUSSIAN).amount * UNIT),
        earlier=earlier,
        by="group" if setting.grouped else None,
        checks=True,
        classes=tuple(map(str, range(setting.classes))),
    )


@dataclass
class Simulated:
    """A gate that adds normal noise to the exact counts of one block, of the size that was reserved; it keeps the queries."""

    block: Block
    events: dict[str, GaussianEvent]
    rng: np.random.Generator
    noisy: bool = True
    asked: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Array] = field(default_factory=dict)

    def ask(self, label: str, query: Any) -> Array:
        self.asked[label] = query
        noise = self.rng.normal(0, self.events[label].sigma, query.coordinates) if self.noisy else 0.0
        self.answers[label] = (query.chunk(self.block) + noise) * query.grid
        return self.answers[label]


def evaluated(
    setting: Setting, asked: HeldOut, block: Block, rng: np.random.Generator, noisy: bool = True
) -> tuple[dict[str, Any], Simulated]:
    """One evaluation of the units of a block, and what was asked and answered."""
    gate: Any = Simulated(block=block, events={event.label: event for event in asked.events}, rng=rng, noisy=noisy)
    return asked.run(gate, Fitted(weights=np.array(setting.weights()), preprocessing=None, loss=None), exact=not noisy), gate


def night_after(setting: Setting, asked: HeldOut, rng: np.random.Generator) -> HeldOut:
    """The evaluation of the night after one in which the earlier model was made, of units of the same kind."""
    block = setting.draw(rng, rng.binomial(setting.units, SHARE))
    alone = replace(asked, earlier=None)
    gate: Any = Simulated(block=block, events={event.label: event for event in alone.events}, rng=rng)
    told = alone.run(gate, Fitted(weights=np.array(setting.weights(earlier=True)), preprocessing=None, loss=None))
    assert asked.earlier is not None
    return replace(asked, earlier=replace(asked.earlier, scores=told.get("scores")))


class Truth:
    """The metrics of very many units, with errors clipped where an evaluation clipped them."""

    def __init__(self, setting: Setting, asked: HeldOut, block: Block, rng: np.random.Generator) -> None:
        found, gate = evaluated(setting, replace(asked, units=round(len(block) / SHARE)), block, rng, noisy=False)
        self.scored, self.block = asked.judge.labels or bool(asked.judge.classes), block
        errors = gate.asked[CHANGE if self.scored else ERRORS].errors
        self.values = np.concatenate([errors.of(block.X[i : i + 2**16], block.y[i : i + 2**16]) for i in range(0, len(block), 2**16)])
        self.main, self.size, self.squared = asked.judge.main, asked.judge.size, asked.judge.squared
        self.known: dict[tuple[int, ...], dict[str, float]] = {}
        self.scores = _exact(setting, block) if self.scored else {}
        self.entropy = found["constant"]["log_loss"]["value"] if self.scored else 0.0

    def __call__(self, queries: dict[str, Any]) -> dict[str, float]:
        tops = queries[CHANGE if self.scored else ERRORS].tops or (NODES - 1,) * self.values.shape[1]
        if tops not in self.known:
            means = [float(np.clip(v, -nodes()[top], nodes()[top]).mean()) for v, top in zip(self.values.T, tops, strict=True)]
            self.known[tops] = {**self.scores, "change": means[0] / self.entropy} if self.scored else self._of_means(means, tops)
        return self.known[tops]

    def _of_means(self, means: list[float], tops: tuple[int, ...]) -> dict[str, float]:
        lost, constant, within, change = means
        absolute = float(np.sqrt(2 * np.minimum(self.values[:, 0], nodes()[tops[0]])).mean())
        sizes = {"rmse": math.sqrt(2 * lost), "mae": absolute} if self.squared else {self.size: lost}
        return {self.main: 1 - lost / constant, **sizes, "within_10": within, "change": change / constant}

    def means(self, gate: Simulated) -> list[float]:
        """The mean target of each point of a calibration curve, clipped as it was."""
        query = gate.asked[PREDICTIONS]
        X, y = self.block.X[:CALIBRATION_UNITS], self.block.y[:CALIBRATION_UNITS]
        margin = query.model.margin(X)
        steps = np.floor((np.clip(margin, query.low, query.high) - query.low) * PREDICTION_BINS / (query.high - query.low))
        place = groups_of(gate.answers[PREDICTIONS][:PREDICTION_BINS])[np.minimum(steps, PREDICTION_BINS - 1).astype(np.int64)]
        clipped = np.minimum(y, query.largest(query.model.predicted(margin)))
        return [float(clipped[place == group].mean()) for group in np.unique(place)]


def _exact(setting: Setting, block: Block) -> dict[str, float]:
    """Metrics of labels or classes from rows, and of groups as `metric of group`."""
    if setting.classes:
        return _exact_classes(block.X @ np.array(CLASS_WEIGHTS), block.y.astype(np.int64))
    found = _exact_scores(block.X[:, 0], block.y)
    for place, name in enumerate(NAMES if setting.grouped else ()):
        inside = block.X[:, 1 + place] > 0
        found |= {f"{metric} of {name}": value for metric, value in _exact_scores(block.X[inside, 0], block.y[inside]).items()}
    return found


def _area(z: Array, positive: Array) -> float:
    """The area under a ROC curve, by ranks."""
    ranks = rankdata(z)  # scores that are equal, at the ends, share a rank
    P, N = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - P * (P + 1) / 2) / (P * N))


def _exact_scores(z: Array, y: Array) -> dict[str, float]:
    """Metrics of labels from rows, with log-odds clipped as an evaluation clips them."""
    z, positive = np.clip(z, -LARGEST_SCORE, LARGEST_SCORE), y > 0
    p = 1 / (1 + np.exp(-z))
    rate, lost = float(positive.mean()), float(np.logaddexp(0.0, -y * z).mean())
    return {
        "deviance_explained": 1 + lost / (rate * math.log(rate) + (1 - rate) * math.log(1 - rate)),
        "auc": _area(z, positive),
        "log_loss": lost,
        "brier": float(((p - positive) ** 2).mean()),
        "accuracy": float(((p > 0.5) == positive).mean()),
    }


def _exact_classes(scores: Array, y: Array) -> dict[str, float]:
    """Metrics of several classes from rows."""
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    lost, rates = float(-np.log(p[np.arange(len(y)), y]).mean()), np.bincount(y) / len(y)
    return {
        "deviance_explained": 1 + lost / float(rates @ np.log(rates)),
        "accuracy": float((p.argmax(axis=1) == y).mean()),
        "macro_auc": float(np.mean([_area(p[:, place], y == place) for place in range(p.shape[1])])),
        "log_loss": lost,
    }


Pairs = dict[str, list[tuple[dict[str, float], float]]]


def coverage(setting: Setting, repetitions: int = REPETITIONS, seed: int = 0) -> dict[str, dict[str, float]]:
    """For each metric how often its interval holds the truth, and its median half-width.

    Of a hundred shares of 1,000 repetitions the least lies two or three standard deviations, of a percent each, below its truth by chance
    alone. Where one is below LEAST, as many repetitions are drawn twice more, and all are counted.
    """
    rng, asked = np.random.default_rng(seed), held_out(setting)
    truth, pairs, found = Truth(setting, asked, setting.draw(rng, TRUTH_UNITS), rng), Pairs(), dict[str, dict[str, float]]()
    for before, drawn in ((0, repetitions), (repetitions, 3 * repetitions)):
        for _ in range(drawn - before):
            tonight = night_after(setting, asked, rng)
            told, gate = evaluated(setting, tonight, setting.draw(rng, rng.binomial(setting.units, SHARE)), rng)
            for name, one, true in _intervals(told, gate, truth):
                pairs.setdefault(name, []).append((one, true))
        found = {name: _judged(of, drawn) for name, of in pairs.items()}
        if min(one["coverage"] for one in found.values()) >= LEAST:
            break
    return found


def _intervals(told: dict[str, Any], gate: Simulated, truth: Truth) -> Iterator[tuple[str, dict[str, float], float]]:
    """Name, interval and truth of everything that was told."""
    true = truth(gate.asked)
    yield from ((name, one, true[name]) for name, one in {**told["metrics"], "change": told["previous"]["change"]}.items())
    for group in NAMES if told["by"] is not None else ():
        yield from ((f"{name} of {group}", one, true[f"{name} of {group}"]) for name, one in told["by"]["groups"][group]["metrics"].items())
    if DRIFT in gate.asked:
        found = told["checks"]["drift"]
        yield from (("drift", one, 0.5) for one in (found.values() if "value" not in found else [found]))
    points = told["curves"].get("means") or []
    means = truth.means(gate) if points else []
    if len(points) == len(means):  # else noise hid a point
        yield from (("calibration", one, true) for one, true in zip(points, means, strict=True))


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
