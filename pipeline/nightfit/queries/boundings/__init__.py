"""How one unit's gradient slope * x becomes a bounded vector of whole grid steps. Imports numpy, numba, nightfit.numerics.exact and types.

A bounded contribution has 2^bits steps of size `grid(bits)` on each side of zero in every coordinate, and is added as int64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from nightfit.types import Array, Integers


@dataclass(frozen=True, slots=True)
class Formulas:
    """A row's factor(slope, square, numbers), and the whole steps(factor x_j, numbers) of each of its coordinates (`pass_of`)."""

    factor: Callable[..., Any]
    steps: Callable[..., Any]
    numbers: tuple[float, ...]


class Bounding(Protocol):
    """`name` identifies it among boundings."""

    name: ClassVar[str]

    def grid(self, bits: int) -> float:
        """The value of one step."""

    def l2_bound(self, columns: int, bits: int) -> float:
        """The largest l2 norm of a contribution, in steps, rounded up."""

    def linf_bound(self, bits: int) -> float:
        """The largest coordinate of a contribution, in steps."""

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        """sums[groups[i]] += the bounded slopes[i] * X[i], in whole steps; a row that is not finite adds a bounded number or zero.

        squares[i] is X[i] . X[i], which the reading of the margins gives for nothing.
        """

    def formulas(self, columns: int, bits: int) -> Formulas | None:
        """What `add` computes, for a loop that a loss's formula is fused into; None where there is none: then the pass calls `add`."""
