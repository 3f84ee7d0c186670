"""The log link of counts and amounts: a margin is the logarithm of a mean. Imports numpy, types and its own package."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.links import Link
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """z = log(mean of y)."""

    name: ClassVar[str] = "log"
    probability: ClassVar[bool] = False

    def inverse(self, margin: Array) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            mean: Array = np.exp(margin)
        return mean


EXAMPLES: tuple[Link, ...] = (Log(),)
