"""Second moments of clipped vectors, as exact integer outer products. Imports rows and below."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import FLOAT_BITS, inner_radius, margins, rint
from nightfit.queries.base import SUM_BITS, PlainSum, root_up
from nightfit.queries.rows import PRODUCT_ROWS, RESOLUTION, Rotation, Rows
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers

DIAGONAL, OTHERS = 5, 7
"""Whole-number weights of the diagonal and of the other entries, with OTHERS / DIAGONAL <= sqrt(2) as the guarantee needs. 7 / 5 is the
closest such fraction with one-digit terms: within one in a hundred of the best noise."""

OTHERS_BITS = 3
"""OTHERS = 7 < 2^3."""

MOST_MOMENT_BITS = 20
"""Finest grid of a vector: products then have 2^40 steps, and 2^12 of them still add exactly in float64."""


@dataclass(frozen=True, kw_only=True)
class OuterProducts(PlainSum):
    """sum_i q_i q_i' for q = clip(u, cap) / sqrt(k), with u a vector of the row alone and k the rows of the row's unit, in whole steps of
    cap / 2^bits: the upper triangle, the diagonal times 5, the others times 7. So a unit adds the mean over its rows.

    Guarantee: ||q|| <= 2^bits / sqrt(k) exactly, so a unit adds a positive semidefinite matrix B = sum q q' whose norm is at most its
    trace, ||B||_F <= tr B = sum ||q||^2 <= Q^2 with Q = 2^bits. For two of them <B, C> = sum (q . p)^2 >= 0, hence
    ||B - C||_F^2 <= ||B||_F^2 + ||C||_F^2 <= 2 Q^4. The released vector's squared distance is
    25 sum_j D_jj^2 + 49 sum_{j<k} D_jk^2 <= 25 (sum_j D_jj^2 + 2 sum_{j<k} D_jk^2) = 25 ||D||_F^2, so the sensitivity is 5 sqrt(2) Q^2
    under replace_one and 5 Q^2 where one contribution stands alone. Diagonal and other entries are one release; the others get 5/7 of
    the diagonal's noise. Products are whole numbers whose sums over a slice stay below 2^53, so BLAS adds them exactly. Broken by
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    rows : Rows
        How rows become whole numbers.
    cap : float
        The norm at which vectors are clipped; it scales the grid, never the sensitivity in steps.
    bits : int
        The cap is 2^bits steps.
    """

    rows: Rows
    cap: float
    bits: int
    draw: Draw = WHOLE

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of coordinates of u."""

    @abstractmethod
    def vectors(self, block: Block, most: int) -> Iterator[tuple[slice, Array, Array]]:
        """Slices of at most `most` rows, their vectors u in units of `step`, and the squared norms of these, computed row by row.

        The caller may overwrite u.
        """

    @property
    def grid(self) -> float:
        return (self.cap / 2.0**self.bits) ** 2

    @property
    def coordinates(self) -> int:
        return self.size * (self.size + 1) // 2

    def sensitivity(self, adjacency: Adjacency) -> float:
        return root_up(adjacency.contributions_changed) * DIAGONAL * 4.0**self.bits

    def divisor(self, units: int) -> float:
        return float(units)

    def chunk(self, block: Block) -> Integers:
        total = np.zeros(self.coordinates, dtype=np.int64)
        product = np.empty((self.size, self.size))
        radii = np.maximum(inner_radius(2.0**self.bits / np.sqrt(block.rows_of_unit), self.size), 0.0)
        for place, u, squares in self.vectors(block, 2 ** (FLOAT_BITS - 1 - 2 * self.bits)):
            _clip(u, squares, self.cap / self.step, radii[place])
            _add_triangle(np.matmul(u.T, u, out=product), total)
        return total

    @property
    def step(self) -> float:
        """The value of one in the numbers that `vectors` yields."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class SecondMoment(OuterProducts):
    """The second moment of u = x, the scaled row, or of u = A x if there is a rotation.

    Guarantee: that of OuterProducts; x is whole numbers of the row alone. Broken by
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity.
    """

    rotation: Rotation | None = None

    @property
    def size(self) -> int:
        return self.rows.columns

    @property
    def step(self) -> float:
        return 2.0**-RESOLUTION if self.rotation is None else self.rotation.step

    def vectors(self, block: Block, most: int) -> Iterator[tuple[slice, Array, Array]]:
        for place, u in self.rows.rotated_tiles(block, self.rotation, most, PRODUCT_ROWS):
            squares = np.empty(len(u))
            margins(u, np.zeros(self.size), np.empty(len(u)), squares)
            yield place, u, squares


def matrix_of(answer: Array, columns: int) -> Array:
    """The symmetric matrix whose weighted upper triangle was released.

    Parameters
    ----------
    answer : Array
        The released upper triangle, row by row, with the weights DIAGONAL and OTHERS.
    columns : int
        The matrix's size.

    Returns
    -------
    Array
        columns x columns.
    """
    M = np.zeros((columns, columns))
    M[np.triu_indices(columns)] = answer / OTHERS
    M = M + M.T
    np.fill_diagonal(M, M.diagonal() / 2 * OTHERS / DIAGONAL)
    return M


def moment_bits(rows: int) -> int:
    """The finest grid at which 7 rows 2^(2 bits) < 2^61 and at least 2^12 rows fit in a slice."""
    return min(MOST_MOMENT_BITS, (SUM_BITS - max(1, rows).bit_length() - OTHERS_BITS) // 2)


@compiled
def _clip(q, squares, cap, radii):  # type: ignore[no-untyped-def]
    """Scale q[i] to a norm of at most radii[i], and round it to whole numbers."""
    rows, columns = q.shape
    for i in range(rows):
        factor = radii[i] * min(1 / cap, 1 / math.sqrt(squares[i])) if squares[i] > 0.0 else 0.0
        for j in range(columns):
            q[i, j] = rint(factor * q[i, j])


@compiled
def _add_triangle(product, total):  # type: ignore[no-untyped-def]
    """Add the upper triangle of a matrix of whole numbers to `total`, row by row, with the weights DIAGONAL and OTHERS."""
    columns = product.shape[0]
    start = 0
    for i in range(columns):
        total[start] += DIAGONAL * np.int64(product[i, i])
        for j in range(1, columns - i):
            total[start + j] += OTHERS * np.int64(product[i, i + j])
        start += columns - i
