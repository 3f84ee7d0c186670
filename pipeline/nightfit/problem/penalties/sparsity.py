"""A limit on the number of coefficients that are not zero. Imports numpy and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Sparsity:
    """At most `nonzeros` coefficients are not zero, as in iterative hard thresholding (Blumensath and Davies 2009).

    The set is not convex: the projection may move two near points far apart, and a mean of feasible points may lie outside.
    """

    name: ClassVar[str] = "sparsity"
    nonzeros: int
    scalar_field: ClassVar[str | None] = "nonzeros"
    convex: ClassVar[bool] = False
    ridge: ClassVar[float | None] = None
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    columns: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.nonzeros, int) or isinstance(self.nonzeros, bool) or self.nonzeros < 1:
            raise ValueError(f"sparsity: nonzeros must be a finite whole number of at least 1, got {self.nonzeros!r}")

    def diameter(self, features: int) -> float | None:
        return None

    def value(self, w: Array) -> float:
        """0 with at most `nonzeros` coefficients other than zero, else infinite."""
        return 0.0 if np.count_nonzero(w) <= self.nonzeros else math.inf

    def prox(self, w: Array, step: float) -> Array:
        """w_j for the `nonzeros` largest |w_j|, of equals the first, and 0 for the rest."""
        kept = np.argsort(-np.abs(w), kind="stable")[: self.nonzeros]
        sparse = np.zeros_like(w)
        sparse[kept] = w[kept]
        return sparse


EXAMPLES: tuple[Penalty, ...] = (Sparsity(nonzeros=1), Sparsity(nonzeros=3))
