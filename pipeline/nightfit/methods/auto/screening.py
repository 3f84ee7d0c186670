"""Many columns: first which of them matter, then `auto` on those. Imports procedure, screening_round and below."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nightfit.methods.auto.constants.screening import (
    FEWEST_KEPT,
    KEPT_NOISE,
    KEPT_NOISE_OF_LABELS,
    LAST_ROUND,
    MANY_COLUMNS,
    MOST_WHITENED,
    SCREENING_SHARE,
)
from nightfit.methods.auto.prediction import Prediction
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.screening_round import Evidence, ScreeningRound
from nightfit.methods.procedure import Outcome, Progress
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.queries.base import SumQuery
from nightfit.queries.column_subset import ColumnSubset
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


def automatic(fit: AutoFit) -> "AutoFit | ScreenedAutoFit":
    """The fit, or screening before it where there are too many columns to whiten, or hundreds whose noise together would hide the slopes of
    a fit of all: only a truth with few columns in it can be found there.
    """
    crowded = fit.features >= MANY_COLUMNS and fit.hopeless and not fit.several_classes
    return ScreenedAutoFit.of(fit) if crowded or fit.columns > MOST_WHITENED else fit


@dataclass(frozen=True, kw_only=True)
class ColumnSubsetGate(Gate):
    """A gate for queries about some columns: it hands them to the gate inside, which charges them."""

    inner: Gate
    columns: tuple[int, ...]

    def ask(self, label: str, query: SumQuery) -> Array:
        return self.inner.ask(label, ColumnSubset(query=query, columns=self.columns))


@dataclass(frozen=True, kw_only=True)
class ScreenedAutoFit:
    """Rounds with one gradient each of the columns that are left, then `auto` on the last ones.

    A round keeps the half of its columns (the last round `fewest`) where all gradients so far together are largest, and has half of the
    budget of the round before: noise grows with the root of the number of columns, so all rounds are equally clear. This is private hard
    thresholding: keeping the largest of noisy gradients costs nothing once they are paid. How many are kept is a public number. Where some
    columns have public bounds, scales are asked for all, so that a query's length does not depend on which were chosen.

    Guarantee: `events` is a function of the fields alone, whatever columns are chosen. Broken by
    test_screened_auto_asks_exactly_its_events.

    Parameters
    ----------
    whole : AutoFit
        The fit of all columns, with the whole budget.
    fewest : int
        How many features are fitted in the end.
    """

    engine: ClassVar[str] = "auto"
    whole: AutoFit
    fewest: int

    @classmethod
    def of(cls, whole: AutoFit) -> "ScreenedAutoFit":
        """Down to as many columns as keep k small, and as can be whitened."""
        noise = KEPT_NOISE_OF_LABELS if whole.labels else KEPT_NOISE
        fewest = noise * whole.units * math.sqrt((1 - SCREENING_SHARE) * whole.mu_squared) / whole.adjacency.contributions_changed
        most = min(whole.features, MOST_WHITENED - 1)
        return cls(whole=whole, fewest=int(np.clip(fewest, min(FEWEST_KEPT, most), most)))

    @property
    def screening_share(self) -> float:
        """The rounds' share of the budget: less where many columns are kept."""
        return SCREENING_SHARE * (1 - self.fewest / self.whole.features)

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """How many features each round leaves: half, but the last as few as are wanted, so that no round is spent on leaving out a few."""
        left, now = [], self.whole.features
        while now > self.fewest:
            half = math.ceil(now / 2)
            now = half if half > LAST_ROUND * self.fewest else self.fewest
            left.append(now)
        return tuple(left)

    @cached_property
    def budgets(self) -> tuple[float, ...]:
        """Each round's mu^2: half of that of the round before."""
        halves = 0.5 ** np.arange(len(self.kept))
        return tuple((self.whole.mu_squared * self.screening_share * halves / halves.sum()).tolist())

    def round_of(self, place: int, chosen: tuple[int, ...]) -> ScreeningRound:
        """The round at this place, of the chosen features."""
        facts = {field.name: getattr(self.whole, field.name) for field in fields(QueryPlan)}
        facts |= {"preprocessing": self.narrowed(chosen), "mu_squared": self.budgets[place], "prefix": f"screening {place + 1}: "}
        return ScreeningRound(**facts, round=place + 1)

    def final_fit(self, chosen: tuple[int, ...]) -> AutoFit:
        """`auto` on the features that are chosen in the end."""
        start = None if self.whole.start is None else self.whole.start.only(chosen)
        left = self.whole.mu_squared * (1 - self.screening_share)
        return replace(self.whole, preprocessing=self.narrowed(chosen), mu_squared=left, start=start)

    def narrowed(self, chosen: tuple[int, ...]) -> Preprocessing:
        """The preprocessing of the chosen features; none has public bounds unless all have."""
        public = self.whole.preprocessing
        return replace(
            public,
            features=tuple(public.features[j] for j in chosen),
            encoding=None,
            centre=tuple(public.centre[j] for j in chosen),
            scale=tuple(public.scale[j] for j in chosen),
            reach=() if public.bounded else (math.inf,) * len(chosen),
        )

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        sizes = (self.whole.features, *self.kept[:-1])
        rounds = (self.round_of(place, tuple(range(columns))) for place, columns in enumerate(sizes))
        return (*(event for screening in rounds for event in screening.events), *self.expected.events)

    @property
    def expected(self) -> AutoFit:
        """The final fit, but for which features are chosen."""
        return self.final_fit(tuple(range(self.fewest)))

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
            f"Automatic: {self.whole.features} columns are too many to be fitted together. {self.screening_share:.0%} of the budget "
            f"chooses the {self.fewest} that move most with the target, in {len(self.kept)} rounds that each keep half of the columns "
            "(scaled, not whitened); the coefficients of the others are zero. Of the rest of the budget:",
            *self.expected.explain(),
        ]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        chosen, evidence = tuple(range(self.whole.features)), Evidence.none(self.whole.features)
        clamps = np.ones(self.whole.features)
        for place, kept in enumerate(self.kept):
            evidence = self.round_of(place, chosen).run(self.gate_of(gate, chosen), evidence)
            clamps[list(chosen)] = evidence.scale
            largest = tuple(np.sort(np.argsort(evidence.relevance)[::-1][:kept]).tolist())
            chosen, evidence = tuple(chosen[j] for j in largest), evidence.only(largest)
        fit = self.final_fit(chosen)
        outcome = fit.run(self.gate_of(gate, chosen), show)
        return Outcome(
            weights=self.widened(outcome.weights, chosen),
            path=[self.widened(weights, chosen) for weights in outcome.path],
            preprocessing=self.with_bounds(outcome.preprocessing or fit.preprocessing, chosen, clamps),
            used=outcome.used,
            labels=outcome.labels,
        )

    def gate_of(self, gate: Gate, chosen: tuple[int, ...]) -> ColumnSubsetGate:
        """The gate for queries about the chosen features."""
        return ColumnSubsetGate(account=gate.account, records=gate.records, noise=gate.noise, columns=self.columns(chosen), inner=gate)

    def columns(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """The columns of a block that are the chosen features, and the intercept's."""
        return (*chosen, self.whole.features) if self.whole.preprocessing.intercept else chosen

    @property
    def preprocessing(self) -> Preprocessing:
        return self.whole.preprocessing

    def widened(self, weights: Array, chosen: tuple[int, ...]) -> Array:
        """The weights of all columns: zero for those that were not chosen."""
        wide = np.zeros(self.whole.columns)
        wide[list(self.columns(chosen))] = weights
        return wide

    def with_bounds(self, few: Preprocessing, chosen: tuple[int, ...], clamps: Array) -> Preprocessing:
        """The paid clamp of every column that had none; a column that was not chosen has its scale from the screening."""
        public = self.whole.preprocessing
        centre, scales, free = np.array(public.centre), np.array(public.scale), list(self.whole.unbounded)
        scales[free] = clamps[free]
        centre[list(chosen)], scales[list(chosen)] = few.centre, few.scale
        return replace(public, centre=tuple(centre.tolist()), scale=tuple(scales.tolist()), reach=(), imputes=True)
