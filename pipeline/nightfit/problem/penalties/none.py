"""No penalty at all. May import numpy, nightfit.types and its own room."""

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
    strong_convexity: ClassVar[float] = 0.0

    def value(self, w: Array) -> float:
        """0."""
        return 0.0

    def prox(self, w: Array, step: float) -> Array:
        """w."""
        return w.copy()


EXAMPLES: tuple[Penalty, ...] = (NoPenalty(),)
