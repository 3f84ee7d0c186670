"""The logit link of labels: a margin is a log-odds. Imports numpy, types and its own package."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.links import Link
from nightfit.records.expressions import Expression, clipped, of
from nightfit.types import Array

LARGEST = 700.0  # its exponential is a float64; beyond it predictions change by less than e^-700 of their range


@dataclass(frozen=True, kw_only=True, slots=True)
class Logit:
    """z = log(p / (1 - p)) for the probability p of the label 1."""

    name: ClassVar[str] = "logit"
    probability: ClassVar[bool] = True

    def inverse(self, margin: Array) -> Array:
        """1 / (1 + exp(-z))."""
        with np.errstate(over="ignore"):
            probability: Array = 1.0 / (1.0 + np.exp(-margin))
        return probability

    def expression(self, margin: Expression) -> Expression:
        """1 / (1 + exp(-z))."""
        low = clipped(of("mul", margin, -1), -LARGEST, LARGEST)
        return of("div", 1, of("add", of("exp", low), 1))


EXAMPLES: tuple[Link, ...] = (Logit(),)
