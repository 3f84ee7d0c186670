"""Where released predictions lie, and the mean of targets there. Imports evaluations and below."""

import math
from dataclasses import dataclass

import numpy as np

from nightfit.queries.evaluations import SCORE_BINS
from nightfit.queries.histograms import ROUND_DOWN
from nightfit.queries.predictions import Predictor
from nightfit.queries.weighted_counts import Groups, WeightedCounts
from nightfit.types import WHOLE, Array, Block, Draw, Integers

PREDICTION_BINS = SCORE_BINS
"""As many as of scores: a night's scores of labels are compared with the predictions of the next night, bin by bin."""

LARGEST_RATIO = 8.0
"""Targets count up to so many times their prediction: a target that is distributed like an exponential is beyond once in 3,000 times."""

HALF = math.sqrt(0.5)


@dataclass(frozen=True, kw_only=True)
class PredictionBins(WeightedCounts):
    """Counts of predictions in PREDICTION_BINS equal steps from `low` to `high`; with `targets`, then the sums of min(y / t, 1) in each
    bin, with t = LARGEST_RATIO times the prediction, or the `floor` if that is more.

    A prediction beyond the ends counts in the end bin, one that is not a number in the first. The ends are public or paid.

    Guarantee: a row is in one bin. Without targets it has a weight of 1 there; with them sqrt(1/2), and a share in [0, 1] of sqrt(1/2)
    in the bin's sum: a norm of at most 1, all being rounded down. So `squared_norm` is 1. A null record adds nothing. Broken by
    test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    model : Predictor
        Whose predictions, or with `margins` whose margins, are binned.
    bits : int
        A unit's norm is 2^bits steps.
    """

    model: Predictor
    bits: int
    low: float
    high: float
    margins: bool
    targets: bool = False
    floor: float = 0.0
    draw: Draw = WHOLE
    groups: Groups | None = None

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError("the range of predictions must be finite, with low < high")

    @property
    def weight(self) -> float:
        """Of a count, and of a sum of targets."""
        return HALF if self.targets else 1.0

    @property
    def width(self) -> int:
        return PREDICTION_BINS * (1 + self.targets)

    def chunk(self, block: Block) -> Integers:
        counts = np.zeros(self.coordinates, dtype=np.int64)
        for X, y, each, first in self.tiles(block):
            z = self.model.margin(X)
            value = z if self.margins else self.model.predicted(z)
            clipped = np.clip(np.nan_to_num(value, nan=self.low), self.low, self.high)
            steps = np.floor((clipped - self.low) * (PREDICTION_BINS / (self.high - self.low)))
            place = first + np.minimum(steps, PREDICTION_BINS - 1).astype(np.int64)
            most = np.floor(each * (self.weight * ROUND_DOWN))
            np.add.at(counts, place, most.astype(np.int64))
            if self.targets:
                share = np.nan_to_num(np.clip(self.shares(y, self.model.predicted(z)), 0.0, 1.0))
                np.add.at(counts, place + PREDICTION_BINS, np.floor(most * share).astype(np.int64))
        return counts

    def shares(self, y: Array, predicted: Array) -> Array:
        """y / t of each row."""
        with np.errstate(all="ignore"):
            found: Array = y / self.largest(predicted)
        return found

    def largest(self, predicted: Array) -> Array:
        """t of each prediction."""
        found: Array = np.maximum(LARGEST_RATIO * predicted, self.floor)
        return found

    @property
    def middles(self) -> Array:
        """The middle of each bin."""
        found: Array = self.low + (self.high - self.low) / PREDICTION_BINS * (np.arange(0.5, PREDICTION_BINS))
        return found
