"""The identity link: a margin is the prediction. Imports types and its own package."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.problem.links import Link
from nightfit.records.expressions import Expression
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """z = y."""

    name: ClassVar[str] = "identity"
    probability: ClassVar[bool] = False

    def inverse(self, margin: Array) -> Array:
        """z."""
        return margin

    def expression(self, margin: Expression) -> Expression:
        """z."""
        return margin


EXAMPLES: tuple[Link, ...] = (Identity(),)
