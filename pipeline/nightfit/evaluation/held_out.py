"""The part of the units that is set aside, its queries, what they cost, and how they are asked. Imports the metrics of this package."""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.evaluation.axes import Axis, axes_of
from nightfit.evaluation.errors import ErrorMetrics, change_of_loss
from nightfit.evaluation.estimates import DEVIATIONS, LEVEL, Estimate
from nightfit.evaluation.judging import Judge, judge_of
from nightfit.evaluation.scores import score_metrics
from nightfit.methods.procedure import Outcome
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.links import Link
from nightfit.problem.losses import Loss
from nightfit.queries.base import LEAST_BITS, bits_for
from nightfit.queries.evaluations import ErrorHistogram, LossChange, LossErrors, ScoreHistogram
from nightfit.queries.parts import Division, OfPart
from nightfit.queries.predictions import Predictor
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Array, Part

ERRORS, SCORES, CHANGE = "evaluation: errors", "evaluation: scores", "evaluation: change"

WEIGHTS = (0.45, 0.2, 0.15, 0.2)
"""Shares of the squared weights of an error histogram's axes: most for the loss, whose noise is that of the main metric."""

CHANGE_SHARE = 0.3
"""Of the comparison with an earlier model: a change is small, but so is its own spread."""

NOISE_BITS = 57
"""Noise of a standard deviation of at most 2^57 steps fits in 64 bits with a sum of at most 2^61."""

TOP_OF_LOSS, SPREAD_OF_LOSS = 16.0, 2.0
"""Of squared normal errors, in units of their mean: the last node that matters, and their variance. For what a plan foretells."""

SPREAD_OF_SCORES = 24
"""Bins of a usual score histogram that hold units. For what a plan foretells."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """An earlier release, as far as it is compared: weights of columns bounded by `preprocessing`, and a link."""

    run: str
    weights: tuple[float, ...]
    preprocessing: Preprocessing
    link: Link

    def digest(self) -> str:
        """SHA-256 of what predicts."""
        stored = {"weights": self.weights, "preprocessing": self.preprocessing.as_dict(), "link": self.link.name}
        return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What is judged: weights of columns bounded by `preprocessing`, None where that is the blocks', and the loss with the range that the
    fit paid for, None where there is none.
    """

    weights: Array
    preprocessing: Preprocessing | None
    loss: Loss | None


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
    """

    share: float
    loss: Loss
    shape: Preprocessing
    adjacency: Adjacency
    units: int
    largest_units: int
    mu_squared: float
    earlier: Earlier | None = None

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
            raise ValueError(
                "there is nothing to evaluate: means of columns, scores that are no probabilities, or several classes; use `evaluate: none`"
            )
        return judge

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        """The event of every query, in order; the key of the division does not enter."""
        division = Division(part=self.held_out_part, key=bytes(16))
        return tuple(
            gaussian_event(OfPart(query=query, division=division), label, self.adjacency, self.multiplier(label))
            for label, query in self.queries(self._nowhere).items()
        )

    def multiplier(self, label: str) -> float:
        """sigma in sensitivities: 1 / mu_i with mu_i^2 = share mu^2."""
        both = {SCORES: 1 - CHANGE_SHARE, CHANGE: CHANGE_SHARE} if self.earlier is not None else {}
        return 1 / math.sqrt(self.mu_squared * both.get(label, 1.0))

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the axes of an error histogram."""
        compared = [] if self.earlier is None else [CHANGE_SHARE]
        shares = [share * (1 - sum(compared)) for share in WEIGHTS] + compared
        return tuple(math.sqrt(share) * (1 - 1e-12) for share in shares)

    @property
    def _nowhere(self) -> Predictor:
        """A model that predicts the same for everybody, to price queries with."""
        return Predictor.of(np.zeros(self.shape.columns), self.loss.link, self.shape, self.shape)

    def queries(self, model: Predictor, loss: Loss | None = None) -> dict[str, Any]:
        """Every query about a model, by label. `loss` is the fit's with the range that it paid for."""
        judge = judge_of(loss or self.loss) or self.judge
        earlier = None if self.earlier is None else self._predictor(self.earlier)
        if not judge.labels:
            errors = LossErrors(
                loss=judge.loss,
                model=model,
                constant=self.constant(model),
                zero=-self.shape.target_centre / self.shape.target_scale,
                earlier=earlier,
            )
            return self._with_room({ERRORS: ErrorHistogram(errors=errors, weights=self.weights, bits=bits_for(self.largest_units))})
        made: dict[str, Any] = {SCORES: ScoreHistogram(model=model, bits=bits_for(self.largest_units))}
        if earlier is not None:
            change = LossChange(loss=judge.loss, model=model, earlier=earlier)
            made[CHANGE] = ErrorHistogram(errors=change, weights=(1.0,), bits=bits_for(self.largest_units))
        return self._with_room(made)

    def _with_room(self, queries: dict[str, Any]) -> dict[str, Any]:
        """The queries on grids coarse enough for their noise to stay inside 64 bits."""
        return {label: self._coarse(query, self.multiplier(label)) for label, query in queries.items()}

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

    def _predictor(self, earlier: Earlier) -> Predictor:
        return Predictor.of(np.array(earlier.weights), earlier.link, earlier.preprocessing, self.shape)

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
        loss = outcome.loss or self.loss
        model = Predictor.of(outcome.weights, loss.link, outcome.preprocessing or self.shape, self.shape)
        queries = self.queries(model, loss)
        answers = {label: gate.ask(label, query) for label, query in queries.items()}
        deviation = {event.label: 0.0 if exact else event.sigma * queries[event.label].grid for event in self.events}
        return self._stored(self.found(answers, deviation, model, loss))

    def found(self, answers: dict[str, Array], deviation: dict[str, float], model: Predictor, loss: Loss) -> dict[str, Any]:
        """Metrics, those of a constant, the change and the curves, from noisy answers and the standard deviations of their noise."""
        return self._labels(answers, deviation) if self.judge.labels else self._errors(answers, deviation, model, loss)

    def _errors(self, answers: dict[str, Array], deviation: dict[str, float], model: Predictor, loss: Loss) -> dict[str, Any]:
        axes = axes_of(answers[ERRORS], self.weights, deviation[ERRORS])
        judge = judge_of(loss) or self.judge
        scale = self.shape.target_scale
        return ErrorMetrics(judge=judge, axes=axes, constant=self.constant(model), scale=scale).metrics()

    def _labels(self, answers: dict[str, Array], deviation: dict[str, float]) -> dict[str, Any]:
        found, bins = score_metrics(answers[SCORES], deviation[SCORES])
        if CHANGE not in answers:
            return {**found, "change": None}
        axis: Axis = axes_of(answers[CHANGE], (1.0,), deviation[CHANGE])[0]
        if bins is None:
            return {**found, "change": {"value": 0.0, "low": -1.0, "high": 1.0}}
        return {**found, "change": change_of_loss(axis, bins.units, Estimate(bins.entropy, 0.0))}

    def _stored(self, found: dict[str, Any]) -> dict[str, Any]:
        main = self.judge.main
        return {
            "share": self.share,
            "level": LEVEL,
            "main": main,
            "metrics": found["metrics"],
            "constant": found["constant"],
            "previous": None if self.earlier is None else _compared(self.earlier.run, main, found["metrics"][main], found["change"]),
            "curves": found.get("curves", {"roc": None, "calibration": None}),
            "by": None,
            "checks": {},
        }

    def describe(self) -> dict[str, Any]:
        """The facts that identify it, as plain data."""
        stored: dict[str, Any] = {"share": self.share, "main": self.judge.main}
        return stored if self.earlier is None else {**stored, "compared": {"run": self.earlier.run, "model": self.earlier.digest()}}

    def explain(self, unit: str) -> list[str]:
        """Sentences for a plan: who is held out, what that costs, what will be known."""
        against = "" if self.earlier is None else f" and against the release of {self.earlier.run}"
        return [
            f"Evaluation: {self.share:.0%} of the units are held out by a keyed hash of the {unit} and never fitted on. They are asked how "
            f"good the fit is, against a constant{against}, for as much as the fit may cost: a unit is in one part.",
            f"  To be known: {self.main_in_words} within about {self.expected_half_width:.2g} at {LEVEL:.0%}, if half is explained.",
        ]

    @property
    def main_in_words(self) -> str:
        return "R2" if self.judge.squared else self.judge.main.replace("_", " ")

    @property
    def expected_half_width(self) -> float:
        """Of the main metric's interval, from public facts, if half of the loss is explained and errors are normal.

        For numbers the noise of sums of nodes up to 16 mean squares, root(4 / 3) 16 of a count's noise, for loss and constant; for labels
        that of a log loss of about one half in each seen bin. Sampling adds the spread of squared normal errors.
        """
        units = self.units * self.share
        count = math.sqrt(self.adjacency.contributions_changed)
        if self.judge.labels:
            noise = count * self.multiplier(SCORES) * math.sqrt(2 * SPREAD_OF_SCORES) * 0.5 / units / 0.6
            return DEVIATIONS * math.sqrt(noise**2 + 0.5 / units)
        each = count * self.multiplier(ERRORS) * math.sqrt(4 / 3) * TOP_OF_LOSS / units
        lost, spread = each / self.weights[0], each / self.weights[1]
        sampling = SPREAD_OF_LOSS / units
        return DEVIATIONS * 0.5 * math.sqrt(lost**2 + spread**2 + 2 * sampling)


def _compared(run: str, main: str, now: dict[str, float], change: dict[str, float] | None) -> dict[str, Any]:
    """The comparison with an earlier release: better or worse where the change's interval says so."""
    change = change or {"value": 0.0, "low": -1.0, "high": 1.0}
    better = True if change["low"] > 0 else False if change["high"] < 0 else None
    halves = [math.hypot(now["value"] - now[end], change["value"] - change[end]) for end in ("low", "high")]
    value = now["value"] - change["value"]
    before = {"value": value, "low": value - halves[0], "high": value + halves[1]}
    return {"run": run, "metrics": {main: before}, "change": change, "better": better}
