"""The log link of counts and amounts: a margin is the logarithm of a mean. Imports numpy, types and its own package."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.links import Link
from nightfit.types import Array


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


EXAMPLES: tuple[Link, ...] = (Log(),)
