"""The l1 ball as a constraint. Imports numpy and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class L1Ball:
    """||w||_1 <= radius."""

    name: ClassVar[str] = "l1_ball"
    radius: float
    scalar_field: ClassVar[str | None] = "radius"
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = None
    ball_norm: ClassVar[int | None] = 1
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.radius < math.inf:
            raise ValueError(f"l1_ball: radius must be finite and above 0, got {self.radius!r}")

    def diameter(self, features: int) -> float:
        """2 radius: of two opposite vertices."""
        return 2.0 * self.radius

    def value(self, w: Array) -> float:
        """0 in the ball, up to a relative 1e-9 for the rounding of a projection, and infinite outside."""
        return 0.0 if np.abs(w).sum() <= self.radius * (1.0 + 1e-9) else math.inf

    def prox(self, w: Array, step: float) -> Array:
        """sign(w) max(|w| - theta, 0), with the theta that leaves a norm of radius; w itself inside the ball.

        Duchi et al. (2008), fig. 1; their mu_j is our sorted magnitude, their rho our support, their z our radius. Everything is
        measured from the largest magnitude, where surviving magnitudes differ by at most the radius, so that a huge w loses nothing.
        """
        magnitude = np.abs(w)
        if magnitude.sum() <= self.radius:
            return w.copy()
        below = magnitude - float(magnitude.max())
        descending = np.sort(below)[::-1]
        theta = (np.cumsum(descending) - self.radius) / np.arange(1, len(w) + 1)
        support = np.count_nonzero(descending > theta)
        return np.sign(w) * np.maximum(below - float(theta[support - 1]), 0.0)


EXAMPLES: tuple[Penalty, ...] = (L1Ball(radius=1.0), L1Ball(radius=20.0))
