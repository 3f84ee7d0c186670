"""Magnitudes of a row (columns, norms, residuals) and the logarithmic grids they are counted on. Imports rows and below."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.rows import RESOLUTION, Rotation, Rows
from nightfit.types import Array, Block, Integers

FRACTION_BITS, EXPONENT_BIAS = 52, 1023
"""Of a float64."""

FRACTION = 2**FRACTION_BITS - 1
"""The bits of a float64's fraction."""

MOST_PARTS = 4
"""Bins of an octave at most: every number is compared with one edge less."""


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

    def of_bits(self) -> "BitBins":
        """How the bin of a positive number is read from its bits, without a search.

        Raises
        ------
        ValueError
            If bins are not 1/4, 1/2, 1, 2, 4 ... octaves wide, or do not start at a multiple of the smaller of their width and an octave.
        """
        parts, octaves = max(1, int(1 / self.step)), max(1, int(self.step))
        if self.step * parts != octaves or parts not in (1, 2, MOST_PARTS) or octaves & (octaves - 1) or self.low * parts % 1:
            raise ValueError(f"bins must be 1/{MOST_PARTS}, 1/2, 1, 2, 4 ... octaves wide, and start at a multiple of that or of 1: {self}")
        edges = np.exp2(np.arange(1, parts) / parts).view(np.int64) & FRACTION
        return BitBins(
            low=float(self.edges[0]),
            high=float(self.edges[-1]),
            parts=parts,
            inside=tuple(edges.tolist()) or (FRACTION + 1,),
            first=int(parts * (EXPONENT_BIAS + self.low)),
            shift=octaves.bit_length() - 1,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BitBins:
    """A LogGrid in terms of a float64's bits.

    A float64 is 2^e (1 + f / 2^52), so an octave has one e, and its edges lie at the same f in every octave. Of `parts` equal parts of
    an octave, a number lies in part p = parts e + the number of edges `inside` an octave that are not above f. Its bin is
    (p - first) >> shift. What lies outside of [low, high], the first and the last edge, is moved there first: the end-bin rule. So there
    are no subnormal numbers. Broken by test_the_bin_of_a_number_is_the_one_that_a_search_of_the_edges_finds.
    """

    low: float
    high: float
    parts: int
    inside: tuple[int, ...]
    first: int
    shift: int


COLUMN_GRID = LogGrid(low=-32.0, step=0.5, bins=145)
"""Magnitudes of a column: 2^-32 to 2^40.5 in half octaves, so that no unit of measurement falls outside. A scale need only be known
within sqrt(2): slopes hardly depend on the clamp. Finer bins would hold fewer records each."""

COARSE_COLUMN_GRID = LogGrid(low=-32.0, step=8.0, bins=9)
"""The range of COLUMN_GRID, 2^-32 to 2^40, in bins of eight octaves: it says where a column need be looked at closely."""

WINDOW_GRID = LogGrid(low=-0.5, step=0.5, bins=18)
"""One bin of COARSE_COLUMN_GRID in the half octaves of COLUMN_GRID, after a bin for what lies below and before one for what lies above."""

NORM_GRID = LogGrid(low=-8.0, step=0.25, bins=89)
"""Norms of scaled rows: 2^-8 to 2^14.25 in quarter octaves. A row of 4,000 columns clamped at 8 scales has a norm of at most 2^9; all
noise is in proportion to the cap that is chosen here, hence the finer bins."""

RESIDUAL_GRID = LogGrid(low=-32.0, step=0.5, bins=145)
"""Residuals in the target's own units: the range of COLUMN_GRID, for the same reason."""

OCTAVE_RESIDUAL_GRID = LogGrid(low=-32.0, step=1.0, bins=73)
"""RESIDUAL_GRID with bins twice as wide, for a histogram whose noise would hide half octaves."""

TWO_OCTAVE_RESIDUAL_GRID = LogGrid(low=-32.0, step=2.0, bins=37)
"""RESIDUAL_GRID with bins four times as wide, for a histogram whose noise would hide octaves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Distances:
    """The magnitudes |values_ij - centre_j| of each row i and each j of `columns`.

    Parameters
    ----------
    values : Array
        Rows x any number of columns, C-contiguous: often the block's own, which is not copied.
    centre : Array
        One for each column of `values`.
    columns : array of int64
        The columns of `values` that have a magnitude, in the order of the answer.
    known : array of bool
        Of `columns`: those whose magnitudes are not counted.
    zeros : bool
        Whether a magnitude of zero counts, in the first bin. It never does in a row of zeros (a null record).
    """

    values: Array
    centre: Array
    columns: Integers
    known: npt.NDArray[np.bool_]
    zeros: bool = False


def as_they_are(values: Array) -> Distances:
    """Distances of numbers, rows x columns, from zero."""
    columns = values.shape[1]
    return Distances(values=values, centre=np.zeros(columns), columns=np.arange(columns), known=np.zeros(columns, dtype=np.bool_))


class Measure(Protocol):
    """Magnitudes of a row, each at least zero, from that row alone."""

    @property
    def width(self) -> int:
        """How many magnitudes a row has."""

    def distances(self, block: Block) -> Distances:
        """Of every row; `width` columns have one."""


@dataclass(frozen=True, kw_only=True)
class ColumnMagnitudes:
    """|x_j| of the chosen columns; those that are `known` already count nowhere."""

    columns: tuple[int, ...]
    known: npt.NDArray[np.bool_]

    @property
    def width(self) -> int:
        return len(self.columns)

    def distances(self, block: Block) -> Distances:
        chosen = np.array(self.columns, dtype=np.int64)
        return Distances(values=block.X, centre=np.zeros(block.X.shape[1]), columns=chosen, known=self.known)


@dataclass(frozen=True, kw_only=True)
class ColumnWindows:
    """|x_j| / 2^exponent_j of the chosen columns. The power of two is exact, so a magnitude lies in the same bin as before."""

    columns: tuple[int, ...]
    exponents: Integers

    @property
    def width(self) -> int:
        return len(self.columns)

    def distances(self, block: Block) -> Distances:
        with np.errstate(all="ignore"):  # what becomes infinite lies above the window, and what becomes zero counts nowhere
            return as_they_are(block.X[:, self.columns] * np.exp2(-self.exponents.astype(np.float64)))


@dataclass(frozen=True, kw_only=True)
class ColumnSpreads:
    """|x_j - centre_j| of the chosen columns. One of zero counts too, so that every row has the same weight in every column; a row of
    zeros (a null record) counts nowhere.
    """

    columns: tuple[int, ...]
    centre: Array

    @property
    def width(self) -> int:
        return len(self.columns)

    def distances(self, block: Block) -> Distances:
        chosen, centre = np.array(self.columns, dtype=np.int64), np.zeros(block.X.shape[1])
        centre[chosen] = self.centre
        return Distances(values=block.X, centre=centre, columns=chosen, known=np.zeros(self.width, dtype=np.bool_), zeros=True)


@dataclass(frozen=True, kw_only=True)
class Norm:
    """||x|| of the scaled row, or ||A x|| of the rotated one."""

    rows: Rows
    rotation: Rotation | None = None
    width: int = 1

    def distances(self, block: Block) -> Distances:
        out = np.empty((len(block), 1))
        unused = np.zeros(self.rows.columns)
        for place, z in self.rows.rotated_tiles(block, self.rotation, len(block)):
            squares = np.empty(len(z))
            margins(z, unused, np.empty(len(z)), squares)
            out[place, 0] = np.sqrt(squares) * (2.0**-RESOLUTION if self.rotation is None else self.rotation.step)
        return as_they_are(out)


@dataclass(frozen=True, kw_only=True)
class Residual:
    """|slope(y, x . weights)| of the scaled row, at least the first bin's edge, because a residual of zero counts too; zero for a row
    of zeros (a null record).
    """

    rows: Rows
    loss: Loss
    weights: Array
    width: int = 1

    def distances(self, block: Block) -> Distances:
        return as_they_are(counted(np.abs(self.signed(block)))[:, None])

    def signed(self, block: Block) -> Array:
        """-slope(y, x . weights) of each row; not a number for a null record."""
        out = np.empty(len(block))
        for place, q in self.rows.tiles(block, len(block)):
            products, squares = np.empty(len(q)), np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, squares)
            with np.errstate(all="ignore"):
                out[place] = np.where(squares > 0.0, -self.loss.slope(block.y[place], products), math.nan)
        return out


@dataclass(frozen=True, kw_only=True)
class SignedResidual(Residual):
    """The magnitude of the residual in two columns, positive and negative residuals apart. One of the two is zero, so both cost no more
    than one.
    """

    width: int = 2

    def distances(self, block: Block) -> Distances:
        signed = self.signed(block)
        values = counted(np.abs(signed))
        positive, negative = np.where(signed >= 0.0, values, 0.0), np.where(signed < 0.0, values, 0.0)
        return as_they_are(np.column_stack([positive, negative]))


def counted(residuals: Array) -> Array:
    """Residual magnitudes, raised to the first bin's edge; zero, which counts nowhere, for what is not a number."""
    return np.where(np.isnan(residuals), 0.0, np.maximum(residuals, RESIDUAL_GRID.edges[0]))
