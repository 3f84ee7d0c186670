"""Metrics of several classes from the noisy answer to `ClassScores`. Imports scores and below."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.evaluation.estimates import Estimate, exactly, unknown
from nightfit.evaluation.scores import Bins
from nightfit.queries.evaluations import SCORE_BINS, score_middles
from nightfit.types import Array


@dataclass(frozen=True)
class ClassCounts:
    """One-versus-rest counts of each class, and the table of true and predicted classes, in units.

    Every metric g is a function of degree zero of the counts c, so its error has the variance sum (max(c, 0) + s^2) (dg / dc)^2, as for
    `Bins`. A unit counts once in every class; that its counts belong together is left out where they are of one class, and where classes
    are averaged they are taken to err together, which is too wide rather than too narrow.

    Parameters
    ----------
    scores : Array
        Classes x outcomes x bins.
    table : Array
        True classes x predicted ones.
    logits : Array
        The middle of each bin.
    deviations : (float, float)
        Of the noise of a score's count, and of a cell's.
    names : tuple of str
        Of the classes.
    """

    scores: Array
    table: Array
    logits: Array
    deviations: tuple[float, float]
    names: tuple[str, ...]

    @property
    def positives(self) -> Array:
        """Classes x bins: the units of each class by their own class's score."""
        return self.scores[:, 1]

    @cached_property
    def units(self) -> float:
        return float(self.positives.sum())

    @property
    def rates(self) -> Array:
        """The share of each class; at least one unit's, whatever noise says."""
        found: Array = np.maximum(self.positives.sum(axis=1), 1.0)
        return found / found.sum()

    @property
    def known(self) -> bool:
        """Whether there are more units, of more than one class, than noise would make."""
        least = 3.0 * self.deviations[0] * math.sqrt(SCORE_BINS)
        return bool((self.positives.sum(axis=1) > least).sum() > 1 and self.units > least * math.sqrt(len(self.names)))

    def bins_of(self, place: int) -> Bins:
        """One class against all others."""
        return Bins(self.scores[place, 0], self.scores[place, 1], self.logits, self.deviations[0])

    @property
    def losses(self) -> Array:
        """-log of the probability of a unit's own class, in each bin."""
        return self.bins_of(0).log_losses[1]

    @property
    def entropy(self) -> float:
        """The log loss of the shares of the classes."""
        return -float(self.rates @ np.log(self.rates))

    def log_loss(self) -> Estimate:
        """L = sum of the losses of all units' own classes, over n; dL / dc = (f - L) / n."""
        lost = float((self.positives @ self.losses).sum()) / self.units
        return self._of_positives(lost, np.broadcast_to((self.losses - lost) / self.units, self.positives.shape))

    def deviance(self) -> Estimate:
        """1 - L / H with H = -sum q_j log q_j: d(L / H) / dc = (f - L + (L / H) (log q_j + H)) / (n H)."""
        lost, entropy = self.log_loss().value, self.entropy
        share = lost / entropy
        slopes = (self.losses - lost + share * (np.log(self.rates)[:, None] + entropy)) / (self.units * entropy)
        return self._of_positives(1 - share, slopes)

    def _of_positives(self, value: float, slopes: Array) -> Estimate:
        return Estimate(value, float(((np.maximum(self.positives, 0.0) + self.deviations[0] ** 2) * slopes**2).sum()))

    def accuracy(self) -> Estimate:
        """The diagonal of the table over all of it."""
        n = max(float(self.table.sum()), 1.0)
        value = float(np.trace(self.table)) / n
        slopes = (np.eye(len(self.table)) - value) / n
        return Estimate(value, float(((np.maximum(self.table, 0.0) + self.deviations[1] ** 2) * slopes**2).sum()))

    def macro_auc(self) -> Estimate | None:
        """The mean of the areas of all classes against all others; None if noise hides one of them."""
        each = [self.bins_of(place) for place in range(len(self.names))]
        if not all(bins.known for bins in each):
            return None
        found = [bins.auc() for bins in each]
        return Estimate(float(np.mean([one.value for one in found])), float(np.mean([math.sqrt(one.variance) for one in found])) ** 2)

    def metrics(self) -> dict[str, Any]:
        """Metrics, those of the best constant, and the table, as plain data."""
        area = self.macro_auc()
        found = {"deviance_explained": self.deviance().interval(high=1.0), "accuracy": self.accuracy().interval(0.0, 1.0)}
        if area is not None:
            found["macro_auc"] = area.interval(0.0, 1.0)
        constant = {"deviance_explained": 0.0, "accuracy": float(self.rates.max()), "macro_auc": 0.5, "log_loss": self.entropy}
        metrics = {**found, "log_loss": self.log_loss().interval(low=0.0)}
        return {
            "metrics": metrics,
            "constant": {name: exactly(value) for name, value in constant.items() if name in metrics},
            "curves": {"roc": None, "calibration": None, "confusion": self.confusion()},
            "counted": Estimate(self.units, self.positives.size * self.deviations[0] ** 2),
        }

    def confusion(self) -> dict[str, Any]:
        """Of all units the shares of true and predicted classes, none below zero, and the standard deviation of their noise."""
        total = max(float(self.table.sum()), 1.0)
        shares = np.maximum(self.table, 0.0) / total
        return {"classes": list(self.names), "shares": shares.tolist(), "deviation": self.deviations[1] / total}


def class_counts(
    answer: Array, weights: tuple[float, float], names: tuple[str, ...], low: float, high: float, deviation: float
) -> ClassCounts | None:
    """The counts of a noisy answer in units; None where noise hides the classes.

    Parameters
    ----------
    answer : Array
        Of `ClassScores`.
    weights : (float, float)
        Of a score's count, and of a cell's.
    names : tuple of str
        Of the classes.
    low, high : float
        The range of log-odds.
    deviation : float
        Standard deviation of the noise of the answer's counts.
    """
    k = len(names)
    scores, table = answer[: 2 * k * SCORE_BINS].reshape(k, 2, SCORE_BINS), answer[2 * k * SCORE_BINS :].reshape(k, k)
    noise = (deviation / weights[0], deviation / weights[1])
    counts = ClassCounts(scores / weights[0], table / weights[1], score_middles(low, high), noise, names)
    return counts if counts.known else None


def hidden_classes() -> dict[str, Any]:
    """The metrics of classes of which noise hides everything."""
    metrics = {"deviance_explained": unknown(-1.0, 1.0, 0.0), "accuracy": unknown(0.0, 1.0, 0.5)}
    return {"metrics": metrics, "constant": {"deviance_explained": exactly(0.0)}, "curves": {"roc": None, "calibration": None}}
