"""Boundings, one per file: from a unit's gradient slope * x to a bounded vector of integers. Imports numerics and types.

A bounded contribution counts steps of size `grid(bits)`, at most 2^bits on each side of zero in every coordinate, and is added as int64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from nightfit.types import Array, Integers


@dataclass(frozen=True, slots=True)
class Formulas:
    """A bounding as two formulas: coordinate j of a row's contribution is steps(factor(slope, square, parameters) x_j, parameters).

    All are marked `register_jitable`; `fused_loops` compiles them into a loop.

    Parameters
    ----------
    factor, steps : callable
        Of a row's slope and square, and of a product of the factor and a coordinate.
    parameters : tuple of float
        Of all formulas.
    whole : callable, optional
        `factor` for rows of whole numbers (`Rows`), as a whole number: a contribution is whole x_j then. None where coordinates are bounded
        one by one, or where a factor would have too few steps.
    """

    factor: Callable[..., Any]
    steps: Callable[..., Any]
    parameters: tuple[float, ...]
    whole: Callable[..., Any] | None = None


class Bounding(Protocol):
    """Turns a unit's gradient into a bounded contribution, and declares the bounds that hold for every input.

    `name` identifies it among boundings.
    """

    name: ClassVar[str]

    def grid(self, bits: int) -> float:
        """The value of one grid step."""

    def l2_bound(self, columns: int, bits: int) -> float:
        """The largest l2 norm of a contribution in steps, rounded up."""

    def linf_bound(self, bits: int) -> float:
        """The largest absolute value of a coordinate of a contribution in steps."""

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        """sums[groups[i]] += the bounded slopes[i] * X[i] in steps; a row that is not finite adds a bounded contribution or zero.

        squares[i] is X[i] . X[i], which `exact.margins` computes along with the margins.
        """

    def formulas(self, columns: int, bits: int) -> Formulas | None:
        """The formulas of what `add` computes, for a loop with a loss's slope in it; None if there are none: then `add` is called."""
