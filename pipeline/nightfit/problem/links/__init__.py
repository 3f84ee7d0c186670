"""Links, one per file: what a margin z = x.w says about the target. Imports records and types."""

from typing import ClassVar, Protocol

from nightfit.records.expressions import Expression
from nightfit.types import Array


class Link(Protocol):
    """`name` is what releases call it; `probability` says whether `inverse` gives that of the label 1."""

    name: ClassVar[str]
    probability: ClassVar[bool]

    def inverse(self, margin: Array) -> Array:
        """The prediction at each margin, in the (scaled) target's units; it never falls, and NaN stays NaN in silence."""

    def expression(self, margin: Expression) -> Expression:
        """What `inverse` computes, as a formula for other systems."""
