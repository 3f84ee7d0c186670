"""Boundings, one per file: from a unit's gradient slope * x to a bounded vector of integers. Imports numerics and types.

`Bounded`, `NormBounded`, `CoordinateBounded` and `OfFormulas` hold what several of them share.

A bounded contribution counts steps of size `grid(bits)`, at most 2^bits on each side of zero in every coordinate, and is added as int64.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from nightfit.numerics.fused_loops import bounded_sum_loop
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


class NormBounded:
    """Base of boundings of a contribution's norm: it is at most 2^bits steps, and so is each coordinate."""

    __slots__ = ()

    def l2_bound(self, columns: int, bits: int) -> float:
        return 2.0**bits

    def linf_bound(self, bits: int) -> float:
        return 2.0**bits


class CoordinateBounded:
    """Base of boundings of each coordinate, which is at most 2^bits steps; so the norm is at most 2^bits sqrt(columns), rounded up."""

    __slots__ = ()

    def l2_bound(self, columns: int, bits: int) -> float:
        return 2.0**bits * math.nextafter(math.sqrt(columns), math.inf)

    def linf_bound(self, bits: int) -> float:
        return 2.0**bits


class OfFormulas:
    """Base of boundings that are formulas."""

    __slots__ = ()

    @abstractmethod
    def formulas(self, columns: int, bits: int) -> Formulas:
        """The formulas."""

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        formulas = self.formulas(X.shape[1], bits)
        bounded_sum_loop(formulas.factor, formulas.steps)(X, slopes, squares, groups, formulas.parameters, sums)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    """Base of boundings to a public bound, which is 2^bits steps.

    Parameters
    ----------
    bound : float
        Positive and finite.
    """

    name: ClassVar[str]
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"{self.name} needs a positive finite bound, got {self.bound}")

    def grid(self, bits: int) -> float:
        return self.bound / 2.0**bits
