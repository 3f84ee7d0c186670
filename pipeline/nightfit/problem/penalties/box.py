"""A box as a constraint. Imports numpy and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """low <= w_j <= high for every coefficient; zero need not lie inside."""

    name: ClassVar[str] = "box"
    low: float
    high: float
    scalar_field: ClassVar[str | None] = None
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = None
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not -math.inf < self.low <= self.high < math.inf:
            raise ValueError(f"box: low and high must be finite with low <= high, got low {self.low!r} and high {self.high!r}")

    def diameter(self, features: int) -> float:
        """(high - low) sqrt(features), the diagonal."""
        return (self.high - self.low) * math.sqrt(features)

    def value(self, w: Array) -> float:
        """0 in the box, up to 1e-9 of its larger side, and infinite outside."""
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return 0.0 if np.all((self.low - slack <= w) & (w <= self.high + slack)) else math.inf

    def prox(self, w: Array, step: float) -> Array:
        """clip(w, low, high)."""
        return np.clip(w, self.low, self.high)


EXAMPLES: tuple[Penalty, ...] = (Box(low=-1.0, high=2.0), Box(low=0.0, high=0.5), Box(low=3.0, high=3.0))
