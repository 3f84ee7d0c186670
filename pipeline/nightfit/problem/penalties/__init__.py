"""Penalties, one per file: what a coefficient vector costs, or where it must lie. May import numpy, numba and nightfit.types."""

from typing import ClassVar, Protocol

from nightfit.types import Array


class Penalty(Protocol):
    """A function of the coefficients, without the intercept. scalar_field is the field that `penalty: {l1: 0.01}` fills."""

    scalar_field: ClassVar[str | None]
    convex: ClassVar[bool]

    @property
    def strong_convexity(self) -> float:
        """An m >= 0 for which value(w) - m/2 ||w||^2 is convex; 0 where even value is not."""

    def value(self, w: Array) -> float:
        """The penalty of w, infinite outside a constraint set."""

    def prox(self, w: Array, step: float) -> Array:
        """argmin_u value(u) + ||u - w||^2 / (2 step), a new array; the projection where the penalty is a constraint."""
