"""Magnitudes of a row (columns, norms, residuals) and the logarithmic grids they are counted on. Imports rows and below."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.rows import RESOLUTION, Rotation, Rows
from nightfit.types import Array, Block


@dataclass(frozen=True, kw_only=True, slots=True)
class LogGrid:
    """Bins [2^(low + i step), 2^(low + (i + 1) step)), i = 0 .. bins - 1: public, the same for every data set.

    End-bin rule: a value above the last bin counts in the last, a positive value below the first counts in the first; zero and what is
    not a number count nowhere.
    """

    low: float
    step: float
    bins: int

    @property
    def edges(self) -> Array:
        """The lower edge of each bin."""
        return np.exp2(self.low + self.step * np.arange(self.bins))

    @property
    def upper(self) -> Array:
        """The upper edge of each bin."""
        return self.edges * 2.0**self.step

    @property
    def middles(self) -> Array:
        """The geometric middle of each bin."""
        return self.edges * 2.0 ** (self.step / 2)


COLUMN_GRID = LogGrid(low=-32.0, step=0.5, bins=145)
"""Magnitudes of a column: 2^-32 to 2^40.5 in half octaves, so that no unit of measurement falls outside. A scale need only be known
within sqrt(2): slopes hardly depend on the clamp. Finer bins would hold fewer records each."""

NORM_GRID = LogGrid(low=-8.0, step=0.25, bins=89)
"""Norms of scaled rows: 2^-8 to 2^14.25 in quarter octaves. A row of 4,000 columns clamped at 8 scales has a norm of at most 2^9; all
noise is in proportion to the cap that is chosen here, hence the finer bins."""

RESIDUAL_GRID = LogGrid(low=-32.0, step=0.5, bins=145)
"""Residuals in the target's own units: the range of COLUMN_GRID, for the same reason."""

OCTAVE_RESIDUAL_GRID = LogGrid(low=-32.0, step=1.0, bins=73)
"""RESIDUAL_GRID with bins twice as wide, for a histogram whose noise would hide half octaves."""

TWO_OCTAVE_RESIDUAL_GRID = LogGrid(low=-32.0, step=2.0, bins=37)
"""RESIDUAL_GRID with bins four times as wide, for a histogram whose noise would hide octaves."""


class Measure(Protocol):
    """Magnitudes of a row, each at least zero, from that row alone."""

    @property
    def width(self) -> int:
        """How many magnitudes a row has."""

    def magnitudes(self, block: Block) -> Array:
        """Rows x width."""


@dataclass(frozen=True, kw_only=True)
class ColumnMagnitudes:
    """|x_j| of the chosen columns; zero for those that are `known` already."""

    columns: tuple[int, ...]
    known: npt.NDArray[np.bool_]

    @property
    def width(self) -> int:
        return len(self.columns)

    def magnitudes(self, block: Block) -> Array:
        values: Array = np.abs(block.X[:, self.columns])
        values[:, self.known] = 0.0
        return values


@dataclass(frozen=True, kw_only=True)
class ColumnSpreads:
    """|x_j - centre_j| of the chosen columns, at least the first bin's edge, so that every row has the same weight in every column;
    zero for a row of zeros (a null record).
    """

    columns: tuple[int, ...]
    centre: Array

    @property
    def width(self) -> int:
        return len(self.columns)

    def magnitudes(self, block: Block) -> Array:
        values = np.maximum(np.abs(block.X[:, self.columns] - self.centre), COLUMN_GRID.edges[0])
        values[~block.X.any(axis=1)] = 0.0
        return values


@dataclass(frozen=True, kw_only=True)
class Norm:
    """||x|| of the scaled row, or ||A x|| of the rotated one."""

    rows: Rows
    rotation: Rotation | None = None
    width: int = 1

    def magnitudes(self, block: Block) -> Array:
        out = np.empty((len(block), 1))
        unused = np.zeros(self.rows.columns)
        for place, q in self.rows.tiles(block, len(block)):
            rotated = q if self.rotation is None else self.rotation.applied(q)
            squares = np.empty(len(q))
            margins(rotated, unused, np.empty(len(q)), squares)
            out[place, 0] = np.sqrt(squares) * (2.0**-RESOLUTION if self.rotation is None else self.rotation.step)
        return out


@dataclass(frozen=True, kw_only=True)
class Residual:
    """|slope(y, x . weights)| of the scaled row, at least the first bin's edge, because a residual of zero counts too; zero for a row
    of zeros (a null record).
    """

    rows: Rows
    loss: Loss
    weights: Array
    width: int = 1

    def magnitudes(self, block: Block) -> Array:
        return counted(np.abs(self.signed(block)))[:, None]

    def signed(self, block: Block) -> Array:
        """-slope(y, x . weights) of each row; not a number for a null record."""
        out = np.empty(len(block))
        for place, q in self.rows.tiles(block, len(block)):
            products = np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, np.empty(len(q)))
            with np.errstate(all="ignore"):
                out[place] = np.where(q.any(axis=1), -self.loss.slope(block.y[place], products), math.nan)
        return out


@dataclass(frozen=True, kw_only=True)
class SignedResidual(Residual):
    """The magnitude of the residual in two columns, positive and negative residuals apart. One of the two is zero, so both cost no more
    than one.
    """

    width: int = 2

    def magnitudes(self, block: Block) -> Array:
        signed = self.signed(block)
        values = counted(np.abs(signed))
        return np.column_stack([np.where(signed >= 0.0, values, 0.0), np.where(signed < 0.0, values, 0.0)])


def counted(residuals: Array) -> Array:
    """Residual magnitudes, raised to the first bin's edge; zero, which counts nowhere, for what is not a number."""
    return np.where(np.isnan(residuals), 0.0, np.maximum(residuals, RESIDUAL_GRID.edges[0]))
