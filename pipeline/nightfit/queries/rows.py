"""Rows as whole numbers: scaled, clamped and rotated so that no order of summation matters. Imports numerics and types."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import rint
from nightfit.records.coded_rows import StagedBlock
from nightfit.types import Array, Block, Integers

RESOLUTION = 16
"""Bits after the point of a scaled value: 2^-16 of a scale. With a reach of 16 = 2^4 a value has 2^20 steps."""

LARGEST_REACH = 16.0
"""Largest clamp, in scales: twice the farthest that `auto` uses. With RESOLUTION it makes |q| <= 2^20."""

MATRIX_BITS = 20
"""Bits of an entry of a rotation. 20 (row) + 20 (matrix) + 12 (columns) = 52 < 53 bits: products and sums are exact in float64."""

MOST_EXACT_COLUMNS = 2**12
"""Most columns of a row: see MATRIX_BITS."""

ROW_TILE_BYTES = 2**20
"""Size of the buffer of whole rows: it stays in a core's second cache. No result depends on it."""

PRODUCT_ROWS = 2**10
"""Least rows of a matrix product. Adding a product of d x d numbers to a sum takes as long as about 100 rows of the product, so of these
many rows a tenth is added to the time of the product alone. No result depends on it."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """q_j = 2^16 clip((x_j - centre_j) / scale_j, -reach_j, reach_j), rounded to a whole number.

    A row of zeros (a null record) stays a row of zeros, and a value that is not a number becomes zero.

    Guarantee: the integers of a row depend on that row alone, and |q_j| <= 2^20. Broken by
    test_a_row_is_mapped_to_the_same_integers_wherever_it_lies.

    Parameters
    ----------
    centre, scale : Array
        The public or paid centre and scale of each column; scales are positive.
    reach : Array
        The clamp of each column in scales, at most 16.
    level : float
        The paid middle of the targets, for `scaled`.
    """

    centre: Array
    scale: Array
    reach: Array
    level: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.centre).all() and np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise ValueError("centres must be finite, scales positive and finite")
        if not ((self.reach > 0) & (self.reach <= LARGEST_REACH)).all():
            raise ValueError(f"reaches must lie between 0 and {LARGEST_REACH}")
        if not len(self.centre) == len(self.scale) == len(self.reach) <= MOST_EXACT_COLUMNS:
            raise ValueError(f"centre, scale and reach must have one entry per column, of at most {MOST_EXACT_COLUMNS} columns")

    @property
    def columns(self) -> int:
        return len(self.centre)

    def only(self, columns: Integers) -> "Rows":
        """The same for some of the columns."""
        return replace(self, centre=self.centre[columns], scale=self.scale[columns], reach=self.reach[columns])

    def scaled(self, block: Block) -> Block:
        """The block with x_j = clip((x_j - centre_j) / scale_j, -reach_j, reach_j), not rounded, and its targets less `level`.

        Guarantee: a row of the new block is a function of the same row of the old one, and a null record stays null, so a query of the
        new block has the sensitivity that it has of any block. Broken by test_a_query_of_scaled_rows_is_the_query_of_a_scaled_record and
        test_a_neighbour_moves_a_query_of_scaled_rows_by_at_most_its_sensitivity.
        """
        X, y = np.empty_like(block.X), np.empty_like(block.y)
        _scaled_rows(block.X, block.y, self.centre, 1 / self.scale, self.reach, self.level, X, y)
        return replace(block, X=X, y=y)

    def scaled_pieces(self, block: StagedBlock, most: int) -> Iterator[tuple[slice, Block]]:
        """`scaled`, in blocks of at most so many bytes, and which units they are. Rows of numbers and codes have the same few values in
        every indicator, which are scaled once.
        """
        if isinstance(block, Block):
            yield from ((units, self.scaled(piece)) for units, piece in block.pieces(most))
            return
        zeros, ones = (self._values(np.full(self.columns, value)) for value in (0.0, 1.0))
        for units, piece in block.parts(most):
            X, y, order = np.empty((len(piece), self.columns), dtype=block.numbers.dtype), np.empty(len(piece)), block.layout.order
            target = piece.y, self.level
            _scaled_codes(piece.numbers, piece.codes, order, *target, self.centre, 1 / self.scale, self.reach, zeros, ones, X, y)
            yield units, Block(X, y, piece.slots, piece.starts)

    def of_value(self, value: float) -> Array:
        """q of a row, not null, that has this value in every column."""
        return np.rint(self._values(np.full(self.columns, value)) * 2.0**RESOLUTION)

    def _values(self, row: Array) -> Array:
        """clip((row - centre) / scale, -reach, reach), as compiled loops compute it."""
        return np.clip((row - self.centre) * (1 / self.scale), -self.reach, self.reach)

    def tiles(self, block: Block, most: int, least: int = 1) -> Iterator[tuple[slice, Array]]:
        """Slices of the block's rows with their integers, in one buffer that the next slice overwrites.

        A slice has as many rows as a core's second cache holds, but `least` if that is more, and never more than `most`.
        """
        tile = max(1, min(max(ROW_TILE_BYTES // (8 * self.columns), least), most, len(block)))
        buffer, inverse = np.empty((tile, self.columns)), 1 / self.scale
        for start in range(0, len(block), tile):
            X = block.X[start : start + tile]
            _whole_rows(X, self.centre, inverse, self.reach, 2.0**RESOLUTION, buffer)
            yield slice(start, start + len(X)), buffer[: len(X)]

    def rotated_tiles(self, block: Block, rotation: "Rotation | None", most: int, least: int = 1) -> Iterator[tuple[slice, Array]]:
        """The same of q . matrix, or of q without a rotation, in one buffer: to get new memory for every slice takes as long as a product
        of 50 columns. Slices of products have at least PRODUCT_ROWS.
        """
        if rotation is None:
            yield from self.tiles(block, most, least)
            return
        out: Array | None = None
        for place, q in self.tiles(block, most, PRODUCT_ROWS):
            out = np.empty((len(q), rotation.matrix.shape[1])) if out is None else out
            yield place, rotation.applied(q, out)


def scaled_by(rows: Rows | None, block: Block) -> Block:
    """The block of scaled rows; the block itself where there are no paid scales."""
    return block if rows is None else rows.scaled(block)


@compiled
def _whole_rows(X, centre, inverse, reach, steps, out):  # type: ignore[no-untyped-def]
    rows, columns = X.shape
    for i in range(rows):
        null = True
        for j in range(columns):
            null = null and X[i, j] == 0.0
        for j in range(columns):
            value = min(max((X[i, j] - centre[j]) * inverse[j], -reach[j]), reach[j])
            out[i, j] = 0.0 if null or value != value else rint(value * steps)


@compiled
def _scaled_rows(X, y, centre, inverse, reach, level, out, targets):  # type: ignore[no-untyped-def]
    rows, columns = X.shape
    for i in range(rows):
        null = True
        for j in range(columns):
            null = null and X[i, j] == 0.0
        targets[i] = 0.0 if null else y[i] - level
        for j in range(columns):
            value = min(max((X[i, j] - centre[j]) * inverse[j], -reach[j]), reach[j])
            out[i, j] = 0.0 if null or value != value else value


@compiled
def _scaled_codes(numbers, codes, order, y, level, centre, inverse, reach, zeros, ones, out, targets):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        null = True
        for j in range(numbers.shape[1]):
            null = null and numbers[i, j] == 0.0
        for c in range(codes.shape[1]):
            null = null and order[codes[i, c]] < 0
        targets[i] = 0.0 if null else y[i] - level
        if null:
            out[i] = 0.0
            continue
        out[i] = zeros
        for j in range(numbers.shape[1]):
            at = order[j]
            value = min(max((numbers[i, j] - centre[at]) * inverse[at], -reach[at]), reach[at])
            out[i, at] = 0.0 if value != value else value
        for c in range(codes.shape[1]):
            at = order[codes[i, c]]
            if at >= 0:
                out[i, at] = ones[at]


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """z = A x for the scaled row x = q / 2^16, with A = matrix' unit and whole numbers in `matrix`.

    |q_j| <= 2^20, |matrix_jk| <= 2^20 and at most 2^12 columns: every partial sum of q . matrix is a whole number of at most 2^52, hence
    exact in float64. A BLAS product gives the same integers in whatever order it adds and wherever a row lies. Rounding A is no error:
    the same rounded A leads back from z to x.

    Parameters
    ----------
    matrix : Array
        Columns x columns, whole numbers of at most 2^20.
    unit : float
        The value of one step of the matrix.
    """

    matrix: Array
    unit: float

    def __post_init__(self) -> None:
        if not (np.abs(self.matrix) <= 2.0**MATRIX_BITS).all() or not (self.matrix == np.rint(self.matrix)).all():
            raise ValueError(f"a rotation needs whole numbers of at most 2^{MATRIX_BITS}")

    @classmethod
    def of(cls, A: Array) -> "Rotation":
        """A, rounded to steps of 2^-20 of its largest entry."""
        unit = float(np.abs(A).max()) / 2.0**MATRIX_BITS
        return cls(matrix=np.ascontiguousarray(np.rint(A.T / unit)), unit=unit)

    @property
    def A(self) -> Array:
        return self.matrix.T * self.unit

    @property
    def step(self) -> float:
        """The value of one step of q . matrix, in units of z."""
        return self.unit / 2.0**RESOLUTION

    def applied(self, q: Array, out: Array | None = None) -> Array:
        """q . matrix, exactly; in the first rows of `out`, if it is given."""
        return np.matmul(q, self.matrix, out=None if out is None else out[: len(q)])
