"""The part of the units that is set aside, its queries and what they cost. Imports the metrics of this package."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.evaluation import foretold
from nightfit.evaluation.asking import Asking
from nightfit.evaluation.budget import (
    CHANGE,
    CHECKS,
    DRIFT,
    ERRORS,
    GROUPS,
    PREDICTIONS,
    RANGE,
    SCORES,
    SIZES,
    SIZES_WEIGHTS,
    error_weights,
    roots,
    shares_of,
)
from nightfit.evaluation.judging import Judge, judge_of
from nightfit.evaluation.models import Earlier, Fitted
from nightfit.methods.procedure import Outcome
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.base import LEAST_BITS, bits_for
from nightfit.queries.checks import CheckCounts, checks_of
from nightfit.queries.class_scores import ClassLossChange, ClassPredictions, ClassScores
from nightfit.queries.evaluations import ErrorHistogram, LossChange, LossErrors, LossSizes, ScoreHistogram
from nightfit.queries.parts import Division, OfPart
from nightfit.queries.prediction_bins import LARGEST_RATIO, PredictionBins
from nightfit.queries.predictions import Predictor
from nightfit.queries.weighted_counts import Groups
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Part

NOISE_BITS = 57
"""Noise of a standard deviation of at most 2^57 steps fits in 64 bits with a sum of at most 2^61."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """A share of the units that is never fitted on, and the queries that tell how good a fit is on it.

    Guarantee: fit and evaluation are asked of two parts that share no unit, so a unit pays for one of them (`privacy.accounting.cost`
    adds a removal from each for a unit that changes its part). The queries are functions of the fields alone, and their sensitivity does
    not depend on the model. Broken by test_held_out_units_are_never_fitted_on and test_an_evaluation_asks_exactly_its_events.

    Parameters
    ----------
    share : float
        Of the units, set aside; 1 where all of them are asked and none is fitted on.
    loss : Loss
        Of the fit.
    shape : Preprocessing
        Of the blocks.
    adjacency : Adjacency
        Which data sets are neighbours.
    units : int
        Public number of all units.
    largest_units : int
        Number of units that sums must hold without overflow.
    mu_squared : float
        What the queries may cost together.
    earlier : Earlier or None
        The release to compare with.
    by : str or None
        A category, for each of whose levels the metrics are told too.
    checks : bool
        Whether columns are checked, and predictions compared over nights.
    classes : tuple of str
        Names of several classes.
    """

    share: float
    loss: Loss
    shape: Preprocessing
    adjacency: Adjacency
    units: int
    largest_units: int
    mu_squared: float
    earlier: Earlier | None = None
    by: str | None = None
    checks: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        judge = judge_of(self.loss)
        if judge is not None and len(self.classes) != judge.classes:
            raise ValueError(f"{judge.classes} classes are evaluated, and {len(self.classes)} are named")

    @property
    def edge(self) -> int:
        """Where the fit's part ends and the held-out part begins."""
        return round(2**32 * (1 - self.share))

    @property
    def fit_part(self) -> Part:
        return Part(0, self.edge)

    @property
    def held_out_part(self) -> Part:
        return Part(self.edge, 2**32)

    def divisions(self, key: bytes) -> tuple[Division, Division]:
        """The fit's part and the held-out part, under the data set's key."""
        return Division(part=self.fit_part, key=key), Division(part=self.held_out_part, key=key)

    @property
    def judge(self) -> Judge:
        judge = judge_of(self.loss)
        if judge is None:
            raise ValueError("there is nothing to evaluate: means of columns, or scores that are no probabilities; use `evaluate: none`")
        return judge

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        """The event of every query, in order; the key of the division does not enter."""
        division = Division(part=self.held_out_part, key=bytes(16))
        return tuple(
            gaussian_event(OfPart(query=query, division=division), label, self.adjacency, self.multiplier(label))
            for label, query in self.templates.items()
        )

    def multiplier(self, label: str) -> float:
        """sigma in sensitivities: 1 / mu_i with mu_i^2 = share mu^2."""
        return 1 / math.sqrt(self.mu_squared * self.shares[label])

    @cached_property
    def shares(self) -> dict[str, float]:
        """Of every query's mu^2, in the order in which they are asked."""
        return shares_of(
            self.judge,
            compared=self.earlier is not None,
            grouped=self.by is not None,
            checked=self.checks,
            drifts=self.checks and self.earlier is not None and self.earlier.scores is not None,
        )

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the axes of the error histogram."""
        return error_weights(self.earlier is not None)

    @property
    def size_weights(self) -> tuple[float, ...]:
        """Of the axes of the sizes."""
        if self.judge.labels or self.judge.classes:
            return (1.0,)
        return roots(SIZES_WEIGHTS[2 if self.earlier is None else 3])

    @cached_property
    def groups(self) -> Groups | None:
        """The groups of units that the metrics are told for."""
        return None if self.by is None else Groups.of_category(self.shape, self.by)

    @property
    def nowhere(self) -> Predictor:
        """A model that predicts the same for everybody, to price queries with."""
        weights = np.zeros((self.shape.columns, self.judge.classes) if self.judge.classes else self.shape.columns)
        return Predictor.of(weights, self.loss.link, self.shape, self.shape)

    @cached_property
    def templates(self) -> dict[str, Any]:
        """Every query, of a model that predicts nothing and with public ranges: the model and the ranges change no cost."""
        bits = bits_for(self.largest_units)
        return {label: self._coarse(self._template(label, bits), self.multiplier(label)) for label in self.shares}

    def _template(self, label: str, bits: int) -> Any:
        judge, nowhere = self.judge, self.nowhere
        numbers = not (judge.labels or judge.classes)
        if label in (SIZES, CHANGE):
            errors: Any = self.sizes(nowhere, judge) if numbers else self.change(nowhere, nowhere)
            return ErrorHistogram(errors=errors, weights=self.size_weights if label == SIZES else (1.0,), bits=bits)
        if label == DRIFT and judge.classes:
            return ClassPredictions(model=nowhere, classes=judge.classes, bits=bits)
        if label in (PREDICTIONS, DRIFT):
            targets = label == PREDICTIONS and judge.of_log_means
            floor = LARGEST_RATIO if self.shape.target_domain is Target.COUNTS else 0.0
            return PredictionBins(
                model=nowhere, bits=bits, low=-1.0, high=1.0, margins=not self.loss.scalable, targets=targets, floor=floor
            )
        if label == CHECKS:
            return CheckCounts(checks=checks_of(self.shape, self.shape), bits=bits)
        groups = self.groups if label == GROUPS else None
        if not numbers:
            return self._scores(nowhere, bits, groups)
        compared = label == ERRORS and self.earlier is not None
        found = LossErrors(loss=judge.loss, model=nowhere, constant=0.0, earlier=nowhere if compared else None)
        return ErrorHistogram(errors=found, weights=error_weights(compared), bits=bits, groups=groups)

    def _scores(self, nowhere: Predictor, bits: int, groups: Groups | None) -> Any:
        if self.judge.classes:
            return ClassScores(model=nowhere, classes=self.judge.classes, bits=bits, groups=groups)
        return ScoreHistogram(model=nowhere, bits=bits, groups=groups)

    def sizes(self, model: Predictor, judge: Judge) -> LossSizes:
        """The numbers that say where those of the metrics are clipped."""
        return LossSizes(loss=judge.loss, model=model, constant=self.constant(model), earlier=self.earlier_model)

    def change(self, model: Predictor, earlier: Predictor) -> LossChange | ClassLossChange:
        """How much larger an earlier model's loss of labels or classes is."""
        if self.judge.classes:
            return ClassLossChange(model=model, earlier=earlier)
        return LossChange(loss=self.judge.loss, model=model, earlier=earlier)

    @property
    def earlier_model(self) -> Predictor | None:
        """The earlier release on these blocks."""
        earlier = self.earlier
        return None if earlier is None else Predictor.of(np.array(earlier.weights), earlier.link, earlier.preprocessing, self.shape)

    def _coarse(self, query: Any, multiplier: float) -> Any:
        while query.sensitivity(self.adjacency) * multiplier > 2.0**NOISE_BITS:
            if query.bits <= LEAST_BITS:
                raise ValueError("so much noise does not fit in 64 bits; choose a larger epsilon")
            query = replace(query, bits=query.bits - 1)
        return query

    def constant(self, model: Predictor) -> float:
        """The margin of a constant prediction: that of a record in the middle of every feature."""
        if not self.loss.scalable:
            return model.middle
        return float(model.offset + model.factor * model.link.inverse(np.array([model.middle]))[0])

    def run(self, gate: Gate, outcome: Fitted | Outcome, *, exact: bool = False) -> dict[str, Any]:
        """Ask how good a fit is, and return the evaluation as plain data.

        Parameters
        ----------
        gate : Gate
            Of the held-out part.
        outcome : Fitted or Outcome
            The fit.
        exact : bool
            Whether answers are without noise; intervals are then those of sampling.

        Returns
        -------
        dict
            As a release stores it; `nightfit.release.metrics` reads it.
        """
        fitted = outcome.preprocessing or self.shape
        loss = outcome.loss or self.loss
        model = Predictor.of(outcome.weights, loss.link, fitted, self.shape)
        judge = judge_of(loss) or self.judge
        return Asking(gate=gate, held_out=self, model=model, fitted=fitted, judge=judge, exact=exact).evaluation()

    def describe(self) -> dict[str, Any]:
        """The facts that identify it, as plain data."""
        stored: dict[str, Any] = {"share": self.share, "main": self.judge.main}
        stored |= {"by": self.by} if self.by is not None else {}
        return stored if self.earlier is None else {**stored, "compared": {"run": self.earlier.run, "model": self.earlier.digest()}}

    def explain(self, unit: str) -> list[str]:
        """Sentences for a plan: who is held out, what that costs, what will be known."""
        against = "" if self.earlier is None else f" and against the release of {self.earlier.run}"
        lines = [
            f"Evaluation: {self.share:.0%} of the units are held out by a keyed hash of the {unit} and never fitted on. They are asked how "
            f"good the fit is, against a constant{against}, for as much as the fit may cost: a unit is in one part.",
            *(f"  {label}: {share:.1%} of the budget, {self._meaning(label)}" for label, share in self.shares.items()),
            f"  To be known: {self._foretold}",
        ]
        if self.groups is not None:
            lines.append(f"  The metrics are told for each of {len(self.groups.names)} groups of {self.by} too, with more noise.")
        return lines

    def _meaning(self, label: str) -> str:
        """What a query is for."""
        return {
            SIZES: "where errors are clipped",
            ERRORS: "the errors",
            RANGE: "which scores there are",
            SCORES: "scores by outcome",
            CHANGE: "the losses of both releases",
            PREDICTIONS: "predictions and mean targets" if self.judge.of_log_means else "predictions",
            GROUPS: f"the same by {self.by}",
            DRIFT: "the earlier release's predictions, to compare with those of its night",
            CHECKS: "missing values, unknown levels and values at their bounds",
        }[label]

    @property
    def expected_half_width(self) -> float:
        """Of the main metric's interval, from public facts, if half of the loss is explained; labels and classes are of one size."""
        units, judge = self.units * self.share, self.judge
        if judge.classes:
            return foretold.of_classes(judge.classes, units, self._deviation(SCORES))
        return self.half_width(0.5) if judge.labels else foretold.of_errors(units, self._deviation(ERRORS), self.weights)

    def half_width(self, positives: float) -> float:
        """Of labels, of which this share is positive."""
        return foretold.of_labels(positives, self.units * self.share, self._deviation(SCORES), self._deviation(RANGE))

    def _deviation(self, label: str) -> float:
        """Of the noise of a count."""
        return math.sqrt(self.adjacency.contributions_changed) * self.multiplier(label)

    @property
    def _foretold(self) -> str:
        """What will be known, in a sentence."""
        name, judge = "R2" if self.judge.squared else self.judge.main.replace("_", " "), self.judge
        if not judge.labels or self.expected_half_width >= foretold.HIDDEN:
            return foretold.in_words(name, self.expected_half_width, " and classes are of one size" if judge.classes else "")
        rare, least = self.half_width(foretold.RARE), foretold.seen_units(self._deviation(SCORES))
        known = foretold.in_words(name, self.expected_half_width, " and half of the units are positive")
        told = "nothing" if rare >= foretold.HIDDEN else f"within {rare:.2g}"
        hidden = f"noise hides fewer than about {least:,.0f} positives of {self.units * self.share:,.0f} held-out units"
        return f"{known} If {foretold.RARE:.0%} are: {told}; {hidden}."
