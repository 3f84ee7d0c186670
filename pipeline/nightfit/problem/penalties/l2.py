"""The squared l2 penalty of ridge regression. Imports types."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class L2:
    """weight ||w||^2 / 2, which is weight-strongly convex."""

    name: ClassVar[str] = "l2"
    weight: float
    scalar_field: ClassVar[str | None] = "weight"
    convex: ClassVar[bool] = True
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight < math.inf:
            raise ValueError(f"l2: weight must be finite and at least 0, got {self.weight!r}")

    @property
    def strong_convexity(self) -> float:
        return self.weight

    @property
    def ridge(self) -> float:
        return self.weight

    def diameter(self, features: int) -> float | None:
        return None

    def value(self, w: Array) -> float:
        """weight / 2 ||w||^2."""
        return 0.5 * self.weight * float(w @ w)

    def prox(self, w: Array, step: float) -> Array:
        """w / (1 + step weight)."""
        return w / (1.0 + step * self.weight)


EXAMPLES: tuple[Penalty, ...] = (L2(weight=0.0), L2(weight=0.01), L2(weight=3.0))
