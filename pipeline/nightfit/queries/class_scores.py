"""How good released predictions of several classes are: one-versus-rest scores by outcome, and who is taken for whom. Imports
evaluations and below.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.queries.evaluations import LARGEST_SCORE, SCORE_BINS
from nightfit.queries.histograms import ROUND_DOWN
from nightfit.queries.predictions import Predictor
from nightfit.queries.weighted_counts import Groups, WeightedCounts
from nightfit.types import WHOLE, Array, Block, Draw, Integers

CONFUSION_SHARE = 0.2
"""Squared weight of the table of true and predicted classes: its k^2 counts are read one by one or summed, those of scores are weighed
and summed, which needs less noise."""


@dataclass(frozen=True, kw_only=True)
class ClassScores(WeightedCounts):
    """For each class counts of (outcome, bin of its log-odds against all others), then counts of (true class, class of the largest score).

    A score beyond the ends counts in the end bin, one that is not a number in the first. A target that is no class counts nowhere.

    Guarantee: a row is in one bin of each of k classes with the weight sqrt((1 - c) / k), and in one cell of the table with the weight
    sqrt(c): a norm of at most 1, all weights being rounded down. So a unit's counts have a norm of at most 1: `squared_norm` is 1, and
    the sensitivity is sqrt(2) where a unit is replaced and 1 else, in units in which a one-versus-rest count is sqrt((1 - c) / k):
    sqrt(2 k / (1 - c)) and sqrt(k / (1 - c)) counts. A null record adds nothing. Broken by
    test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    model : Predictor
        Whose margins are a score for each class.
    classes : int
        k.
    bits : int
        A unit's norm is 2^bits steps.
    low, high : float
        The range of log-odds, public or paid.
    """

    model: Predictor
    classes: int
    bits: int
    low: float = -LARGEST_SCORE
    high: float = LARGEST_SCORE
    draw: Draw = WHOLE
    groups: Groups | None = None

    @property
    def weights(self) -> tuple[float, float]:
        """Of a one-versus-rest count, and of a cell of the table."""
        return math.sqrt((1 - CONFUSION_SHARE) / self.classes), math.sqrt(CONFUSION_SHARE)

    @property
    def width(self) -> int:
        return self.classes * 2 * SCORE_BINS + self.classes**2

    def chunk(self, block: Block) -> Integers:
        counts, of_score, of_cell = np.zeros(self.coordinates, dtype=np.int64), *self.weights
        for X, y, each, first in self.tiles(block):
            scores = np.nan_to_num(self.model.margin(X))
            known = is_class(y, self.classes)
            scores, label, each, first = scores[known], y[known].astype(np.int64), each[known], first[known]
            weight = np.floor(each * (of_score * ROUND_DOWN)).astype(np.int64)
            for place, z in enumerate(log_odds(scores).T):
                clipped = np.clip(np.nan_to_num(z, nan=self.low), self.low, self.high)
                bins = np.minimum(np.floor((clipped - self.low) * (SCORE_BINS / (self.high - self.low))), SCORE_BINS - 1).astype(np.int64)
                np.add.at(counts, first + (2 * place + (label == place)) * SCORE_BINS + bins, weight)
            cell = first + 2 * SCORE_BINS * self.classes + label * self.classes + scores.argmax(axis=1)
            np.add.at(counts, cell, np.floor(each * (of_cell * ROUND_DOWN)).astype(np.int64))
        return counts


def is_class(y: Array, classes: int) -> npt.NDArray[np.bool_]:
    """Whether each number is the place of a class."""
    with np.errstate(invalid="ignore"):
        held: npt.NDArray[np.bool_] = (y >= 0) & (y < classes) & (y == np.floor(y))
    return held


def log_odds(scores: Array) -> Array:
    """s_j - log of the sum of exp(s_i) over the other classes i, for each class (rows x classes)."""
    with np.errstate(all="ignore"):
        top = scores.max(axis=1, keepdims=True)
        odds = np.exp(scores - top)
        others = np.column_stack([odds[:, [i for i in range(odds.shape[1]) if i != j]].sum(axis=1) for j in range(odds.shape[1])])
        found: Array = (scores - top) - np.log(others)
    return found


def log_losses(scores: Array, y: Array) -> Array:
    """-log of the probability of each row's class; NaN where the target is no class."""
    known = is_class(y, scores.shape[1])
    label = np.where(known, y, 0.0).astype(np.int64)
    with np.errstate(all="ignore"):
        top = scores.max(axis=1)
        lost = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - scores[np.arange(len(y)), label]
    return np.where(known, lost, np.nan)


@dataclass(frozen=True, kw_only=True)
class ClassLossChange:
    """How much larger the log loss of an earlier model of several classes is."""

    model: Predictor
    earlier: Predictor

    @property
    def axes(self) -> int:
        return 1

    def of(self, X: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            change: Array = log_losses(self.earlier.margin(X), y) - log_losses(self.model.margin(X), y)
        return change[:, None]
