"""Whether predicted means hold, by tenths of the predictions: of counts and amounts. Imports estimates and queries."""

import math

import numpy as np

from nightfit.evaluation.estimates import Estimate
from nightfit.queries.prediction_bins import PREDICTION_BINS, PredictionBins
from nightfit.types import Array

GROUPS = 10
"""Points of a calibration curve, each of about a tenth of the units."""

SEEN = 2.0
"""Standard deviations of noise that the units of a point must exceed."""


def groups_of(counts: Array) -> Array:
    """The point, from 0, that each bin belongs to: about a tenth of the units each, in the order of predictions."""
    both = np.maximum(counts, 0.0)
    return np.minimum((np.cumsum(both) - both / 2) / max(both.sum(), 1e-300) * GROUPS, GROUPS - 1).astype(np.int64)


def calibration_of(query: PredictionBins, answer: Array, deviation: float, scale: float) -> list[dict[str, float]] | None:
    """Groups of about a tenth of the units, by prediction: the mean prediction, and the mean target with its interval.

    In a bin whose largest target is t the mean is t times the share v of sums in counts: noise s^2 (t^2 + (t v)^2) / n^2, and of sampling
    at most t^2 v (1 - v) / n, as every share lies in [0, 1].

    Parameters
    ----------
    query : PredictionBins
        With targets.
    answer : Array
        Its noisy counts and sums.
    deviation : float
        Standard deviation of their noise.
    scale : float
        The user's units of the target in one scaled unit.

    Returns
    -------
    list of dict, or None
        None where noise hides every group.
    """
    counts, sums = (answer / query.weight).reshape(2, PREDICTION_BINS)
    noise = deviation / query.weight
    predicted = query.model.predicted(query.middles)
    largest, place, points = query.largest(predicted), groups_of(counts), []
    for group in np.unique(place):
        inside = place == group
        n = float(counts[inside].sum())
        if SEEN * noise * math.sqrt(inside.sum()) >= n:
            continue
        present = np.maximum(counts[inside], 0.0)
        expected, top = float(present @ predicted[inside]) / float(present.sum()), largest[inside]
        share = np.clip(sums[inside] / np.maximum(present, 1.0), 0.0, 1.0)
        observed = float(top @ sums[inside]) / n
        variance = (noise**2 * float((top**2 + observed**2).sum()) + float((top**2 * share * (1 - share)) @ present)) / n**2
        points.append({"predicted": expected * scale, **Estimate(observed, variance).scaled(scale).interval(low=0.0)})
    return points or None
