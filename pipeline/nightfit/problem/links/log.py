"""The log link of counts and amounts: a margin is the logarithm of a mean. Imports numpy, types and its own package."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.links import Link
from nightfit.records.expressions import Expression, clipped, of
from nightfit.types import Array

LARGEST = 709.0  # its exponential, 8e307, is about the largest float64


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """z = log(mean of y), for means of a public or paid range [low, high]."""

    name: ClassVar[str] = "log"
    probability: ClassVar[bool] = False
    low: float = 0.0
    high: float = math.inf

    def inverse(self, margin: Array) -> Array:
        """exp(z), clamped to [low, high]."""
        with np.errstate(over="ignore"):
            mean: Array = np.clip(np.exp(margin), self.low, self.high)
        return mean

    def expression(self, margin: Expression) -> Expression:
        """exp(z), clamped to [low, high]."""
        mean = of("exp", clipped(margin, -LARGEST, LARGEST))
        return of("max", mean, self.low) if math.isinf(self.high) else clipped(mean, self.low, self.high)


EXAMPLES: tuple[Link, ...] = (Log(),)
