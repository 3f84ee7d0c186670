"""No penalty at all. Imports types."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class NoPenalty:
    """0, so that the proximal operator is the identity."""

    name: ClassVar[str] = "none"
    scalar_field: ClassVar[str | None] = None
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = 0.0
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def diameter(self, features: int) -> float | None:
        return None

    def value(self, w: Array) -> float:
        """0."""
        return 0.0

    def prox(self, w: Array, step: float) -> Array:
        """w."""
        return w.copy()


EXAMPLES: tuple[Penalty, ...] = (NoPenalty(),)
