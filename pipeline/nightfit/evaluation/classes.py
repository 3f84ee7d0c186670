"""Metrics of several classes from the noisy answer to `ClassScores`. Imports scores and below."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.evaluation.estimates import Estimate, exactly, unknown
from nightfit.evaluation.scores import KNOWN, Bins, least_known
from nightfit.queries.class_scores import ClassScores
from nightfit.queries.evaluations import SCORE_BINS, score_middles
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class ClassCounts:
    """One-versus-rest counts of each class, the table of true and predicted classes, and sums of log losses, in units.

    Every metric g is a function of degree zero of the counts c, so its error has the variance sum (max(c, 0) + s^2) (dg / dc)^2, as for
    `Bins`. A unit counts once in every class; that its counts belong together is left out where they are of one class, and where classes
    are averaged they are taken to err together, which is too wide rather than too narrow. A mean log loss comes from its sums, and only
    the variance of sampling from the bins.

    Parameters
    ----------
    scores : Array
        Classes x outcomes x bins.
    table : Array
        True classes x predicted ones.
    lost : Array
        Sums of v and of 1 - v, with v a log loss in units of `top`.
    logits : Array
        The middle of each bin.
    top : float
        The largest log loss that counts.
    deviations : (float, float, float)
        Of the noise of a score's count, of a cell's, and of a sum.
    names : tuple of str
        Of the classes.
    """

    scores: Array
    table: Array
    lost: Array
    logits: Array
    top: float
    deviations: tuple[float, float, float]
    names: tuple[str, ...]

    @property
    def positives(self) -> Array:
        """Classes x bins: the units of each class by their own class's score."""
        return self.scores[:, 1]

    @cached_property
    def units(self) -> float:
        return float(self.lost.sum())

    @property
    def rates(self) -> Array:
        """The share of each class; at least one unit's, whatever noise says."""
        found: Array = np.maximum(self.positives.sum(axis=1), 1.0)
        return found / found.sum()

    @property
    def known(self) -> bool:
        """Whether there are more units, of more than one class, than noise would make."""
        enough = self.positives.sum(axis=1) > least_known(self.deviations[0])
        return bool(enough.sum() > 1 and self.units > KNOWN * math.sqrt(2.0) * self.deviations[2])

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

    def best_loss(self) -> Estimate:
        """H with its error: dH / dc = -(log q_j + H) / n."""
        slopes = (np.log(self.rates)[:, None] + self.entropy) / self.units
        return Estimate(self.entropy, self._sampling(slopes) + SCORE_BINS * self.deviations[0] ** 2 * float((slopes**2).sum()))

    def log_loss(self) -> Estimate:
        """L = top a / (a + b) of the sums a of v and b of 1 - v: noise top^2 s^2 (a^2 + b^2) / n^4; and of sampling var f / n."""
        lost = self.top * float(self.lost[0]) / self.units
        return Estimate(lost, self._noise_of_loss + self._sampling((self.losses - lost) / self.units))

    @property
    def _noise_of_loss(self) -> float:
        return (self.top * self.deviations[2]) ** 2 * float(self.lost @ self.lost) / self.units**4

    def _sampling(self, slopes: Array) -> float:
        """The variance of sampling of a function with these derivatives in the counts of units by class and bin."""
        return float((np.maximum(self.positives, 0.0) * slopes**2).sum())

    def deviance(self) -> Estimate:
        """1 - L / H with H = -sum q_j log q_j: d(L / H) / dc = (f - L + (L / H) (log q_j + H)) / (n H), of which the noise of the counts
        enters by H alone.
        """
        lost, entropy = self.log_loss().value, self.entropy
        share, of_class = lost / entropy, np.log(self.rates)[:, None] + entropy
        noise = self._noise_of_loss / entropy**2 + SCORE_BINS * float(
            ((self.deviations[0] * share * of_class / (self.units * entropy)) ** 2).sum()
        )
        return Estimate(1 - share, noise + self._sampling((self.losses - lost + share * of_class) / (self.units * entropy)))

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
            "counted": Estimate(self.units, 2 * self.deviations[2] ** 2),
        }

    def confusion(self) -> dict[str, Any]:
        """Of all units the shares of true and predicted classes, none below zero, and the standard deviation of their noise."""
        total = max(float(self.table.sum()), 1.0)
        shares = np.maximum(self.table, 0.0) / total
        return {"classes": list(self.names), "shares": shares.tolist(), "deviation": self.deviations[1] / total}


def class_counts(query: ClassScores, answer: Array, names: tuple[str, ...], deviation: float) -> ClassCounts | None:
    """The counts of a noisy answer in units; None where noise hides the classes.

    Parameters
    ----------
    query : ClassScores
        That was asked.
    answer : Array
        Of one group, or of everybody.
    names : tuple of str
        Of the classes.
    deviation : float
        Standard deviation of the noise of the answer's counts.
    """
    k, (of_score, of_cell, of_loss) = len(names), query.weights
    scores, table, lost = np.split(answer, [query.cells, query.cells + k**2])
    counts = ClassCounts(
        scores=scores.reshape(k, 2, SCORE_BINS) / of_score,
        table=table.reshape(k, k) / of_cell,
        lost=lost / of_loss,
        logits=score_middles(query.low, query.high),
        top=query.top,
        deviations=(deviation / of_score, deviation / of_cell, deviation / of_loss),
        names=names,
    )
    return counts if counts.known else None


def hidden_classes() -> dict[str, Any]:
    """The metrics of classes of which noise hides everything."""
    metrics = {"deviance_explained": unknown(-1.0, 1.0, 0.0), "accuracy": unknown(0.0, 1.0, 0.5)}
    return {"metrics": metrics, "constant": {"deviance_explained": exactly(0.0)}, "curves": {"roc": None, "calibration": None}}
