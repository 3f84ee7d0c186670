"""Penalties, one per file: what a coefficient vector costs, or where it must lie. Imports types."""

from typing import ClassVar, Protocol

from nightfit.types import Array


class Penalty(Protocol):
    """A function of the coefficients, without the intercept.

    `name` is what configurations, plans and releases call it. `scalar_field` is the field that `penalty: {l1: 0.01}` fills.
    """

    name: ClassVar[str]
    scalar_field: ClassVar[str | None]
    convex: ClassVar[bool]

    @property
    def ridge(self) -> float | None:
        """The m for which value(w) = m/2 ||w||^2, everywhere or inside an l2 ball of `radius`; None if there is no such m."""

    @property
    def ball_norm(self) -> int | None:
        """1 or 2 if coefficients are confined to the l1 or l2 ball of `radius` around zero; None if they are not."""

    @property
    def radius(self) -> float | None:
        """The radius of the ball that coefficients are confined to; None if they are not."""

    @property
    def nonzeros(self) -> int | None:
        """The most coefficients that may differ from zero; None where all may."""

    @property
    def columns(self) -> int | None:
        """The number of coefficients it is made for; None where any will do."""

    def diameter(self, features: int) -> float | None:
        """The largest l2 distance of two vectors of `features` coefficients that the penalty allows; None where there is none."""

    @property
    def strong_convexity(self) -> float:
        """An m >= 0 for which value(w) - m/2 ||w||^2 is convex; 0 where even value is not."""

    def value(self, w: Array) -> float:
        """The penalty of w, infinite outside a constraint set."""

    def prox(self, w: Array, step: float) -> Array:
        """argmin_u value(u) + ||u - w||^2 / (2 step), a new array; the projection where the penalty is a constraint."""


def is_zero(penalty: Penalty) -> bool:
    """Whether value(w) is 0 for every w, so that the prox is the identity."""
    return penalty.ridge == 0.0 and penalty.radius is None
