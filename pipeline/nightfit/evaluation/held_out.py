"""The part of the units that is set aside, its queries, what they cost, and how they are asked. Imports the metrics of this package."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.evaluation.axes import Axis, axes_of
from nightfit.evaluation.errors import ErrorMetrics, change_of_loss, hidden, sizes_of
from nightfit.evaluation.estimates import DEVIATIONS, LEVEL, Estimate
from nightfit.evaluation.judging import Judge, judge_of
from nightfit.evaluation.models import HIDDEN, Earlier, Fitted, compared
from nightfit.evaluation.scores import bins_of, hidden_scores, score_range
from nightfit.methods.procedure import Outcome
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.base import LEAST_BITS, bits_for
from nightfit.queries.evaluations import NODES, ErrorHistogram, LossChange, LossErrors, LossSizes, ScoreHistogram
from nightfit.queries.parts import Division, OfPart
from nightfit.queries.predictions import Predictor
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Array, Part

SIZES, ERRORS, RANGE, SCORES, CHANGE = (f"evaluation: {of}" for of in ("sizes", "errors", "range", "scores", "change"))

SIZES_SHARE, RANGE_SHARE = 0.15, 0.1
"""Of the budget, for where numbers are clipped and which scores there are. Asked apart: a range that is read from the very answer whose
sums it bounds would choose what noise made large, and intervals would hold too rarely."""

CHANGE_SHARE = 0.3
"""Of the rest, for the comparison with an earlier model: a change is small, but so is its own spread."""

SIZES_WEIGHTS = {2: (0.6, 0.4), 3: (0.45, 0.25, 0.3)}
"""Squared weights of losses, targets and the change among the sizes."""

ERROR_WEIGHTS = (0.55, 0.25, 0.2)
"""Squared weights of losses, losses of the constant and predictions within a tenth: most for the loss, whose noise is that of the main
metric."""

NOISE_BITS = 57
"""Noise of a standard deviation of at most 2^57 steps fits in 64 bits with a sum of at most 2^61."""

TOP_OF_LOSS, SPREAD_OF_LOSS = 16.0, 2.0
"""Of squared normal errors, in units of their mean: the last node that matters, and their variance. For what a plan foretells."""

SPREAD_OF_SCORES = 24
"""Bins of a usual score histogram that hold units. For what a plan foretells."""


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
            for label, query in self.templates.items()
        )

    def multiplier(self, label: str) -> float:
        """sigma in sensitivities: 1 / mu_i with mu_i^2 = share mu^2."""
        return 1 / math.sqrt(self.mu_squared * self.shares[label])

    @property
    def shares(self) -> dict[str, float]:
        """Of every query's mu^2, in the order in which they are asked."""
        if not self.judge.labels:
            return {SIZES: SIZES_SHARE, ERRORS: 1 - SIZES_SHARE}
        change = CHANGE_SHARE * (1 - RANGE_SHARE) if self.earlier is not None else 0.0
        compared = {SIZES: change * SIZES_SHARE, CHANGE: change * (1 - SIZES_SHARE)} if self.earlier is not None else {}
        return {RANGE: RANGE_SHARE, SCORES: 1 - RANGE_SHARE - change, **compared}

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the axes of the error histogram."""
        compared = [] if self.earlier is None else [CHANGE_SHARE]
        return _roots([share * (1 - sum(compared)) for share in ERROR_WEIGHTS] + compared)

    @property
    def size_weights(self) -> tuple[float, ...]:
        """Of the axes of the sizes."""
        if self.judge.labels:
            return (1.0,)
        return _roots(SIZES_WEIGHTS[2 if self.earlier is None else 3])

    @property
    def _nowhere(self) -> Predictor:
        """A model that predicts the same for everybody, to price queries with."""
        return Predictor.of(np.zeros(self.shape.columns), self.loss.link, self.shape, self.shape)

    @cached_property
    def templates(self) -> dict[str, Any]:
        """Every query, of a model that predicts nothing and with public ranges: the model and the ranges change no cost."""
        bits, nowhere, judge = bits_for(self.largest_units), self._nowhere, self.judge
        change: Any = LossChange(loss=judge.loss, model=nowhere, earlier=nowhere)
        made: dict[str, Any] = {
            SIZES: ErrorHistogram(errors=change if judge.labels else self._sizes(nowhere, judge), weights=self.size_weights, bits=bits),
            RANGE: ScoreHistogram(model=nowhere, bits=bits),
            SCORES: ScoreHistogram(model=nowhere, bits=bits),
            CHANGE: ErrorHistogram(errors=change, weights=(1.0,), bits=bits),
        }
        if ERRORS in self.shares:
            errors = LossErrors(loss=judge.loss, model=nowhere, constant=0.0, earlier=None if self.earlier is None else nowhere)
            made[ERRORS] = ErrorHistogram(errors=errors, weights=self.weights, bits=bits)
        return {label: self._coarse(made[label], self.multiplier(label)) for label in self.shares}

    def _sizes(self, model: Predictor, judge: Judge) -> LossSizes:
        return LossSizes(loss=judge.loss, model=model, constant=self.constant(model), earlier=self._earlier)

    @property
    def _earlier(self) -> Predictor | None:
        return None if self.earlier is None else self._predictor(self.earlier)

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
        asking = _Asking(gate=gate, held_out=self, exact=exact)
        return self._stored(self._labels(asking, model) if self.judge.labels else self._errors(asking, model, judge_of(loss) or self.judge))

    def _errors(self, asking: "_Asking", model: Predictor, judge: Judge) -> dict[str, Any]:
        first = self._sizes(model, judge)
        sizes = sizes_of(asking.axes(SIZES, errors=first), judge, first.constant, self.units * self.share)
        errors = LossErrors(
            loss=judge.loss,
            model=model,
            constant=sizes.constant if sizes else first.constant,
            zero=-self.shape.target_centre / self.shape.target_scale,
            earlier=self._earlier,
        )
        axes = asking.axes(ERRORS, errors=errors, tops=sizes.tops if sizes else ())
        if sizes is None:
            return hidden(judge)
        return ErrorMetrics(judge=judge, axes=axes, sizes=sizes, scale=self.shape.target_scale).metrics()

    def _labels(self, asking: "_Asking", model: Predictor) -> dict[str, Any]:
        low, high = score_range(asking.answer(RANGE, model=model), asking.deviation(RANGE))
        bins = bins_of(asking.answer(SCORES, model=model, low=low, high=high), low, high, asking.deviation(SCORES))
        found = hidden_scores() if bins is None else bins.metrics()
        if self._earlier is None:
            return {**found, "change": None}
        change = LossChange(loss=self.judge.loss, model=model, earlier=self._earlier)
        top = asking.axes(SIZES, errors=change)[0].top(True)
        axis = asking.axes(CHANGE, errors=change, tops=(NODES - 1 if top is None else top,))[0]
        if bins is None or top is None:
            return {**found, "change": HIDDEN}
        return {**found, "change": change_of_loss(axis, bins.units, top, Estimate(bins.entropy, 0.0))}

    def _stored(self, found: dict[str, Any]) -> dict[str, Any]:
        main = self.judge.main
        return {
            "share": self.share,
            "level": LEVEL,
            "main": main,
            "metrics": found["metrics"],
            "constant": found["constant"],
            "previous": None if self.earlier is None else compared(self.earlier.run, main, found["metrics"][main], found["change"]),
            "curves": found.get("curves", {"roc": None, "calibration": None}),
            "by": None,
            "checks": {**self._complete(found.get("counted")), **found.get("checks", {})},
        }

    def _complete(self, counted: Estimate | None) -> dict[str, dict[str, float]]:
        """The share of held-out units that could be judged. How many units the key holds out varies by chance: units share (1 - share)."""
        if counted is None:
            return {}
        expected = self.units * self.share
        return {"complete": Estimate(counted.value, counted.variance + expected * (1 - self.share)).scaled(1 / expected).interval(0.0, 1.0)}

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


@dataclass(frozen=True, kw_only=True)
class _Asking:
    """Asks the queries of an evaluation once their models and ranges are known."""

    gate: Gate
    held_out: HeldOut
    exact: bool

    def answer(self, label: str, **known: Any) -> Array:
        """Noisy counts."""
        return self.gate.ask(label, replace(self.held_out.templates[label], **known))

    def deviation(self, label: str) -> float:
        """Standard deviation of the noise of a count."""
        event = next(event for event in self.held_out.events if event.label == label)
        return 0.0 if self.exact else float(event.sigma * self.held_out.templates[label].grid)

    def axes(self, label: str, **known: Any) -> list[Axis]:
        """The axes of an error histogram."""
        return axes_of(self.answer(label, **known), self.held_out.templates[label].weights, self.deviation(label))


def _roots(shares: Sequence[float]) -> tuple[float, ...]:
    """Weights whose squares are these shares, or a little less."""
    return tuple(math.sqrt(share) * (1 - 1e-12) for share in shares)
