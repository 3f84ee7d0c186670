"""Many columns: first which of them matter, then the automatic method on those. Imports procedure and below."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.prediction import Prediction
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.quantiles import Sizes
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.whitened_coordinates import ColumnScales
from nightfit.methods.procedure import Outcome, Progress
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.queries.base import SumQuery
from nightfit.queries.column_subset import ColumnSubset
from nightfit.queries.histograms import Norm, Residual, SignedResidual
from nightfit.queries.rows import Rows
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

HUNDREDS = 200
MOST_WHITENED = 2_000
SCREENED = 0.75
FEWEST_KEPT = 8
KEPT_NOISE, KEPT_NOISE_OF_LABELS = 0.05, 0.16


def automatic(recipe: AutoFit) -> "AutoFit | ScreenedAutoFit":
    """The recipe, or screening before it: where there are too many columns to whiten, or hundreds whose noise together, k, would hide
    the slopes of a fit of all. Only a truth with few columns in it can be found there.
    """
    crowded = recipe.features >= HUNDREDS and recipe.hopeless
    return ScreenedAutoFit.of(recipe) if crowded or recipe.columns > MOST_WHITENED else recipe


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the rounds so far tell of the columns that are left: E r x_j, added over rounds in proportion to 1 / variance of its noise,
    and their scales; and of all records: the level of predictions, and the residuals r about it.
    """

    moment: Array
    precision: Array
    scale: Array
    level: float
    residuals: Sizes | None

    @classmethod
    def none(cls, features: int) -> "Evidence":
        return cls(moment=np.zeros(features), precision=np.zeros(features), scale=np.ones(features), level=0.0, residuals=None)

    @property
    def relevance(self) -> Array:
        """How much each column moves with the target: |E r x_j| in scales."""
        relevance: Array = np.abs(self.moment) / self.scale
        return relevance

    def with_round(self, gradient: Array, deviation: float, scale: Array) -> "Evidence":
        """With a gradient E r x_j / scale_j of this noise."""
        precision = 1 / (deviation * scale) ** 2
        together = self.precision + precision
        moment = (self.precision * self.moment + precision * gradient * scale) / together
        return replace(self, moment=moment, precision=together, scale=scale)

    def only(self, chosen: tuple[int, ...]) -> "Evidence":
        kept = list(chosen)
        return replace(self, moment=self.moment[kept], precision=self.precision[kept], scale=self.scale[kept])


@dataclass(frozen=True, kw_only=True)
class ScreeningRound(QueryPlan):
    """One gradient of all columns, scaled but not whitened, about the target's mean. The first round asks for that mean and for the
    residuals about it; they are the same for the columns that later rounds have left.
    """

    round: int

    @property
    def moment_comes_along(self) -> bool:
        return False

    @cached_property
    def shares(self) -> dict[str, float]:
        shares = {"scales": self.scale_share, "norms": self.tuning.norms / 2}
        if self.round == 1:
            shares |= {"signed residuals 1": self.residual_share / 2, "target": self.target_share} if self.target_share else {}
            shares |= {"residuals 2": self.residual_share / 2}
        return {label: share for label, share in shares.items() if share > 0} | {"gradient 1": 1 - sum(shares.values())}

    def seen(self, gate: Gate, before: Evidence) -> Evidence:
        """The evidence with that of this round."""
        scale = np.ones(self.columns)
        if self.unbounded:
            scale[list(self.unbounded)] = ColumnScales.of(self, gate, "scales", np.zeros(len(self.unbounded), dtype=bool)).usual
        reach = np.full(self.columns, 2.0)
        reach[list(self.unbounded)] = self.tuning.least_reach
        rows = Rows(centre=np.zeros(self.columns), scale=scale, reach=reach)
        norms = self.sizes(gate, "norms", Norm(rows=rows))
        cap = norms.quantile(0.5) if norms else math.sqrt(self.columns)
        known = self.levelled(gate, before, rows) if self.round == 1 else before
        unit = self.deviation("gradient 1", clip=1.0, cap=cap)
        clip = 1.0 if self.labels or not known.residuals else thresholds.for_medians(known.residuals, self.units, unit, math.inf)
        gradient = self.ask(gate, "gradient 1", rows=rows, rotation=None, weights=self.level_alone(known.level), clip=clip, cap=cap)
        return known.with_round(gradient[: self.features], unit * clip, scale[: self.features])

    def levelled(self, gate: Gate, before: Evidence, rows: Rows) -> Evidence:
        """With the level of predictions, and residuals about it."""
        weights, level, sides = self.level_alone(0.0), 0.0, None
        if "target" in self.shares:
            sides = self.sides(gate, "signed residuals 1", SignedResidual(rows=rows, loss=self.asked_loss, weights=weights))
            noise = self.deviation("target", clip=1.0)
            low, high = (-1.0, 1.0) if self.labels or not sides else thresholds.for_intercepts(sides, noise)
            bounds = {"clip": (high - low) / 2, "middle": (high + low) / 2}
            mean = float(self.ask(gate, "target", rows=rows, weights=weights, **bounds)[0]) + bounds["middle"]
            level = mean * (4.0 if self.labels else 1.0)
        about = Residual(rows=rows, loss=self.asked_loss, weights=self.level_alone(level))
        residuals = self.sizes(gate, "residuals 2", about) or (sides.together if sides else None)
        return replace(before, level=level, residuals=residuals)

    def level_alone(self, level: float) -> Array:
        weights = np.zeros(self.columns)
        weights[self.features :] = level
        return weights


@dataclass(frozen=True, kw_only=True)
class ColumnSubsetGate(Gate):
    """A gate for questions about some columns: it puts them to the gate inside, which charges them."""

    inner: Gate
    columns: tuple[int, ...]

    def ask(self, label: str, query: SumQuery) -> Array:
        return self.inner.ask(label, ColumnSubset(query=query, columns=self.columns))


@dataclass(frozen=True, kw_only=True)
class ScreenedAutoFit:
    """Rounds, each with one gradient of the columns that are left. Half of them are kept (after the last round, `fewest`), where all
    gradients so far together are largest, and the next round has half of the budget: noise grows with the root of the number of columns,
    so all rounds are equally clear. The recipe has the rest for the last columns.

    Keeping the largest of noisy gradients is private hard thresholding: choosing costs nothing once they are paid. How many are kept is
    a public number. Where some columns have public bounds, scales are asked for all, because a question may not tell by its size which were
    chosen.

    Guarantee: `events` is a function of the fields alone, whatever columns are chosen. Broken by
    test_the_screened_recipe_asks_exactly_its_events.
    """

    engine: ClassVar[str] = "auto"
    whole: AutoFit
    fewest: int

    @classmethod
    def of(cls, whole: AutoFit) -> "ScreenedAutoFit":
        """Down to as many columns as the recipe's noise, k = moved columns / (n mu), stays small for, and it can whiten."""
        noise = KEPT_NOISE_OF_LABELS if whole.labels else KEPT_NOISE
        fewest = noise * whole.units * math.sqrt((1 - SCREENED) * whole.mu_squared) / whole.adjacency.contributions_changed
        most = min(whole.features, MOST_WHITENED - 1)
        return cls(whole=whole, fewest=int(np.clip(fewest, min(FEWEST_KEPT, most), most)))

    @property
    def screened(self) -> float:
        """The rounds' share of the budget: less where many columns are kept."""
        return SCREENED * (1 - self.fewest / self.whole.features)

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """How many columns every round leaves: half, but the last as few as are wanted, so that no round is spent on leaving out a few."""
        left, now = [], self.whole.features
        while now > self.fewest:
            half = math.ceil(now / 2)
            now = half if half > 1.5 * self.fewest else self.fewest
            left.append(now)
        return tuple(left)

    @cached_property
    def budgets(self) -> tuple[float, ...]:
        """Each round's mu^2: half of that of the round before."""
        halves = 0.5 ** np.arange(len(self.kept))
        return tuple((self.whole.mu_squared * self.screened * halves / halves.sum()).tolist())

    def screen(self, place: int, chosen: tuple[int, ...]) -> ScreeningRound:
        """The round at this place, of the chosen features."""
        facts = {field.name: getattr(self.whole, field.name) for field in fields(QueryPlan)}
        facts |= {"preprocessing": self.narrowed(chosen), "mu_squared": self.budgets[place], "prefix": f"screening {place + 1}: "}
        return ScreeningRound(**facts, round=place + 1)

    def recipe(self, chosen: tuple[int, ...]) -> AutoFit:
        """What is done with the features that are chosen in the end."""
        start = None if self.whole.start is None else self.whole.start.only(chosen)
        left = self.whole.mu_squared * (1 - self.screened)
        return replace(self.whole, preprocessing=self.narrowed(chosen), mu_squared=left, start=start)

    def narrowed(self, chosen: tuple[int, ...]) -> Preprocessing:
        said = self.whole.preprocessing
        return replace(
            said,
            features=tuple(said.features[j] for j in chosen),
            centre=tuple(said.centre[j] for j in chosen),
            scale=tuple(said.scale[j] for j in chosen),
            reach=() if said.bounded else (math.inf,) * len(chosen),
        )

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        asked = (self.whole.features, *self.kept[:-1])
        screens = (self.screen(place, tuple(range(columns))) for place, columns in enumerate(asked))
        return (*(event for screen in screens for event in screen.events), *self.expected.events)

    @property
    def expected(self) -> AutoFit:
        """The recipe at the end, but for which features are chosen."""
        return self.recipe(tuple(range(self.fewest)))

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return True

    @property
    def prediction(self) -> Prediction:
        """If the columns that matter are chosen."""
        return self.expected.prediction

    def coefficient_noise(self) -> float | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "kept": self.fewest}

    def explain(self) -> list[str]:
        return [
            f"Automatic: {self.whole.features} columns are too many to be fitted together. {self.screened:.0%} of the budget chooses the "
            f"{self.fewest} that move most with the target, in {len(self.kept)} rounds that each leave half of the columns (scaled, not "
            "whitened); the coefficients of others are zero. Of what is left of the budget:",
            *self.expected.explain(),
        ]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        chosen, evidence = tuple(range(self.whole.features)), Evidence.none(self.whole.features)
        clamps = np.ones(self.whole.features)
        for place, kept in enumerate(self.kept):
            evidence = self.screen(place, chosen).seen(self.narrow(gate, chosen), evidence)
            clamps[list(chosen)] = evidence.scale
            largest = tuple(np.sort(np.argsort(evidence.relevance)[::-1][:kept]).tolist())
            chosen, evidence = tuple(chosen[j] for j in largest), evidence.only(largest)
        recipe = self.recipe(chosen)
        outcome = recipe.run(self.narrow(gate, chosen), show)
        return Outcome(
            weights=self.widened(outcome.weights, chosen),
            path=[self.widened(weights, chosen) for weights in outcome.path],
            preprocessing=self.with_bounds(outcome.preprocessing or recipe.preprocessing, chosen, clamps),
        )

    def narrow(self, gate: Gate, chosen: tuple[int, ...]) -> ColumnSubsetGate:
        return ColumnSubsetGate(account=gate.account, records=gate.records, noise=gate.noise, columns=self.columns(chosen), inner=gate)

    def columns(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Of a block: the chosen features', and the intercept's."""
        return (*chosen, self.whole.features) if self.whole.preprocessing.intercept else chosen

    @property
    def preprocessing(self) -> Preprocessing:
        return self.whole.preprocessing

    def widened(self, weights: Array, chosen: tuple[int, ...]) -> Array:
        """Weights of all columns: zero where one was not chosen."""
        wide = np.zeros(self.whole.columns)
        wide[list(self.columns(chosen))] = weights
        return wide

    def with_bounds(self, few: Preprocessing, chosen: tuple[int, ...], clamps: Array) -> Preprocessing:
        """The paid clamp of every column that had none; what was not chosen has its scale from the screening."""
        said = self.whole.preprocessing
        centre, scales, free = np.array(said.centre), np.array(said.scale), list(self.whole.unbounded)
        scales[free] = clamps[free]
        centre[list(chosen)], scales[list(chosen)] = few.centre, few.scale
        return replace(said, centre=tuple(centre.tolist()), scale=tuple(scales.tolist()), reach=())
