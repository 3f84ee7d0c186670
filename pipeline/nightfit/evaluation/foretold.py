"""What a plan foretells of the interval of an evaluation's main metric, from public facts. Imports scores and estimates.

Each is the half-width at LEVEL of the interval of a fit that explains half of its loss.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from nightfit.evaluation.estimates import DEVIATIONS, LEVEL
from nightfit.evaluation.scores import KNOWN, Bins, least_known, score_range
from nightfit.queries.class_scores import CONFUSION_SHARE, LOSS_SHARE, bins_of
from nightfit.queries.evaluations import LARGEST_SCORE, SCORE_BINS, score_middles
from nightfit.types import Array

TOP_OF_LOSS, SPREAD_OF_LOSS = 16.0, 2.0
"""Of squared normal errors, in units of their mean: the last node that matters, and their variance."""

SPREAD_OF_SCORES = 3.2
"""Standard deviation of normal log-odds that explain half of the deviance, if they are true, at every share of positives from 0.05 on."""

RARE = 0.1
"""A share of positives that a plan names beside one half: nobody knows before the night how rare they are."""

HIDDEN = 1.0
"""The half-width that stands for nothing known."""

WIDER = 1.15
"""Intervals were up to 12% wider than those of expected counts: noise also draws the range and raises counts below zero."""

POINTS = 4096
"""Quantiles of expected log-odds: 128 for each bin of the histogram, so that none is filled by chance."""


def in_words(metric: str, half_width: float, also: str) -> str:
    """What will be known of a metric, in a sentence that says what else it supposes."""
    if half_width >= HIDDEN:
        return "nothing, of so few units or with so much noise."
    return f"{metric} within about {half_width:.2g} at {LEVEL:.0%}, if half is explained{also}."


def of_errors(units: float, deviation: float, weights: tuple[float, ...]) -> float:
    """Of numbers, counts and amounts, if errors are normal.

    The noise is that of sums of nodes up to 16 mean squares, root(4 / 3) 16 of a count's, for loss and constant. Sampling adds the spread
    of squared normal errors.

    Parameters
    ----------
    units : float
        Held out.
    deviation : float
        Standard deviation of a count's noise.
    weights : tuple of float
        Of the losses, and of those of the constant.
    """
    each = deviation * math.sqrt(4 / 3) * TOP_OF_LOSS / units
    lost, spread = each / weights[0], each / weights[1]
    return DEVIATIONS * 0.5 * math.sqrt(lost**2 + spread**2 + 2 * SPREAD_OF_LOSS / units)


def of_labels(share: float, units: float, deviation: float, range_deviation: float) -> float:
    """Of labels of which this share is positive: the interval of the histogram that is expected, of a fit with normal log-odds.

    Parameters
    ----------
    share : float
        Of positives.
    units : float
        Held out.
    deviation, range_deviation : float
        Standard deviations of the noise of a count of scores, and of one that their range is read from.
    """
    if units * min(share, 1 - share) < seen_units(deviation):
        return HIDDEN
    z = log_odds(share)
    weights = np.column_stack([1 - expit(z), expit(z)]).T * (units / len(z))
    low, high = score_range(_counts(z, weights, -LARGEST_SCORE, LARGEST_SCORE).ravel(), range_deviation)
    negative, positive = _counts(z, weights, low, high)
    variance = Bins(negative, positive, score_middles(low, high), deviation).deviance().variance
    return min(WIDER * DEVIATIONS * math.sqrt(variance), HIDDEN)


def log_odds(share: float) -> Array:
    """Quantiles of normal log-odds whose probabilities have this mean."""
    about = SPREAD_OF_SCORES * ndtri((np.arange(POINTS) + 0.5) / POINTS)
    return about + brentq(lambda middle: float(expit(about + middle).mean()) - share, -50.0, 50.0)


def _counts(z: Array, weights: Array, low: float, high: float) -> Array:
    """Expected negatives and positives in each bin."""
    place = bins_of(z, low, high)
    return np.array([np.bincount(place, of, minlength=SCORE_BINS) for of in weights])


def seen_units(deviation: float) -> float:
    """How many positives there must be for noise to hide their number in one night of twenty only."""
    return least_known(deviation) * (1 + DEVIATIONS / KNOWN)


def of_classes(classes: int, units: float, deviation: float) -> float:
    """Of several classes of one size, whose mean log loss comes from sums of losses up to the largest that counts.

    With root(a^2 + b^2) <= n of the sums a and b, and H = log k, their noise is top s / (n H). Sampling has half of the variance of a log
    loss, and what noise adds to it: of an empty bin the mean of max(noise, 0), with the square of the bin's loss, top^2 / 6 on average.

    Parameters
    ----------
    classes : int
        k.
    units : float
        Held out.
    deviation : float
        Standard deviation of the noise of an answer's count.
    """
    entropy, of_score = math.log(classes), deviation / math.sqrt((1 - CONFUSION_SHARE - LOSS_SHARE) / classes)
    noise = (LARGEST_SCORE * deviation) ** 2 / LOSS_SHARE
    empty = classes * SCORE_BINS * of_score / math.sqrt(2 * math.pi) * LARGEST_SCORE**2 / 6
    return min(WIDER * DEVIATIONS * math.sqrt((noise + empty) / (units * entropy) ** 2 + 0.5 / units), HIDDEN)
