"""One record's row as whole numbers, scaled, clamped and rotated so that no order of summation matters. Imports exact and types."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import rint
from nightfit.types import Array, Block

RESOLUTION = 16
MATRIX_BITS = 20
LARGEST_REACH = 16.0
MOST_COLUMNS = 2**12
TILE_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Rows:
    """q_j = 2^16 clip((x_j - centre_j) / scale_j, -reach_j, reach_j), rounded to a whole number; a row of zeros (a null record, see
    preprocessing) stays one, and what is not a number becomes zero.

    Guarantee: a row's integers depend on that row alone, and |q_j| <= 2^20. Broken by
    test_a_row_is_mapped_to_the_same_integers_wherever_it_lies.
    """

    centre: Array
    scale: Array
    reach: Array

    def __post_init__(self) -> None:
        if not (np.isfinite(self.centre).all() and np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise ValueError("centres must be finite, scales positive and finite")
        if not ((self.reach > 0) & (self.reach <= LARGEST_REACH)).all():
            raise ValueError(f"reaches must lie between 0 and {LARGEST_REACH}")
        if not len(self.centre) == len(self.scale) == len(self.reach) <= MOST_COLUMNS:
            raise ValueError(f"centre, scale and reach must have one entry per column, of at most {MOST_COLUMNS} columns")

    @property
    def columns(self) -> int:
        return len(self.centre)

    def tiles(self, block: Block, most: int) -> Iterator[tuple[slice, Array]]:
        """Slices of at most `most` rows of the block and their integers, a few at a time, in one reused buffer."""
        tile = max(1, min(TILE_BYTES // (8 * self.columns), most, len(block)))
        buffer, inverse = np.empty((tile, self.columns)), 1 / self.scale
        for start in range(0, len(block), tile):
            X = block.X[start : start + tile]
            _whole_rows(X, self.centre, inverse, self.reach, 2.0**RESOLUTION, buffer)
            yield slice(start, start + len(X)), buffer[: len(X)]


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


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """z = A x for the scaled row x = q / 2^16, with A = matrix' unit and whole numbers in `matrix` (columns x columns).

    |q_j| <= 2^20, |matrix_jk| <= 2^20 and at most 2^12 columns: every partial sum of q . matrix is a whole number of at most 2^52,
    hence exact in float64, so that a matrix product of BLAS gives the same integers in whatever order it adds and wherever a row
    lies. Rounding A is no error: the same rounded A leads back from z to x.
    """

    matrix: Array
    unit: float

    def __post_init__(self) -> None:
        if not (np.abs(self.matrix) <= 2.0**MATRIX_BITS).all() or not (self.matrix == np.rint(self.matrix)).all():
            raise ValueError(f"a rotation needs whole numbers of at most 2^{MATRIX_BITS}")

    @classmethod
    def of(cls, A: Array) -> "Rotation":
        """A on the grid of 2^-20 of its largest entry."""
        unit = float(np.abs(A).max()) / 2.0**MATRIX_BITS
        return cls(matrix=np.ascontiguousarray(np.rint(A.T / unit)), unit=unit)

    @property
    def A(self) -> Array:
        return self.matrix.T * self.unit

    @property
    def step(self) -> float:
        """The value of one whole number of q . matrix, in units of z."""
        return self.unit / 2.0**RESOLUTION

    def applied(self, q: Array) -> Array:
        """q . matrix, exactly."""
        return q @ self.matrix
