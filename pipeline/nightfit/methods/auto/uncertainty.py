"""How far the fit may be from what it estimates: drawing records, privacy noise, clipping. Imports frame, questions, intervals.

All from paid answers. Each averaged step asked for a gradient g at weights v; with K the slope of the mean clipped gradient and b its
mean at the truth (clipping makes it differ from zero), v + K^-1 (g - b) is an estimate by itself (one Newton step), unshrunk, and its
noise is known: K^-1 (sigma^2 I + S / n + C) K^-1, sigma the deviation of the answer's noise, S the second moment of a record's gradient.
K is a multiple of the second moment of whitened rows as it was answered, not as the steps level it, so its own noise E is known too: it
moves the estimate by -K^-1 E u, u the way from v to the estimate, and C is the covariance of E u.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightfit.methods.auto.calibration import SPREAD, Change
from nightfit.methods.auto.margins import normal_margins, normal_spread
from nightfit.methods.auto.quantiles import Sizes
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.auto.whitening import largest_of_noise
from nightfit.methods.intervals import Intervals
from nightfit.problem.losses import Estimand
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

LEAST_INSIDE = 0.05
LEAST_LEFT = 0.25
TAIL = 2.0
ROUNDS = 3
ESTIMATED: dict[Estimand | None, str] = {Estimand.MEDIAN: "Huber", Estimand.MEAN: "least-squares", Estimand.LOG_ODDS: "logistic"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One paid gradient: at which weights, what came, the deviation of its noise, the clip of its residuals, and the mean slope of the
    loss that the step was taken with.
    """

    at: Array
    gradient: Array
    deviation: float
    clip: float
    slope: float


@dataclass(frozen=True, kw_only=True)
class Known:
    """The last paid residuals, the weights at which they were asked, and the share of records that noise hides in a bin."""

    residuals: Sizes
    at: Array
    hidden: float

    def beyond(self, clip: float) -> float:
        """E (|r| - clip)_+ with the tail that noise may hide: beyond the last visible bin, the bins hold `hidden` and then fall as
        those of t(2) do, by 2^-2 per octave.
        """
        grid, shares = self.residuals.grid, self.residuals.shares
        last = int(np.flatnonzero(shares >= min(self.hidden, shares.max()))[-1])
        k = np.arange(grid.bins - 1 - last)
        tail = np.r_[shares[: last + 1], self.hidden * 2.0 ** (-TAIL * grid.step * k)]
        return float(tail @ np.maximum(grid.middles - clip, 0.0))


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The weights after level and scale were asked for, with what clip, and what came."""

    at: Array
    clip: float
    change: Change


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """In the frame's coordinates; `bias` is how far clipping may move the intercept's target."""

    weights: Array
    covariance: Array
    bias: float = 0.0


def intervals(
    asked: QueryPlan,
    frame: WhitenedCoordinates,
    steps: Sequence[Asked],
    known: Known | None,
    calibrated: Calibrated | None,
    map_of: Array,
    shape: Preprocessing,
) -> Intervals | None:
    """Of every coefficient; None where no useful fit is possible, directions are left out, noise hides the second moment or the
    residuals, or the loss has no slope.

    `map_of` takes weights in the frame's coordinates to those of the release, whose preprocessing is `shape`.
    """
    if asked.hopeless or not frame.used.all() or known is None or asked.loss.estimand not in ESTIMATED:
        return None
    if np.linalg.eigvalsh(frame.moment)[0] < largest_of_noise(frame.moment_noise, len(frame.moment)):
        return None
    found = _of_labels(asked, frame, steps, known) if asked.labels else _of_numbers(asked, frame, steps, known)
    if calibrated is not None:
        found = _of_scale(asked, found, known, calibrated)
    turned, offset = in_original_units(map_of, shape)
    bias = np.zeros(len(turned))
    bias[len(shape.features) :] = shape.target_scale * found.bias
    deviation = np.sqrt(np.maximum(np.einsum("ij,ij->i", turned @ found.covariance, turned), 0.0))
    estimate = turned @ found.weights + offset
    return Intervals(estimate=estimate, deviation=deviation, bias=bias, of=_estimated(asked), assumed=_assumed(asked))


def in_original_units(map_of: Array, shape: Preprocessing) -> tuple[Array, Array]:
    """(J, offset): coefficients and intercept in the user's units are J v + offset. The same map as Preprocessing.in_original_units."""
    inner = map_of[: len(shape.features)] / np.array(shape.scale)[:, None]
    turned, offset = shape.target_scale * inner, np.zeros(len(inner))
    if not shape.intercept:
        return turned, offset
    last = shape.target_scale * (map_of[-1] - np.array(shape.centre) @ inner)
    return np.vstack([turned, last]), np.r_[offset, shape.target_centre]


def _of_numbers(asked: QueryPlan, frame: WhitenedCoordinates, steps: Sequence[Asked], known: Known) -> Estimate:
    """K = P(|r| <= clip) H and S = E min(r^2, clip^2) H, as if the size of a residual did not depend on the row.

    Residuals were asked at weights u, before the last steps: they are as large as those at the estimate w and the part that the
    steps explained, (w - u)' H (w - u), which is taken out.
    """
    H, residuals = frame.moment, known.residuals
    inverse, clips = np.linalg.inv(H), np.array([step.clip for step in steps])
    deviations, at = np.array([step.deviation for step in steps]), np.array([step.at for step in steps])
    shrink, made = 1.0, Estimate(weights=steps[-1].at, covariance=np.zeros_like(H))
    for _ in range(ROUNDS):
        inside = np.maximum(residuals.cdf(clips / np.sqrt(shrink)), LEAST_INSIDE)
        squares = shrink * float(residuals.squares(clips[-1:] / np.sqrt(shrink))[0])
        precision = (inside / deviations) ** 2
        newton = [step.at + inverse @ step.gradient / slope for step, slope in zip(steps, inside, strict=True)]
        weights = np.average(newton, axis=0, weights=precision)
        moved = of_moment(weights - np.average(at, axis=0, weights=precision), frame.moment_noise)
        noise = np.eye(len(H)) / precision.sum() + moved
        covariance = inverse @ noise @ inverse + squares / (asked.units * inside[-1] ** 2) * inverse
        made = Estimate(weights=weights, covariance=covariance)
        gap = made.weights - known.at
        explained = float(gap @ H @ gap - np.einsum("ij,ji->", covariance, H))
        shrink = float(np.clip(1 - explained / float(residuals.squares(clips[-1:])[0]), LEAST_LEFT, 1.0))
    return made


def _of_scale(asked: QueryPlan, found: Estimate, known: Known, calibrated: Calibrated) -> Estimate:
    """The intercept of a least-squares fit is the calibration's, whose wide clip moves it less. Slopes get the scale that it makes likely,
    as the released ones do, and its variance beside their own: d^2 SPREAD^2 / (d^2 + SPREAD^2), for the deviation d of its noise and of
    drawing other records, and the deviation SPREAD that the logarithm of a scale has before anything is asked. That counts what drawing
    other records does to the scale twice, and holds; taking it out of the slopes' own covariance held too seldom.
    """
    change, squares = calibrated.change, float(known.residuals.squares(np.array([calibrated.clip]))[0]) / asked.units
    weights, covariance = found.weights.copy(), found.covariance.copy()
    if change.predicted:
        scaled, deviation = 1 + change.likely, math.hypot(change.deviation, math.sqrt(squares) / change.predicted)
        weights, covariance = weights * scaled, covariance * scaled**2
        covariance += (deviation * SPREAD / math.hypot(deviation, SPREAD)) ** 2 * np.outer(found.weights, found.weights)
    if not asked.preprocessing.intercept:
        return Estimate(weights=weights, covariance=covariance)
    weights[-1], covariance[-1], covariance[:, -1] = calibrated.at[-1], 0.0, 0.0
    covariance[-1, -1] = change.level_deviation**2 + squares
    return Estimate(weights=weights, covariance=covariance, bias=known.beyond(calibrated.clip))


def _of_labels(asked: QueryPlan, frame: WhitenedCoordinates, steps: Sequence[Asked], known: Known) -> Estimate:
    """K, S and b of the logistic model itself, as if the margins of whitened rows were normal; the level of K follows the paid
    E p (1 - p), which was asked for at weights before the last steps: there, normal margins would have another.
    """
    made = Estimate(weights=steps[-1].at, covariance=np.zeros_like(frame.moment))
    free = (asked.columns - 1,) if asked.preprocessing.intercept else ()
    ratio = known.residuals.finer().spread_of_labels() / normal_spread(frame.moment, known.at, free)
    for _ in range(ROUNDS):
        at = [normal_margins(frame.moment, made.weights, step.clip, ratio, free) for step in steps]
        precision = np.array([(margins.level / step.deviation) ** 2 for margins, step in zip(at, steps, strict=True)])
        newton = [step.at + np.linalg.solve(margins.slope, step.gradient - margins.bias) for margins, step in zip(at, steps, strict=True)]
        weights, inverse = np.average(newton, axis=0, weights=precision), np.linalg.inv(at[-1].slope)
        moved = of_moment(weights - np.average([step.at for step in steps], axis=0, weights=precision), frame.moment_noise)
        noise = at[-1].level ** 2 * (np.eye(len(inverse)) / precision.sum() + moved) + at[-1].moment / asked.units
        made = Estimate(weights=weights, covariance=inverse @ noise @ inverse.T)
    return made


def of_moment(u: Array, deviation: float) -> Array:
    """The covariance of E u for symmetric noise E, deviation on the diagonal and t = 5/7 of it beside: t^2 (|u|^2 I + u u'), and on the
    diagonal (deviation^2 - 2 t^2) u_j^2 more.
    """
    beside = deviation * DIAGONAL / OTHERS
    made: Array = beside**2 * (u @ u * np.eye(len(u)) + np.outer(u, u)) + (deviation**2 - 2 * beside**2) * np.diag(u**2)
    return made


def _estimated(asked: QueryPlan) -> str:
    kind = ESTIMATED[asked.loss.estimand]
    return (
        f"the population's {kind} coefficients of the clamped features, rows far out weighted down, without penalty or shrinkage: "
        "where the model is right inside the clamps, the model's"
    )


def _assumed(asked: QueryPlan) -> tuple[str, ...]:
    if asked.labels:
        return ("labels follow the logistic model", "margins are roughly normal")
    return ("the spread of residuals does not depend on the features",)
