"""How good released predictions are, as histograms: errors on logarithmic nodes, and scores by outcome. Imports
weighted_counts and below.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nightfit.problem.losses import Loss
from nightfit.queries.histograms import ROUND_DOWN
from nightfit.queries.predictions import Predictor
from nightfit.queries.weighted_counts import Groups, WeightedCounts
from nightfit.records.outcomes import AS_IT_IS, Outcome
from nightfit.types import WHOLE, Array, Block, Draw, Integers

NODES, LOWEST = 145, -64
"""Nodes 2^-64 to 2^80: squares of errors whose size is anywhere in the range of RESIDUAL_GRID."""

SCORE_BINS, LARGEST_SCORE = 32, 8.0
"""Bins of a log-odds in a range inside of [-8, 8]. In a range of 8 a bin is a quarter wide: a probability changes by at most a sixteenth
within it, and a log loss taken at the bin's middle is off by at most 0.25^2 / 96 = 0.0007 on average."""

WITHIN = 0.1
"""A prediction is within 10% if its error is at most this share of the target, in the units of its column."""


def nodes() -> Array:
    """The nodes of an error histogram."""
    return np.exp2(LOWEST + np.arange(NODES, dtype=np.float64))


class Errors(Protocol):
    """Numbers of a row that say how wrong predictions are, from that row alone."""

    @property
    def axes(self) -> int:
        """How many numbers there are."""

    def of(self, X: Array, y: Array) -> Array:
        """Rows x axes."""


@dataclass(frozen=True, kw_only=True)
class ErrorHistogram(WeightedCounts):
    """For each axis of `errors` the distribution of a signed number v: axes x 2 signs x NODES counts, flattened.

    A row counts with a weight a_j on axis j, shared by the two nodes next to |v| so that the mean of their values is |v|: sums of nodes
    times counts estimate sums of |v| without bias. What lies above an axis' top node, or below the first, counts there; what is not a
    number counts nowhere. Tops are public or paid, and change no norm.

    Guarantee: shares s and 1 - s of a weight have a norm of at most that weight, so a row's vector has a norm of at most
    sqrt(sum a_j^2) <= 1, in steps at most 2^bits / k for a unit of k rows (both shares are rounded down), and a unit's at most 2^bits:
    `squared_norm` is 1. A null record adds nothing. Broken by test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for
    persons, by test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    errors : Errors
        The numbers of a row.
    weights : tuple of float
        a_j, whose squares add to at most 1.
    bits : int
        One count is 2^bits steps.
    tops : tuple of int
        The top node of each axis; empty for the last node of all.
    """

    errors: Errors
    weights: tuple[float, ...]
    bits: int
    tops: tuple[int, ...] = ()
    draw: Draw = WHOLE
    groups: Groups | None = None

    def __post_init__(self) -> None:
        if len(self.weights) != self.errors.axes or not all(weight > 0 for weight in self.weights):
            raise ValueError("every axis needs a positive weight")
        if math.fsum(weight**2 for weight in self.weights) > 1:
            raise ValueError("the squares of the weights must add to at most 1")

    @property
    def width(self) -> int:
        return len(self.weights) * 2 * NODES

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros(self.coordinates, dtype=np.int64)
        for X, y, each, first in self.tiles(block):
            values = self.errors.of(X, y)
            for axis, weight in enumerate(self.weights):
                v = values[:, axis]
                held = ~np.isnan(v)
                sign, low, share = _placed(v[held], self.tops[axis] if self.tops else NODES - 1)
                most = np.floor(each[held] * (weight * ROUND_DOWN))
                upper = np.floor(most * share)
                place = first[held] + (2 * axis + sign) * NODES + low
                np.add.at(counts, place, (most - upper).astype(np.int64))
                np.add.at(counts, place + 1, upper.astype(np.int64))
        return counts


def _placed(v: Array, top: int) -> tuple[Integers, Integers, Array]:
    """The sign (0 or 1), the node below |v|, and the share of the node above."""
    size = np.clip(np.abs(v), 2.0**LOWEST, 2.0 ** (LOWEST + top))
    low = np.clip(np.frexp(size)[1] - 1 - LOWEST, 0, NODES - 2).astype(np.int64)
    below = np.exp2(low + float(LOWEST))
    return (v < 0).astype(np.int64), low, size / below - 1.0


@dataclass(frozen=True, kw_only=True)
class LossErrors:
    """How wrong a prediction is: its loss, the loss of a constant margin, and whether the error is at most a tenth of the target; then,
    where there is an earlier model, how much larger its loss is.

    Parameters
    ----------
    loss : Loss
        By which predictions are judged.
    model : Predictor
        The new model.
    constant : float
        A margin that does not depend on features.
    outcome : Outcome
        How the target was transformed: a tenth is one of the target as it was.
    centre, scale : float
        From the (scaled) target of a block to the transformed one.
    earlier : Predictor or None
        The model to compare with.
    """

    loss: Loss
    model: Predictor
    constant: float
    outcome: Outcome = AS_IT_IS
    centre: float = 0.0
    scale: float = 1.0
    earlier: Predictor | None = None

    @property
    def axes(self) -> int:
        return 3 if self.earlier is None else 4

    def of(self, X: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            predicted = self.model(X)
            lost = self.loss.value(y, _margin_of(self.loss, self.model, X))
            true, told = (self.outcome.restored(self.centre + self.scale * of) for of in (y, predicted))
            within = (np.abs(true - told) <= WITHIN * np.abs(true)).astype(np.float64)
            columns = [lost, self.loss.value(y, np.full(len(y), self.constant)), within]
            if self.earlier is not None:
                columns.append(self.loss.value(y, _margin_of(self.loss, self.earlier, X)) - lost)
        return np.column_stack(columns)


@dataclass(frozen=True, kw_only=True)
class LossSizes:
    """The loss of a prediction, the target less a constant one and, where there is an earlier model, how much larger its loss is: by
    which the tops of `LossErrors` and its constant are chosen.
    """

    loss: Loss
    model: Predictor
    constant: float
    earlier: Predictor | None = None

    @property
    def axes(self) -> int:
        return 2 if self.earlier is None else 3

    def of(self, X: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            lost = self.loss.value(y, _margin_of(self.loss, self.model, X))
            columns = [lost, y - self.loss.link.inverse(np.full(len(y), self.constant))]
            if self.earlier is not None:
                columns.append(self.loss.value(y, _margin_of(self.loss, self.earlier, X)) - lost)
        return np.column_stack(columns)


def _margin_of(loss: Loss, model: Predictor, X: Array) -> Array:
    """Where predictions are margins, the prediction in the block's units; else the margin."""
    return model(X) if loss.scalable else model.margin(X)


@dataclass(frozen=True, kw_only=True)
class LossChange:
    """How much larger the loss of an earlier model is."""

    loss: Loss
    model: Predictor
    earlier: Predictor

    @property
    def axes(self) -> int:
        return 1

    def of(self, X: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            change: Array = self.loss.value(y, self.earlier.margin(X)) - self.loss.value(y, self.model.margin(X))
        return change[:, None]


@dataclass(frozen=True, kw_only=True)
class ScoreHistogram(WeightedCounts):
    """Counts of (score bin, outcome): SCORE_BINS equal steps of a log-odds from `low` to `high`, for the labels -1 and 1.

    A score beyond the ends counts in the end bin, one that is not a number in the first. The ends are public or paid.

    Guarantee: a row is in one bin, so a unit's counts have a norm of at most 1: `squared_norm` is 1. A null record adds nothing. Broken by
    test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    model : Predictor
        Whose margins are scores.
    bits : int
        One count is 2^bits steps.
    """

    model: Predictor
    bits: int
    low: float = -LARGEST_SCORE
    high: float = LARGEST_SCORE
    draw: Draw = WHOLE
    groups: Groups | None = None

    @property
    def width(self) -> int:
        return 2 * SCORE_BINS

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros(self.coordinates, dtype=np.int64)
        for X, y, each, first in self.tiles(block):
            z = np.clip(np.nan_to_num(self.model.margin(X), nan=self.low), self.low, self.high)
            place = np.floor((z - self.low) * (SCORE_BINS / (self.high - self.low)))
            np.add.at(counts, first + (y > 0) * SCORE_BINS + np.minimum(place, SCORE_BINS - 1).astype(np.int64), each)
        return counts


def score_middles(low: float = -LARGEST_SCORE, high: float = LARGEST_SCORE) -> Array:
    """The middle of each score bin, a log-odds."""
    return low + (high - low) / SCORE_BINS * (np.arange(SCORE_BINS, dtype=np.float64) + 0.5)
