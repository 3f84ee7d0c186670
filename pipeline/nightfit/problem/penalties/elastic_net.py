"""The elastic net, l1 and squared l2 together. Imports numpy and types."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class ElasticNet:
    """l1 ||w||_1 + l2 ||w||^2 / 2, which is l2-strongly convex.

    The naive elastic net of Zou and Hastie (2005), without their rescaling; their lambda_1 is our l1, their lambda_2 our l2 / 2.
    """

    name: ClassVar[str] = "elastic_net"
    l1: float
    l2: float
    scalar_field: ClassVar[str | None] = None
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = None
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    nonzeros: ClassVar[int | None] = None
    columns: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.l1 < math.inf:
            raise ValueError(f"elastic_net: l1 must be finite and at least 0, got {self.l1!r}")
        if not 0.0 <= self.l2 < math.inf:
            raise ValueError(f"elastic_net: l2 must be finite and at least 0, got {self.l2!r}")

    @property
    def strong_convexity(self) -> float:
        return self.l2

    def diameter(self, features: int) -> float | None:
        return None

    def value(self, w: Array) -> float:
        """l1 ||w||_1 + l2 / 2 ||w||^2."""
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.l2 * float(w @ w)

    def prox(self, w: Array, step: float) -> Array:
        """sign(w) max(|w| - step l1, 0) / (1 + step l2), the soft threshold and then the ridge's shrinkage."""
        return np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0.0) / (1.0 + step * self.l2)


EXAMPLES: tuple[Penalty, ...] = (ElasticNet(l1=0.01, l2=0.1), ElasticNet(l1=2.0, l2=3.0))
