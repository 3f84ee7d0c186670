"""Confidence intervals: drawing records, privacy noise and clipping. Imports descent, level_and_scale, methods.intervals and below.

All from paid answers. Each averaged step asked for a gradient g at weights v. With K the slope of the mean clipped gradient and b its
mean at the truth (which clipping makes differ from zero), v + K^-1 (g - b) is an estimate by itself, one Newton step, without shrinkage.
Its covariance is K^-1 (sigma^2 I + S / n + C) K^-1: sigma is the standard deviation of the answer's noise and S the second moment of a
record's gradient. K is a multiple of the second moment of whitened rows as it was answered, not as it was made safe for steps, so its own
noise E is known too: it moves the estimate by -K^-1 E u, u being the way from v to the estimate, and C is the covariance of E u.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nightfit.methods.auto.constants.intervals import (
    INTERVAL_ROUNDS,
    LEAST_GAP,
    LEAST_INSIDE_CLIP,
    LEAST_VARIANCE_LEFT,
    MOST_HIDDEN_BESIDE_INTERVALS,
    MOST_HIDDEN_SHARE,
    MOST_HIDDEN_VARIANCE,
    NORMAL_KURTOSIS,
)
from nightfit.methods.auto.constants.labels import FARTHEST_INTERCEPT, MOST_MARGIN_GROWTH
from nightfit.methods.auto.constants.level import SCALE_SPREAD
from nightfit.methods.auto.descent import AskedGradient
from nightfit.methods.auto.distributions import MagnitudeDistribution
from nightfit.methods.auto.level_and_scale import Calibrated
from nightfit.methods.auto.logistic_margins import clipped_gradient, label_variance
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.residuals import KnownResiduals
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.auto.whitening import largest_noise_eigenvalue
from nightfit.methods.intervals import Intervals
from nightfit.problem.losses import Estimand
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

ESTIMATED: dict[Estimand | None, str] = {Estimand.MEDIAN: "Huber", Estimand.MEAN: "least-squares", Estimand.LOG_ODDS: "logistic"}
"""The kind of coefficients that intervals are of, by the loss's estimand."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Weights in whitened coordinates with their covariance; `bias` is how far clipping may move the intercept."""

    weights: Array
    covariance: Array
    bias: float = 0.0


def intervals(
    plan: QueryPlan,
    coordinates: WhitenedCoordinates,
    steps: Sequence[AskedGradient],
    known: KnownResiduals | None,
    calibrated: Calibrated | None,
    to_columns: Array,
    shape: Preprocessing,
) -> Intervals | None:
    """Intervals of the coefficients; None where they would not hold.

    There are none where noise hides most slopes, noise hides the second moment or the residuals, or the loss has
    no slope. Where columns are copies of each other, as the levels of a category and the intercept are, the estimate is made in the
    directions that are seen, and a coefficient of which more than MOST_HIDDEN_SHARE lies in others has no interval: it is a convention.

    `steps` are the gradients that were averaged, `known` the last paid residuals. `to_columns` takes weights in whitened coordinates to
    those of the release, whose preprocessing is `shape`.
    """
    if known is None or plan.hopeless or plan.loss.estimand not in ESTIMATED:
        return None
    U = visible_directions(coordinates, MOST_HIDDEN_BESIDE_INTERVALS, LEAST_GAP)
    if U is None:
        return None
    complete = plan.units * coordinates.complete
    seen = seen_in(U, coordinates, steps, known)
    found = estimate_of_labels(plan, *seen) if plan.labels else _of_numbers(plan, *seen)
    if found is None:
        return None
    if calibrated is not None:
        found = _with_scale(plan, found, known, calibrated, complete)
    to_units, offset = in_original_units(to_columns, shape)
    identified = _identified(to_units, U)
    to_units = to_units @ U
    bias = np.zeros(len(to_units))
    bias[len(shape.features) :] = shape.target_scale * found.bias
    deviation = np.sqrt(np.maximum(np.einsum("ij,ij->i", to_units @ found.covariance, to_units), 0.0))
    estimate = to_units @ found.weights + offset
    hidden = np.where(identified, 0.0, np.nan)
    return Intervals(
        estimate=estimate + hidden, deviation=deviation + hidden, bias=bias + hidden, of=_estimated(plan), assumed=_assumed(plan)
    )


def seen_in(
    U: Array, coordinates: WhitenedCoordinates, steps: Sequence[AskedGradient], known: KnownResiduals
) -> tuple[WhitenedCoordinates, list[AskedGradient], KnownResiduals]:
    """What was answered, in the directions that are the columns of U."""
    inside = [replace(step, at=U.T @ step.at, gradient=U.T @ step.gradient) for step in steps]
    return replace(coordinates, moment=U.T @ coordinates.moment @ U), inside, replace(known, at=U.T @ known.at)


def _identified(to_units: Array, U: Array) -> npt.NDArray[np.bool_]:
    """Whether each coefficient, with the row J of `to_units`, has |J - J U U'|^2 <= MOST_HIDDEN_SHARE |J|^2."""
    outside = to_units - to_units @ U @ U.T
    seen: npt.NDArray[np.bool_] = (outside**2).sum(axis=1) <= MOST_HIDDEN_SHARE * (to_units**2).sum(axis=1)
    return seen


def visible_directions(coordinates: WhitenedCoordinates, most: float = MOST_HIDDEN_VARIANCE, gap: float = 1.0) -> Array | None:
    """An orthonormal basis of the directions whose variance is beyond what noise makes; the intercept's is the last, and always there.

    None if noise hides directions and these may be no copies: it may hide more than `most` of the mean variance, or the next direction has
    less than `gap` times what noise makes.
    """
    slopes, least = len(coordinates.variances), largest_noise_eigenvalue(coordinates.moment_noise, len(coordinates.moment))
    values, vectors = np.linalg.eigh(coordinates.moment[:slopes, :slopes])
    seen = values >= least
    if not seen.all() and (least > most * values.mean() or values[seen].min(initial=math.inf) < gap * least):
        return None
    basis = np.eye(len(coordinates.moment))
    basis[:slopes, :slopes] = vectors
    return basis[:, np.r_[seen, np.ones(len(basis) - slopes, dtype=bool)]]


def in_original_units(to_columns: Array, shape: Preprocessing) -> tuple[Array, Array]:
    """(J, offset): coefficients and intercept in the user's units are J v + offset. The same map as Preprocessing.in_original_units."""
    inner = to_columns[: len(shape.features)] / np.array(shape.scale)[:, None]
    to_units, offset = shape.target_scale * inner, np.zeros(len(inner))
    if not shape.intercept:
        return to_units, offset
    last = shape.target_scale * (to_columns[-1] - np.array(shape.centre) @ inner)
    return np.vstack([to_units, last]), np.r_[offset, shape.target_centre]


def _of_numbers(plan: QueryPlan, coordinates: WhitenedCoordinates, steps: Sequence[AskedGradient], known: KnownResiduals) -> Estimate:
    """K = P(|r| <= clip) H and S = (1 + a) E min(r^2, clip^2) H, with `unevenness` a; for a Huber loss, whose K would change too, a = 0.

    Residuals were asked at weights u, before the last steps. Their variance is that at the estimate w and the part that the steps
    explained, (w - u)' H (w - u), which is taken out.
    """
    H, residuals = coordinates.moment, known.residuals
    inverse, clips = np.linalg.inv(H), np.array([step.clip for step in steps])
    deviations, at = np.array([step.deviation for step in steps]), np.array([step.at for step in steps])
    shrink, found = 1.0, Estimate(weights=steps[-1].at, covariance=np.zeros_like(H))
    for _ in range(INTERVAL_ROUNDS):
        inside = np.maximum(residuals.cdf(clips / np.sqrt(shrink)), LEAST_INSIDE_CLIP)
        last = float(clips[-1] / np.sqrt(shrink))
        squares = shrink * float(residuals.squares(np.array([last]))[0])
        squares *= 1 + (unevenness(residuals, last) if plan.loss.estimand is Estimand.MEAN else 0.0)
        precision = (inside / deviations) ** 2
        newton = [step.at + inverse @ step.gradient / slope for step, slope in zip(steps, inside, strict=True)]
        weights = np.average(newton, axis=0, weights=precision)
        moved = moment_noise_covariance(weights - np.average(at, axis=0, weights=precision), coordinates.moment_noise)
        noise = np.eye(len(H)) / precision.sum() + moved
        covariance = inverse @ noise @ inverse + squares / (plan.units * inside[-1] ** 2) * inverse
        found = Estimate(weights=weights, covariance=covariance)
        gap = found.weights - known.at
        explained = float(gap @ H @ gap - np.einsum("ij,ji->", covariance, H)) / coordinates.complete
        shrink = float(np.clip(1 - explained / float(residuals.squares(clips[-1:])[0]), LEAST_VARIANCE_LEFT, 1.0))
    return found


def unevenness(residuals: MagnitudeDistribution, clip: float) -> float:
    """The most by which E r^2 z_j^2 can exceed E r^2 E z_j^2 for normal z_j and residuals that are normal given the row: their kurtosis k
    then says how much their variance varies, Var(s^2) / (E s^2)^2 = k / 3 - 1, and Cov(s^2, z_j^2) <= sqrt(2 Var(s^2)) for E z_j^2 = 1.

    It is reached where r = z_j e. Heavy tails that have nothing to do with the row count too, so intervals are then too wide.
    """
    sizes = np.minimum(residuals.grid.middles, clip) ** 2
    kurtosis = float(sizes**2 @ residuals.shares) / float(sizes @ residuals.shares) ** 2
    return math.sqrt(2 * max(0.0, kurtosis / NORMAL_KURTOSIS - 1))


def _with_scale(plan: QueryPlan, found: Estimate, known: KnownResiduals, calibrated: Calibrated, complete: float) -> Estimate:
    """The estimate with the calibration's intercept and scale, from so many complete rows.

    Slopes get the expected scale, as the released ones do, and its variance beside their own: d^2 s^2 / (d^2 + s^2) for the standard
    deviations d of its noise and of drawing other records, and s = SCALE_SPREAD of the prior. What drawing other records does to the scale
    is counted twice, and the intervals hold; without that they held too seldom.
    """
    change, squares = calibrated.change, float(known.residuals.squares(np.array([calibrated.clip]))[0]) / complete
    weights, covariance = found.weights.copy(), found.covariance.copy()
    if change.predicted:
        scaled, deviation = 1 + change.expected_scale, math.hypot(change.deviation, math.sqrt(squares) / change.predicted)
        weights, covariance = weights * scaled, covariance * scaled**2
        covariance += (deviation * SCALE_SPREAD / math.hypot(deviation, SCALE_SPREAD)) ** 2 * np.outer(found.weights, found.weights)
    if not plan.preprocessing.intercept:
        return Estimate(weights=weights, covariance=covariance)
    weights[-1], covariance[-1], covariance[:, -1] = calibrated.at[-1], 0.0, 0.0
    covariance[-1, -1] = change.level_deviation**2 + squares
    return Estimate(weights=weights, covariance=covariance, bias=known.beyond(calibrated.clip))


def estimate_of_labels(
    plan: QueryPlan, coordinates: WhitenedCoordinates, steps: Sequence[AskedGradient], known: KnownResiduals
) -> Estimate | None:
    """K, S and b of the logistic model, as if the margins of whitened rows were normal. The level of K follows the paid E p (1 - p),
    corrected for the weights at which it was asked. All is of complete rows: sums over all records are divided by their share.

    None where the labels vary too little for that, because no record may stop a fit, and where margins become much larger than at the last
    step, beyond the estimate's own noise: then they are not normal, and labels that nearly follow them have hardly any curvature.
    """
    moment = coordinates.complete_moment
    free = (len(moment) - 1,) if plan.preprocessing.intercept else ()
    paid, ours = known.residuals.finer().label_variance(), label_variance(moment, known.at, free)
    if not (paid > 0 and ours > 0):
        return None
    try:
        with np.errstate(all="ignore"):
            found = _of_labels(plan, coordinates, steps, paid / ours, free)
    except np.linalg.LinAlgError:
        return None
    if found is None or not np.isfinite(found.covariance).all():
        return None
    H, last = moment.copy(), steps[-1].at
    H[list(free)] = H[:, list(free)] = 0.0
    margins = float(found.weights @ H @ found.weights - np.einsum("ij,ji->", found.covariance, H))
    return found if margins <= MOST_MARGIN_GROWTH * float(last @ H @ last) else None


def _of_labels(
    plan: QueryPlan, coordinates: WhitenedCoordinates, steps: Sequence[AskedGradient], ratio: float, free: tuple[int, ...]
) -> Estimate | None:
    """None once a round's margins are so large that both labels cannot occur: Newton's steps leave the model there and do not come back."""
    complete, moment = coordinates.complete, coordinates.complete_moment
    found = Estimate(weights=steps[-1].at, covariance=np.zeros_like(moment))
    for _ in range(INTERVAL_ROUNDS):
        by_clip = {clip: clipped_gradient(moment, found.weights, clip, ratio, free) for clip in {step.clip for step in steps}}
        clipped = [by_clip[step.clip] for step in steps]
        precision = np.array([(complete * at.level / step.deviation) ** 2 for at, step in zip(clipped, steps, strict=True)])
        newton = [step.at + np.linalg.solve(at.slope, step.gradient / complete - at.bias) for at, step in zip(clipped, steps, strict=True)]
        weights, inverse = np.average(newton, axis=0, weights=precision), np.linalg.inv(clipped[-1].slope)
        way = weights - np.average([step.at for step in steps], axis=0, weights=precision)
        noise = np.eye(len(inverse)) / precision.sum() + moment_noise_covariance(way, coordinates.moment_noise / complete)
        covariance = clipped[-1].level ** 2 * noise + clipped[-1].moment / (plan.units * complete)
        found = Estimate(weights=weights, covariance=inverse @ covariance @ inverse.T)
        if not weights @ moment @ weights <= FARTHEST_INTERCEPT**2:  # not a number either
            return None
    return found


def moment_noise_covariance(u: Array, deviation: float) -> Array:
    """The covariance of E u for symmetric noise E with this standard deviation on the diagonal and t = 5/7 of it beside:
    t^2 (|u|^2 I + u u'), and on the diagonal (deviation^2 - 2 t^2) u_j^2 more.
    """
    beside = deviation * DIAGONAL / OTHERS
    covariance: Array = beside**2 * (u @ u * np.eye(len(u)) + np.outer(u, u)) + (deviation**2 - 2 * beside**2) * np.diag(u**2)
    return covariance


def _estimated(plan: QueryPlan) -> str:
    """What the intervals are of. Stored in releases."""
    kind = ESTIMATED[plan.loss.estimand]
    return (
        f"the population's {kind} coefficients of the clamped features, rows far out weighted down, without penalty or shrinkage: "
        "where the model is right inside the clamps, the model's"
    )


def _assumed(plan: QueryPlan) -> tuple[str, ...]:
    """What the intervals assume. Stored in releases."""
    if plan.loss.estimand is Estimand.MEDIAN:
        return ("the spread of residuals does not depend on the features",)
    if plan.labels:
        return ("labels follow the logistic model", "margins are roughly normal")
    return ("the spread of residuals depends on the features no more than their tails show",)
