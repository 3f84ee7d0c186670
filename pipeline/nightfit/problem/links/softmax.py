"""The softmax link of several labels: margins are log-odds of classes. Imports numpy, records and types."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.records.expressions import Expression, of
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Softmax:
    """p_j = exp(s_j) / sum of all exp(s), for the scores s of the classes."""

    name: ClassVar[str] = "softmax"
    probability: ClassVar[bool] = True

    def inverse(self, margin: Array) -> Array:
        """The probabilities of the classes (rows x classes) from their scores; rows with NaN stay NaN in silence."""
        with np.errstate(invalid="ignore"):
            odds = np.exp(margin - margin.max(axis=1, keepdims=True))
        probabilities: Array = odds / odds.sum(axis=1, keepdims=True)
        return probabilities

    def expression(self, margin: Expression) -> Expression:
        """The odds exp(s) of one class: its probability is its share of the sum over all classes."""
        return of("exp", margin)
