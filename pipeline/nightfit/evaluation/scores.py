"""Metrics of labels from the noisy histogram of scores by outcome. Imports queries, calibration and below."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.evaluation.calibration import groups_of
from nightfit.evaluation.estimates import Estimate, exactly, unknown
from nightfit.queries.evaluations import LARGEST_SCORE, SCORE_BINS, score_middles
from nightfit.types import Array

FOUND, SEEN = 4.0, 2.0
"""Standard deviations of noise that a bin must exceed, and those next to seen ones, to be told from empty ones."""

KNOWN = 3.0
"""Standard deviations of the noise of a sum of counts that it must exceed."""

WITHIN_BIN = 16
"""Points at which a function is averaged over a bin."""


def score_range(answer: Array, deviation: float) -> tuple[float, float]:
    """The range of log-odds in which noise does not hide units, with one bin of room on both sides; everything if it hides all.

    It goes from the first bin that surely holds units to the last one: a good fit has them at both ends and few between.

    Parameters
    ----------
    answer : Array
        A small noisy score histogram, which serves for nothing else: its noise does not enter the metrics.
    deviation : float
        Standard deviation of the noise of each count.
    """
    both, noise = answer[:SCORE_BINS] + answer[SCORE_BINS:], deviation * math.sqrt(2.0)
    surely = np.flatnonzero(both > FOUND * noise)
    if not len(surely):
        return -LARGEST_SCORE, LARGEST_SCORE
    width = 2 * LARGEST_SCORE / SCORE_BINS
    first, last = (_end(both, int(end), step, SEEN * noise) for end, step in ((surely[0], -1), (surely[-1], 1)))
    return max(-LARGEST_SCORE + width * (first - 1), -LARGEST_SCORE), min(-LARGEST_SCORE + width * (last + 2), LARGEST_SCORE)


def _end(counts: Array, place: int, step: int, least: float) -> int:
    """The last bin in one direction that holds more than `least` units, with at most one emptier bin before it."""
    last = place
    while 0 <= place + step < SCORE_BINS and abs(place + step - last) <= 2:
        place += step
        last = place if counts[place] > least else last
    return last


@dataclass(frozen=True, slots=True)
class Bins:
    """Counts of negatives and positives, the log-odds at the middle of each bin, and the standard deviation of each count's noise.

    Every metric g is a function of degree zero of the counts c, so its error has the variance sum (max(c, 0) + s^2) (dg / dc)^2: of
    units, which fall into bins like Poisson counts, and of noise (the delta method).
    """

    negative: Array
    positive: Array
    logits: Array
    deviation: float

    @property
    def units(self) -> float:
        return float(self.negative.sum() + self.positive.sum())

    @property
    def known(self) -> bool:
        """Whether there are more negatives and positives than noise would make."""
        least = least_known(self.deviation)
        return bool(self.negative.sum() > least and self.positive.sum() > least)

    @property
    def rate(self) -> float:
        """The share of positives."""
        return float(self.positive.sum()) / self.units

    def estimate(self, value: float, by_negative: Array, by_positive: Array) -> Estimate:
        """A metric of this value and these derivatives."""
        counts, slopes = np.concatenate([self.negative, self.positive]), np.concatenate([by_negative, by_positive])
        return Estimate(value, float((np.maximum(counts, 0.0) + self.deviation**2) @ slopes**2))

    def mean(self, of_negative: Array, of_positive: Array) -> tuple[float, Array, Array]:
        """The mean of a function of bin and outcome, and its derivatives (f - mean) / n."""
        mean = float(self.negative @ of_negative + self.positive @ of_positive) / self.units
        return mean, (of_negative - mean) / self.units, (of_positive - mean) / self.units

    def auc(self) -> Estimate:
        """P(a positive scores higher than a negative), by bins; of two in one bin of width w it does with a chance of 1 / 2 + w / 12.

        Log-odds z say that positives are e^z times as dense as negatives. Of negatives that are spread evenly over a narrow bin and
        positives whose density rises by e^z the positive is higher with a chance of 1 / 2 + w / 12, up to terms of order w^2.
        """
        N, P = self.negative.sum(), self.positive.sum()
        tied = 0.5 - self.width / 12
        below = (np.cumsum(self.negative) - self.negative * tied) / N
        above = (np.cumsum(self.positive[::-1])[::-1] - self.positive * tied) / P
        value = float(self.positive @ below / P)
        return self.estimate(value, (above - value) / N, (below - value) / P)

    def deviance(self) -> Estimate:
        """1 - L / H with L the mean log loss and H = -p log p - (1 - p) log(1 - p), the log loss of the rate p."""
        lost, by_negative, by_positive = self.mean(*self.log_losses)
        share, rate = lost / self.entropy, self.rate
        slope = math.log((1 - rate) / rate) / self.units  # dH = log((1 - p) / p) dp, and dp = (y - p) / n
        down = [(by - share * slope * (y - rate)) / self.entropy for by, y in ((by_negative, 0.0), (by_positive, 1.0))]
        return self.estimate(1 - share, -down[0], -down[1])

    @property
    def entropy(self) -> float:
        return -self.rate * math.log(self.rate) - (1 - self.rate) * math.log(1 - self.rate)

    def best_loss(self) -> Estimate:
        """H with its error: dH = log((1 - p) / p) dp, and dp = (y - p) / n."""
        p, each = self.rate, np.ones_like(self.negative)
        slope = math.log((1 - p) / p) / self.units
        return self.estimate(self.entropy, -slope * p * each, slope * (1 - p) * each)

    @property
    def log_losses(self) -> tuple[Array, Array]:
        """-log of the probability that a negative, and a positive, is given in each bin."""
        return self.averaged(lambda z: np.logaddexp(0.0, z), lambda z: np.logaddexp(0.0, -z))

    @property
    def width(self) -> float:
        return float(self.logits[1] - self.logits[0])

    def averaged(self, of_negative: Callable[[Array], Array], of_positive: Callable[[Array], Array]) -> tuple[Array, Array]:
        """The means of two functions of the log-odds z over each bin, for negatives and for positives.

        Units are taken to be spread evenly over a narrow bin, and to be positive with the probability p(z) that their z says.
        """
        z = self.logits[:, None] + self.width * ((np.arange(WITHIN_BIN) + 0.5) / WITHIN_BIN - 0.5)
        p = 1 / (1 + np.exp(-z))
        negative: Array = (of_negative(z) * (1 - p)).sum(axis=1) / (1 - p).sum(axis=1)
        positive: Array = (of_positive(z) * p).sum(axis=1) / p.sum(axis=1)
        return negative, positive

    def metrics(self) -> dict[str, Any]:
        """Metrics, those of the best constant, and curves, as plain data."""
        p = 1 / (1 + np.exp(-self.logits))
        means = {
            "log_loss": (self.log_losses, math.inf),
            "brier": (self.averaged(lambda z: 1 / (1 + np.exp(-z)) ** 2, lambda z: 1 / (1 + np.exp(z)) ** 2), 1.0),
            "accuracy": (self.averaged(lambda z: (z <= 0).astype(np.float64), lambda z: (z > 0).astype(np.float64)), 1.0),
        }
        found = {name: self.estimate(*self.mean(*of)).interval(0.0, high) for name, (of, high) in means.items()}
        rate = self.rate
        return {
            "metrics": {"deviance_explained": self.deviance().interval(high=1.0), "auc": self.auc().interval(0.0, 1.0), **found},
            "constant": {
                "deviance_explained": exactly(0.0),
                "auc": exactly(0.5),
                "log_loss": exactly(self.entropy),
                "brier": exactly(rate * (1 - rate)),
                "accuracy": exactly(max(rate, 1 - rate)),
            },
            "curves": {"roc": self.roc(), "calibration": self.calibration()},
            "counted": Estimate(self.units, 2 * len(self.logits) * self.deviation**2),
            "checks": {
                "mean_prediction": self.estimate(*self.mean(p, p)).interval(0.0, 1.0),
                "share_of_positives": self.estimate(*self.mean(np.zeros_like(p), np.ones_like(p))).interval(0.0, 1.0),
            },
        }

    def roc(self) -> list[list[float]]:
        """Points (share of negatives, share of positives) above each bin's lower edge; made monotone, which noise is not."""
        shares = [np.cumsum(of[::-1]) / of.sum() for of in (self.negative, self.positive)]
        rising = [np.clip(np.maximum.accumulate(of), 0.0, 1.0) for of in shares]
        return [[0.0, 0.0], *np.column_stack(rising).tolist(), [1.0, 1.0]]

    def calibration(self) -> list[dict[str, float]]:
        """Groups of about a tenth of the units, by score: the mean prediction, and the share of positives with its interval."""
        both = np.maximum(self.negative + self.positive, 0.0)
        place = groups_of(both)
        p, points = 1 / (1 + np.exp(-self.logits)), []
        for group in np.unique(place):
            inside = place == group
            N, P = float(self.negative[inside].sum()), float(self.positive[inside].sum())
            if SEEN * self.deviation * math.sqrt(2.0 * inside.sum()) >= N + P:
                continue
            share = min(max(P / (N + P), 0.0), 1.0)
            noise = self.deviation**2 * inside.sum() * ((1 - share) ** 2 + share**2) / (N + P) ** 2
            observed = Estimate(share, noise + share * (1 - share) / (N + P)).interval(0.0, 1.0)
            points.append({"predicted": float(p[inside] @ both[inside] / both[inside].sum()), **observed})
        return points


def least_known(deviation: float) -> float:
    """Units that SCORE_BINS counts must hold together, or noise may have made them."""
    return KNOWN * deviation * math.sqrt(SCORE_BINS)


def bins_of(answer: Array, low: float, high: float, deviation: float) -> Bins | None:
    """The bins of a noisy score histogram over a range; None where noise hides how many negatives or positives there are.

    Parameters
    ----------
    answer : Array
        Noisy counts: the negatives of each bin, then the positives.
    low, high : float
        The range of log-odds.
    deviation : float
        Standard deviation of the noise of each count.
    """
    bins = Bins(answer[:SCORE_BINS], answer[SCORE_BINS:], score_middles(low, high), deviation)
    return bins if bins.known else None


def hidden_scores() -> dict[str, Any]:
    """The metrics of scores of which noise hides everything."""
    metrics = {"deviance_explained": unknown(-1.0, 1.0, 0.0), "auc": unknown(0.0, 1.0, 0.5)}
    constant = {"deviance_explained": exactly(0.0), "auc": exactly(0.5)}
    return {"metrics": metrics, "constant": constant, "curves": {"roc": None, "calibration": None}}
