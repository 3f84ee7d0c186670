"""Losses, one per file: what a margin costs and how fast that cost grows. Imports numerics and types."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

from nightfit.types import Array


class Loss(Protocol):
    classification: ClassVar[bool]
    convex: ClassVar[bool]

    @property
    def smoothness(self) -> float:
        """The supremum of |d slope / dz|, infinite where the slope jumps."""

    @property
    def lipschitz(self) -> float:
        """The supremum of |slope|, infinite where there is none."""

    def value(self, y: Array, z: Array) -> Array:
        """The loss of each row from its target y (-1 or +1 in classification) and margin z = x.w, whatever the other rows are."""

    def slope(self, y: Array, z: Array) -> Array:
        """d value / dz of each row; like value, it neither raises nor warns on any float."""


@runtime_checkable
class Written(Loss, Protocol):
    """A loss by a formula, which a pass over rows takes into its loop."""

    def formula(self) -> tuple[Callable[..., Any], tuple[float, ...]]:
        """slope(y, z, *numbers) of one row, marked `register_jitable`, and its numbers: the same as `slope`, to the last bit."""
