"""The l1 penalty of the lasso. Imports numpy and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class L1:
    """weight ||w||_1."""

    name: ClassVar[str] = "l1"
    weight: float
    scalar_field: ClassVar[str | None] = "weight"
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = None
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight < math.inf:
            raise ValueError(f"l1: weight must be finite and at least 0, got {self.weight!r}")

    def diameter(self, features: int) -> float | None:
        return None

    def value(self, w: Array) -> float:
        """weight sum_j |w_j|."""
        return self.weight * float(np.abs(w).sum())

    def prox(self, w: Array, step: float) -> Array:
        """sign(w) max(|w| - step weight, 0), the soft threshold."""
        return np.sign(w) * np.maximum(np.abs(w) - step * self.weight, 0.0)


EXAMPLES: tuple[Penalty, ...] = (L1(weight=0.0), L1(weight=0.01), L1(weight=2.0))
