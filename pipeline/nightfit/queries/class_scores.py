"""Released predictions of several classes: one-versus-rest scores, by outcome or alone, and who is taken for whom. Imports
evaluations and below.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.queries.evaluations import LARGEST_SCORE, SCORE_BINS
from nightfit.queries.histograms import ROUND_DOWN
from nightfit.queries.predictions import Predictor
from nightfit.queries.weighted_counts import Groups, WeightedCounts
from nightfit.types import WHOLE, Array, Block, Draw, Integers

CONFUSION_SHARE, LOSS_SHARE = 0.2, 0.2
"""Squared weights of the table of true and predicted classes, and of the log loss: the other 0.6 is for the scores of all classes, whose
areas are what noise hides first."""


@dataclass(frozen=True, kw_only=True)
class ClassBins(WeightedCounts):
    """Base of histograms of the log-odds of each class against all others, in SCORE_BINS equal steps from `low` to `high`.

    A score beyond the ends counts in the end bin, one that is not a number in the first.

    Guarantee: a row is in one bin of each class, whatever the model; what it counts there is the subclass's, and with it the norm. Broken
    by test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity.

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

    def scores(self, X: Array) -> Array:
        """Finite scores, rows x classes."""
        return np.nan_to_num(self.model.margin(X))

    def bins(self, scores: Array) -> Iterator[tuple[int, Integers]]:
        """Each class with the bin of every row."""
        for place, z in enumerate(log_odds(scores).T):
            yield place, bins_of(z, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class ClassScores(ClassBins):
    """For each class counts of (outcome, bin of its log-odds against all others), then counts of (true class, class of the largest score),
    then the sums of v and of 1 - v, with v the log loss in units of `top`, at most 1.

    A target that is no class counts nowhere.

    Guarantee: a row is in one bin of each of k classes with the weight sqrt(0.6 / k), in one cell of the table with the weight sqrt(0.2),
    and shares a weight of sqrt(0.2) between the sums: a norm of at most 1, all being rounded down. So a unit's counts have a norm of at
    most 1: `squared_norm` is 1, and the sensitivity is sqrt(2) where a unit is replaced and 1 else. In one-versus-rest counts, each of
    which is sqrt(0.6 / k), that is sqrt(2 k / 0.6) and sqrt(k / 0.6). A null record adds nothing. Broken by
    test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    top : float
        The largest log loss that counts.
    """

    top: float = LARGEST_SCORE

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of a one-versus-rest count, of a cell of the table, and of a log loss."""
        return math.sqrt((1 - CONFUSION_SHARE - LOSS_SHARE) / self.classes), math.sqrt(CONFUSION_SHARE), math.sqrt(LOSS_SHARE)

    @property
    def cells(self) -> int:
        """Where the table begins."""
        return self.classes * 2 * SCORE_BINS

    @property
    def width(self) -> int:
        return self.cells + self.classes**2 + 2

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros(self.coordinates, dtype=np.int64)
        for X, y, each, first in self.tiles(block):
            scores = self.scores(X)
            known = is_class(y, self.classes)
            scores, label, each, first = scores[known], y[known].astype(np.int64), each[known], first[known]
            of_score, of_cell, of_loss = (np.floor(each * (weight * ROUND_DOWN)).astype(np.int64) for weight in self.weights)
            for place, bins in self.bins(scores):
                np.add.at(counts, first + (2 * place + (label == place)) * SCORE_BINS + bins, of_score)
            np.add.at(counts, first + self.cells + label * self.classes + scores.argmax(axis=1), of_cell)
            v = np.clip(np.nan_to_num(log_losses(scores, y[known]), nan=self.top) / self.top, 0.0, 1.0)
            lost = np.floor(of_loss * v).astype(np.int64)
            np.add.at(counts, first + self.width - 2, lost)
            np.add.at(counts, first + self.width - 1, of_loss - lost)
        return counts


@dataclass(frozen=True, kw_only=True)
class ClassPredictions(ClassBins):
    """For each class counts of its log-odds against all others, whatever the outcome.

    Guarantee: a row is in one bin of each of k classes with the weight sqrt(1 / k): a norm of at most 1, all being rounded down. So
    `squared_norm` is 1. A null record adds nothing. Broken by test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for
    persons, by test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    """

    @property
    def weight(self) -> float:
        """Of a row in each class."""
        return math.sqrt(1 / self.classes)

    @property
    def width(self) -> int:
        return self.classes * SCORE_BINS

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros(self.coordinates, dtype=np.int64)
        for X, _, each, first in self.tiles(block):
            of_score = np.floor(each * (self.weight * ROUND_DOWN)).astype(np.int64)
            for place, bins in self.bins(self.scores(X)):
                np.add.at(counts, first + place * SCORE_BINS + bins, of_score)
        return counts


def bins_of(z: Array, low: float, high: float) -> Integers:
    """The place of each score among SCORE_BINS equal steps."""
    clipped = np.clip(np.nan_to_num(z, nan=low), low, high)
    return np.minimum(np.floor((clipped - low) * (SCORE_BINS / (high - low))), SCORE_BINS - 1).astype(np.int64)


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
