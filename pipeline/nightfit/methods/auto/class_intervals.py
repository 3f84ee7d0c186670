"""Confidence intervals of the coefficients of several classes. Imports class_margins, uncertainty and below."""

from collections.abc import Sequence

import numpy as np

from nightfit.methods.auto.class_margins import curvature
from nightfit.methods.auto.constants.intervals import INTERVAL_ROUNDS
from nightfit.methods.auto.constants.labels import FARTHEST_INTERCEPT
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.uncertainty import in_original_units
from nightfit.methods.auto.weight_maps import WeightMaps
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.auto.whitening import largest_noise_eigenvalue
from nightfit.methods.intervals import Intervals
from nightfit.problem.losses.softmax import Softmax
from nightfit.types import Array

OF = (
    "the population's multinomial coefficients of the clamped features, rows far out weighted down, without penalty or shrinkage: "
    "where the model is right inside the clamps, the model's"
)
ASSUMED = ("labels follow the multinomial model", "rows are roughly normal")


def class_intervals(
    plan: QueryPlan, at: WhitenedCoordinates, loss: Softmax, asked: Sequence[tuple[Array, Array, float]], maps: WeightMaps
) -> tuple[Intervals, ...]:
    """Intervals for each class, of one Newton step from the averaged gradients; none where they would not hold.

    `asked` are weights, gradient and the standard deviation of its noise. With K = E S (x) z z' of complete rows, the estimate is the mean
    of V_t + K^-1 G_t, and its covariance K^-1 (sigma^2 / T) K^-1 + K^-1 / n: privacy noise, and drawing other records. Where a class is so
    rare that Newton's steps leave the model, or that K cannot be inverted, there are none: no record may stop a fit.
    """
    moment = at.complete_moment
    if plan.hopeless or np.linalg.eigvalsh(at.moment)[0] < largest_noise_eigenvalue(at.moment_noise, len(moment)):
        return ()
    V = np.mean([weights for weights, _, _ in asked], axis=0)
    middle = V
    gradient = np.mean([found for _, found, _ in asked], axis=0) / at.complete
    noise = float(np.mean([deviation**2 for _, _, deviation in asked])) / len(asked) / at.complete**2
    for _ in range(INTERVAL_ROUNDS):
        if not np.einsum("ik,ij,jk->k", V, moment, V).max() <= FARTHEST_INTERCEPT**2:  # not a number either
            return ()
        K = curvature(loss, moment, V, at.free)
        if np.linalg.cond(K) > 1 / np.finfo(float).eps:
            return ()
        inverse = np.linalg.inv(K)
        V = middle + (inverse @ gradient.T.ravel()).reshape(loss.outputs, -1).T
    covariance = noise * inverse @ inverse + inverse / (plan.units * at.complete)
    shape = maps.preprocessing()
    to_units, offset = in_original_units(maps.mapped(at.rotation.A.T), shape)
    return tuple(_of_class(contrast, V, covariance, to_units, offset) for contrast in loss.contrasts)


def _of_class(contrast: Array, V: Array, covariance: Array, to_units: Array, offset: Array) -> Intervals:
    """The intervals of one class, whose scores are these contrasts of the margins."""
    d = len(V)
    blocks = covariance.reshape(len(contrast), d, len(contrast), d)
    whole = np.einsum("a,aibj,b->ij", contrast, blocks, contrast)
    deviation = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", to_units, whole, to_units), 0.0))
    return Intervals(
        estimate=to_units @ (V @ contrast) + offset, deviation=deviation, bias=np.zeros(len(deviation)), of=OF, assumed=ASSUMED
    )
