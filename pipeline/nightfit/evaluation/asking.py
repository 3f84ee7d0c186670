"""How an evaluation is asked, once its model is fitted, and what it stores. Imports the metrics of this package."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nightfit.evaluation.axes import Axis, axes_of
from nightfit.evaluation.budget import CHANGE, CHECKS, DRIFT, ERRORS, GROUPS, PREDICTIONS, RANGE, SCORES, SIZES, error_weights
from nightfit.evaluation.calibration import calibration_of
from nightfit.evaluation.checks import drift, shares_of
from nightfit.evaluation.classes import ClassCounts, class_counts, hidden_classes
from nightfit.evaluation.errors import ErrorMetrics, Sizes, change_of_loss, hidden, sizes_of
from nightfit.evaluation.estimates import LEVEL, Estimate
from nightfit.evaluation.judging import Judge
from nightfit.evaluation.models import HIDDEN, Stored, compared
from nightfit.evaluation.scores import bins_of, hidden_scores, score_range
from nightfit.privacy.gate import Gate
from nightfit.queries.checks import checks_of
from nightfit.queries.evaluations import NODES, SCORE_BINS, LossErrors
from nightfit.queries.prediction_bins import PREDICTION_BINS
from nightfit.queries.predictions import Predictor
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

if TYPE_CHECKING:
    from nightfit.evaluation.held_out import HeldOut

Found = dict[str, Any]

OF_RECORDS = "A record is held out by its file and row: when files are rewritten, others are."

WIDTH_OF_PREDICTIONS = 4.0
"""Half of the range of binned predictions, in medians of targets about their constant: predictions vary less than targets. Of counts and
amounts, whose margins are logarithms, in units: from a fiftieth of the usual to fifty times it."""


NARROWEST, LARGEST_END = 2.0**-30, 2.0**512
"""Half of a range is at least so large, in its middle: then 2^22 float64 numbers lie in it, and bins have a width. Ends are finite."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The queries of an evaluation with the model that they are about.

    Parameters
    ----------
    gate : Gate
        Of the held-out part.
    held_out : HeldOut
        What is asked, and what it costs.
    model : Predictor
        The fit.
    fitted : Preprocessing
        How the fit clamps features.
    judge : Judge
        Of the loss with the range that the fit paid for.
    exact : bool
        Whether answers are without noise.
    """

    gate: Gate
    held_out: "HeldOut"
    model: Predictor
    fitted: Preprocessing
    judge: Judge
    exact: bool

    def evaluation(self) -> Found:
        """Ask everything, and return what a release stores."""
        found = self._labels() if self.judge.labels or self.judge.classes else self._errors()
        held_out, main = self.held_out, self.judge.main
        earlier, checks = held_out.earlier, {**self._complete(found.get("counted")), **found.get("checks", {}), **self._checks()}
        scores = found.get("scores")
        return {
            "share": held_out.share,
            "level": LEVEL,
            "main": main,
            "metrics": found["metrics"],
            "constant": found["constant"],
            "previous": None if earlier is None else compared(earlier.run, main, found["metrics"][main], found["change"]),
            "curves": found.get("curves", {"roc": None, "calibration": None}),
            "by": found.get("by"),
            "checks": checks,
            **({} if scores is None else {"scores": scores}),
            **({"note": OF_RECORDS} if held_out.shape.unit is None and held_out.share < 1 else {}),
        }

    def _errors(self) -> Found:
        """Of numbers, counts, amounts and quantiles."""
        held_out, judge = self.held_out, self.judge
        first = held_out.sizes(self.model, judge)
        axes = self._axes(SIZES, errors=first)
        sizes = sizes_of(axes, judge, first.constant, held_out.units * held_out.share)
        constant = sizes.constant if sizes else first.constant
        errors = LossErrors(
            loss=judge.loss,
            model=self.model,
            constant=constant,
            outcome=held_out.shape.outcome,
            centre=held_out.shape.target_centre,
            scale=held_out.shape.target_scale,
            earlier=held_out.earlier_model,
        )
        found = self._error_metrics(self._axes(ERRORS, errors=errors, tops=sizes.tops if sizes else ()), sizes)
        if PREDICTIONS in held_out.shares:
            found |= self._predictions(constant, axes[1])
        if held_out.by is not None:
            told = None if sizes is None else replace(sizes, tops=sizes.tops[:3], excess=0.0)
            answer = self._answer(GROUPS, errors=replace(errors, earlier=None), tops=told.tops if told else ())
            found["by"] = self._grouped(answer, lambda part: self._error_metrics(self._axes_in(part, GROUPS, error_weights(False)), told))
        return found

    def _error_metrics(self, axes: list[Axis], sizes: Sizes | None) -> Found:
        if sizes is None:
            return hidden(self.judge)
        return ErrorMetrics(judge=self.judge, axes=axes, sizes=sizes, scale=self.held_out.shape.target_scale).metrics()

    def _predictions(self, constant: float, about: Axis) -> Found:
        """Where predictions lie, about the constant; of counts and amounts the mean target of each tenth of them."""
        template, shape = self.held_out.templates[PREDICTIONS], self.held_out.shape
        half = WIDTH_OF_PREDICTIONS if template.margins else WIDTH_OF_PREDICTIONS * about.median()
        low, high = apart(constant - half, constant + half)
        query = replace(template, model=self.model, low=low, high=high)
        answer, deviation = self.gate.ask(PREDICTIONS, query), self._deviation(PREDICTIONS)
        counts = answer[:PREDICTION_BINS] / query.weight
        scale, centre = (1.0, 0.0) if template.margins else (shape.target_scale, shape.target_centre)
        found: Found = {"scores": _scores(counts, low * scale + centre, high * scale + centre, deviation / query.weight)}
        if query.targets:
            found["curves"] = {"roc": None, "calibration": None, "means": calibration_of(query, answer, deviation, shape.target_scale)}
        return found

    def _labels(self) -> Found:
        """Of labels and of several classes."""
        low, high = score_range(*self._pooled(self._answer(RANGE, model=self.model)))
        known: Found = {"model": self.model, "low": low, "high": high}
        if self.judge.classes:
            known["top"] = float(np.logaddexp(0.0, -low))  # the log loss of a unit whose own class has the least log-odds
        found = self._score_metrics(self._answer(SCORES, **known), SCORES, known)
        if self.held_out.by is not None:
            found["by"] = self._grouped(self._answer(GROUPS, **known), lambda part: self._score_metrics(part, GROUPS, known))
        return {**found, **self._change(found)}

    def _score_metrics(self, answer: Array, label: str, known: Found) -> Found:
        """The metrics of a histogram of scores by outcome, with its entropy and its number of units where noise does not hide them."""
        deviation = self._deviation(label)
        if self.judge.classes:
            counts = class_counts(replace(self.held_out.templates[label], **known), answer, self.held_out.classes, deviation)
            if counts is None:
                return hidden_classes()
            kept = {"scores": self._class_scores(counts, known)} if self.held_out.checks else {}
            return {**counts.metrics(), "entropy": counts.best_loss(), "units": counts.units, **kept}
        bins = bins_of(answer, known["low"], known["high"], deviation)
        if bins is None:
            return hidden_scores()
        both = _scores(bins.negative + bins.positive, known["low"], known["high"], deviation * np.sqrt(2.0))
        return {**bins.metrics(), "entropy": bins.best_loss(), "units": bins.units, **({"scores": both} if self.held_out.checks else {})}

    def _class_scores(self, counts: ClassCounts, known: Found) -> Found:
        """Where the log-odds of each class lie, whatever the outcome."""
        of_each = _scores(counts.scores.sum(axis=1), known["low"], known["high"], counts.deviations[0] * float(np.sqrt(2.0)))
        return {**of_each, "classes": list(self.held_out.classes)}

    def _pooled(self, answer: Array) -> tuple[Array, float]:
        """A score histogram and its noise; of several classes that of all classes together."""
        k, deviation = self.judge.classes, self._deviation(RANGE)
        if not k:
            return answer, deviation
        each = answer[: self.held_out.templates[RANGE].cells].reshape(k, 2 * SCORE_BINS)
        return each.sum(axis=0), deviation * float(np.sqrt(k))

    def _change(self, found: Found) -> Found:
        """How much larger the log loss of the earlier model is, on the same units."""
        earlier = self.held_out.earlier_model
        if earlier is None:
            return {"change": None}
        change = self.held_out.change(self.model, earlier)
        top = self._axes(SIZES, errors=change)[0].top(True)
        axis = self._axes(CHANGE, errors=change, tops=(NODES - 1 if top is None else top,))[0]
        if "entropy" not in found or top is None:
            return {"change": HIDDEN}
        return {"change": change_of_loss(axis, found["units"], top, found["entropy"])}

    def _grouped(self, answer: Array, metrics: Callable[[Array], Found]) -> Found:
        """The metrics of each group, by name."""
        groups = self.held_out.groups
        assert groups is not None
        parts = answer.reshape(len(groups.names), -1)
        told = {name: metrics(part) for name, part in zip(groups.names, parts, strict=True)}
        return {
            "column": groups.column,
            "groups": {name: {"metrics": one["metrics"], "constant": one["constant"]} for name, one in told.items()},
        }

    def _checks(self) -> Found:
        """Shares of gaps, unknown levels and values at their bounds, and the drift of the earlier model's predictions."""
        held_out, earlier, found = self.held_out, self.held_out.earlier, dict[str, Any]()
        if DRIFT in held_out.shares and earlier is not None and earlier.scores is not None:
            found["drift"] = self._class_drift(earlier.scores) if self.judge.classes else self._drift(earlier.scores)
        if held_out.checks:
            query = replace(held_out.templates[CHECKS], checks=checks_of(held_out.shape, self.fitted))
            found |= shares_of(query, self.gate.ask(CHECKS, query), self._deviation(CHECKS))
        return found

    def _drift(self, before: Stored) -> Found:
        """That of the earlier model's predictions."""
        template, shape = self.held_out.templates[DRIFT], self.held_out.shape
        scale, centre = (1.0, 0.0) if template.margins else (shape.target_scale, shape.target_centre)
        low, high = apart(*((float(before[end]) - centre) / scale for end in ("low", "high")))
        answer = self._answer(DRIFT, model=self.held_out.earlier_model, low=low, high=high)
        return drift(before, answer, self._deviation(DRIFT))

    def _class_drift(self, before: Stored) -> Found:
        """That of the earlier model's log-odds of each class."""
        held_out, weight = self.held_out, self.held_out.templates[DRIFT].weight
        low, high = apart(float(before["low"]), float(before["high"]))
        answer = self._answer(DRIFT, model=held_out.earlier_model, low=low, high=high) / weight
        each = zip(held_out.classes, before["counts"], answer.reshape(len(held_out.classes), -1), strict=True)
        return {name: drift({**before, "counts": then}, now, self._deviation(DRIFT) / weight) for name, then, now in each}

    def _complete(self, counted: Estimate | None) -> Found:
        """The share of held-out units that could be judged. How many units the key holds out varies by chance: units share (1 - share)."""
        if counted is None:
            return {}
        expected, share = self.held_out.units * self.held_out.share, self.held_out.share
        return {"complete": Estimate(counted.value, counted.variance + expected * (1 - share)).scaled(1 / expected).interval(0.0, 1.0)}

    def _answer(self, label: str, **known: Any) -> Array:
        """Noisy counts."""
        return self.gate.ask(label, replace(self.held_out.templates[label], **known))

    def _deviation(self, label: str) -> float:
        """Standard deviation of the noise of a count."""
        event = next(event for event in self.held_out.events if event.label == label)
        return 0.0 if self.exact else float(event.sigma * self.held_out.templates[label].grid)

    def _axes(self, label: str, **known: Any) -> list[Axis]:
        """The axes of an error histogram."""
        return self._axes_in(self._answer(label, **known), label, self.held_out.templates[label].weights)

    def _axes_in(self, answer: Array, label: str, weights: tuple[float, ...]) -> list[Axis]:
        return axes_of(answer, weights, self._deviation(label))


def apart(low: float, high: float) -> tuple[float, float]:
    """A range near this one that float64 can divide into bins, whatever paid answers made of its ends."""
    low, high = (min(max(end, -LARGEST_END), LARGEST_END) for end in (low, high))
    middle = (low + high) / 2
    half = max((high - low) / 2, NARROWEST * max(abs(middle), NARROWEST))
    return middle - half, middle + half


def _scores(counts: Array, low: float, high: float, deviation: float) -> Found:
    """A histogram of predictions as plain data."""
    return {"low": low, "high": high, "counts": counts.tolist(), "deviation": float(deviation)}
