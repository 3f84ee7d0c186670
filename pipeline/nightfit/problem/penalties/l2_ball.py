"""The l2 ball as a constraint. Imports numpy and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class L2Ball:
    """||w|| <= radius."""

    name: ClassVar[str] = "l2_ball"
    radius: float
    scalar_field: ClassVar[str | None] = "radius"
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = 0.0
    ball_norm: ClassVar[int | None] = 2
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.radius < math.inf:
            raise ValueError(f"l2_ball: radius must be finite and above 0, got {self.radius!r}")

    def diameter(self, features: int) -> float:
        """2 radius."""
        return 2.0 * self.radius

    def value(self, w: Array) -> float:
        """0 in the ball, up to a relative 1e-9 for the rounding of a projection, and infinite outside."""
        return 0.0 if np.linalg.norm(w) <= self.radius * (1.0 + 1e-9) else math.inf

    def prox(self, w: Array, step: float) -> Array:
        """w radius / max(||w||, radius)."""
        return w * (self.radius / max(float(np.linalg.norm(w)), self.radius))


EXAMPLES: tuple[Penalty, ...] = (L2Ball(radius=1.0), L2Ball(radius=20.0))
