"""Many columns: first which of them matter, then the automatic method on those. Imports procedure and below."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.gate import Gate
from pipeline.iteration import Outcome, Progress
from pipeline.preprocessing import Preprocessing
from pipeline.privacy.events import GaussianEvent
from pipeline.query import Query
from pipeline.recipe import thresholds
from pipeline.recipe.frame import ColumnScales
from pipeline.recipe.histogram import Norm, Residual, SignedResidual
from pipeline.recipe.narrow import OfColumns
from pipeline.recipe.prediction import Prediction
from pipeline.recipe.procedure import Recipe
from pipeline.recipe.quantiles import Sides
from pipeline.recipe.questions import Questions
from pipeline.recipe.rows import Rows
from pipeline.types import Array

HUNDREDS = 200
MOST_WHITENED = 2_000
SHARE = 0.3
FITTED = 0.3
KEPT_OF = 3
FEWEST_KEPT = 8
KEPT_NOISE = 0.02


def automatic(recipe: Recipe) -> "Recipe | Screened":
    """The recipe, or screening before it: where there are too many columns to whiten, or hundreds whose noise together, k, would hide
    the slopes of a fit of all. Only a truth with few columns in it can be found there.
    """
    crowded = recipe.features >= HUNDREDS and recipe.hopeless
    return Screened.of(recipe) if crowded or recipe.columns > MOST_WHITENED else recipe


@dataclass(frozen=True, kw_only=True)
class Screen(Questions):
    """One gradient of all columns, scaled but not whitened, about the target's mean."""

    @cached_property
    def shares(self) -> dict[str, float]:
        scales = self.scale_share
        shares = {"scales": scales, "norms": self.tuning.norms / 2}
        shares |= {"signed residuals 1": self.residual_share / 2, "target": self.target_share} if self.target_share else {}
        shares |= {"residuals 2": self.residual_share / 2}
        return {label: share for label, share in shares.items() if share > 0} | {"gradient 1": 1 - sum(shares.values())}

    def relevance(self, gate: Gate) -> tuple[Array, Array]:
        """How much each column moves with the target, in any unit, and the columns' scales."""
        scale = np.ones(self.columns)
        if self.unbounded:
            scale[list(self.unbounded)] = ColumnScales.of(self, gate, "scales", np.zeros(len(self.unbounded), dtype=bool)).usual
        reach = np.full(self.columns, 2.0)
        reach[list(self.unbounded)] = self.tuning.reach_of_labels
        rows = Rows(centre=np.zeros(self.columns), scale=scale, reach=reach)
        norms, weights = self.sizes(gate, "norms", Norm(rows=rows)), np.zeros(self.columns)
        cap = norms.quantile(0.5) if norms else math.sqrt(self.columns)
        sides: Sides | None = None
        if "target" in self.shares:
            sides = self.sides(gate, "signed residuals 1", SignedResidual(rows=rows, loss=self.asked_loss, weights=weights))
            noise = self.deviation("target", clip=1.0)
            low, high = (-1.0, 1.0) if self.labels or not sides else thresholds.for_intercepts(sides, noise)
            bounds = {"clip": (high - low) / 2, "middle": (high + low) / 2}
            mean = float(self.ask(gate, "target", rows=rows, weights=weights, **bounds)[0]) + bounds["middle"]
            weights[-1] = mean * (4.0 if self.labels else 1.0)
        seen = self.sizes(gate, "residuals 2", Residual(rows=rows, loss=self.asked_loss, weights=weights))
        residuals = seen or (sides.together if sides else None)
        unit = self.deviation("gradient 1", clip=1.0, cap=cap)
        clip = 1.0 if self.labels or not residuals else thresholds.for_medians(residuals, self.units, unit, math.inf)
        gradient = self.ask(gate, "gradient 1", rows=rows, rotation=None, weights=weights, clip=clip, cap=cap)
        return np.abs(gradient[: self.features]), scale


@dataclass(frozen=True, kw_only=True)
class Narrow(Gate):
    """A gate for questions about some columns: it puts them to the gate inside, which charges them."""

    inner: Gate
    columns: tuple[int, ...]

    def ask(self, label: str, query: Query) -> Array:
        return self.inner.ask(label, OfColumns(query=query, columns=self.columns))


@dataclass(frozen=True, kw_only=True)
class Screened:
    """A part of the budget for one gradient of all columns; of the columns where it is largest a third is kept, and so on with the rest
    of the budget until few enough are left for the recipe.

    Keeping the largest of a noisy gradient is private hard thresholding: choosing costs nothing once the gradient is paid. Noise grows
    with the root of the number of columns, so every round sees the survivors more clearly. How many are kept is a public number.

    Guarantee: `events` is a function of the fields alone, whatever columns are chosen. Broken by
    test_the_screened_recipe_asks_exactly_its_events.
    """

    whole: Recipe
    fewest: int
    round: int = 1

    @classmethod
    def of(cls, whole: Recipe) -> "Screened":
        """Down to as many columns as the recipe's noise, k = moved columns / (n mu), stays small for."""
        fewest = KEPT_NOISE * whole.units * math.sqrt(FITTED * whole.mu_squared) / whole.adjacency.moved
        return cls(whole=whole, fewest=int(np.clip(fewest, min(FEWEST_KEPT, whole.features), whole.features)))

    @cached_property
    def screen(self) -> Screen:
        facts = {field.name: getattr(self.whole, field.name) for field in fields(Questions)}
        return Screen(**facts | {"mu_squared": self.whole.mu_squared * SHARE, "prefix": f"screening {self.round}: "})

    @property
    def kept(self) -> int:
        return max(self.fewest, math.ceil(self.whole.features / KEPT_OF))

    def following(self, chosen: tuple[int, ...]) -> "Recipe | Screened":
        """What is done with the chosen features."""
        said = self.whole.preprocessing
        few = replace(
            said,
            features=tuple(said.features[j] for j in chosen),
            centre=tuple(said.centre[j] for j in chosen),
            scale=tuple(said.scale[j] for j in chosen),
            reach=tuple(said.reach[j] for j in chosen) if said.reach else (),
        )
        start = None if self.whole.start is None else self.whole.start.only(chosen)
        narrow = replace(self.whole, preprocessing=few, mu_squared=self.whole.mu_squared * (1 - SHARE), start=start)
        return narrow if self.kept == self.fewest else Screened(whole=narrow, fewest=self.fewest, round=self.round + 1)

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        return (*self.screen.events, *self.following(tuple(range(self.kept))).events)

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return True

    @property
    def prediction(self) -> Prediction:
        """If the columns that matter are chosen."""
        return self.following(tuple(range(self.kept))).prediction

    def coefficient_noise(self) -> float | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {**self.whole.describe(), "kept": self.fewest}

    def explain(self) -> list[str]:
        return [
            f"Automatic: {self.whole.features} columns are too many to be fitted together. {SHARE:.0%} of the budget left chooses the "
            f"{self.kept} that move most with the target (columns are scaled, not whitened); the coefficients of others are zero.",
            *self.following(tuple(range(self.kept))).explain(),
        ]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        relevance, scale = self.screen.relevance(gate)
        chosen = tuple(np.sort(np.argsort(relevance)[::-1][: self.kept]).tolist())
        columns = (*chosen, self.whole.features) if self.whole.preprocessing.intercept else chosen
        following = self.following(chosen)
        outcome = following.run(Narrow(account=gate.account, records=gate.records, noise=gate.noise, columns=columns, inner=gate), show)
        few = outcome.preprocessing or following.preprocessing
        return Outcome(
            weights=self.widened(outcome.weights, columns),
            path=[self.widened(weights, columns) for weights in outcome.path],
            preprocessing=self.with_bounds(few, chosen, scale),
        )

    @property
    def preprocessing(self) -> Preprocessing:
        return self.whole.preprocessing

    def widened(self, weights: Array, columns: tuple[int, ...]) -> Array:
        """Weights of all columns: zero where one was not chosen."""
        wide = np.zeros(self.whole.columns)
        wide[list(columns)] = weights
        return wide

    def with_bounds(self, few: Preprocessing, chosen: tuple[int, ...], scale: Array) -> Preprocessing:
        """The paid clamp of every column that had none; what was not chosen has its scale from the screening."""
        said = self.whole.preprocessing
        centre, scales, free = np.array(said.centre), np.array(said.scale), list(self.whole.unbounded)
        scales[free] = scale[free]
        centre[list(chosen)], scales[list(chosen)] = few.centre, few.scale
        return replace(said, centre=tuple(centre.tolist()), scale=tuple(scales.tolist()), reach=())
