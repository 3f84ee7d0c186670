"""Catoni's soft truncation smoothed by multiplicative noise (Wang et al. 2020, eq. 9-10, alg. 4). Imports scipy and numerics."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import erf, erfc

from nightfit.numerics.compiled import compiled
from nightfit.numerics.cubic_tables import cubic, four_cubics
from nightfit.numerics.exact import max_steps, never_nan, rint_int
from nightfit.queries.boundings import CoordinateBounded
from nightfit.queries.boundings.phi import SUPREMUM as PLATEAU
from nightfit.types import Array, Integers

CELLS, OCTAVES = 512, 25  # an error of at most 3e-12; in the last octave psi is its supremum to 1e-15
FAR = 2.0**OCTAVES - 2  # clamping |a| to it keeps u = 1 + |a| in the last octave
BELOW_CELL, WITHIN_CELL = np.uint64(52 - 9), np.uint64((1 << (52 - 9)) - 1)  # bits of u behind the first 9 of its mantissa: 2^9 cells
FIRST_CELL, CELLS_AS_BITS = np.uint64(1023 << 9), np.uint64((1023 + 9) << 52)
ZERO, FOUR = np.uintp(0), np.uintp(4)
EDGE = math.sqrt(2)
CLOSED_FORM_UP_TO = 2.0  # beyond, its terms cancel
ROOT_TWO_PI = math.sqrt(2 * math.pi)


@dataclass(frozen=True, kw_only=True, slots=True)
class Psi(CoordinateBounded):
    """scale psi(g_j / scale), psi(a) = E phi(a + a xi / sqrt(smoothing)) over standard normal xi; their beta is our smoothing.

    It is here to reproduce the papers: phi alone has the better error bound and costs less. The closed form that they print cancels
    for large a and exceeds its own bound in floating point, so psi is read from a table, whose error is at most 3e-12
    (test_the_table_is_psi).
    Guarantee: every coordinate of a contribution is at most 2^bits steps, exactly, because it is clamped to that integer and rounding
    is monotone; a step is scale `supremum` / 2^bits. The table's error does not enter. Broken by
    test_a_contribution_stays_within_its_declared_norm.
    """

    name: ClassVar[str] = "psi"
    scale: float
    smoothing: float = 3.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"smoothed truncation needs a positive finite scale, got {self.scale}")
        if not 0.5 <= self.smoothing <= 50:
            raise ValueError(f"smoothed truncation needs a positive finite smoothing from 0.5 to 50, got {self.smoothing}; beyond, use phi")

    def grid(self, bits: int) -> float:
        return self.scale * supremum(self.smoothing) / 2.0**bits

    def add(self, X: Array, slopes: Array, squares: Array, groups: npt.NDArray[np.int64], bits: int, sums: Integers) -> None:
        _add(X, slopes, squares, groups, self.scale, table_in_steps(self.smoothing, bits), max_steps(bits), sums)

    def formulas(self, columns: int, bits: int) -> None:
        return None


def supremum(smoothing: float) -> float:
    """The limit of psi(a) for large a: (2 sqrt 2 / 3) erf(sqrt(smoothing / 2)), less than phi's 2 sqrt 2 / 3."""
    return PLATEAU * math.erf(math.sqrt(smoothing / 2))


def exact(a: Array, smoothing: float) -> tuple[Array, Array]:
    """psi(a) and its derivative psi'(a), up to rounding errors, for finite a >= 0."""
    near = a <= CLOSED_FORM_UP_TO
    near_value, near_slope = _closed_form(np.where(near, np.maximum(a, 1e-300), 1.0), math.sqrt(smoothing))
    far_value, far_slope = _by_parts(np.where(near, CLOSED_FORM_UP_TO, a), math.sqrt(smoothing))
    return np.where(near, near_value, far_value), np.where(near, near_slope, far_slope)


def _closed_form(a: Array, r: float) -> tuple[Array, Array]:
    """psi = K P(w > c) - K P(w < -c) + a m1 - a^3 m3 / 6 and psi' = m1 - a^2 m3 / 2 for w = 1 + xi / r.

    c = sqrt 2 / a is where phi(a w) becomes constant, K = 2 sqrt 2 / 3 is that constant, and m1, m3 are E w and E w^3 over |w| <= c.
    """
    upper, lower = np.minimum(r * (EDGE / a - 1), 1e3), np.minimum(r * (EDGE / a + 1), 1e3)
    above, below = erfc(upper / EDGE) / 2, erfc(lower / EDGE) / 2
    up, down = np.exp(-(upper**2) / 2) / ROOT_TWO_PI, np.exp(-(lower**2) / 2) / ROOT_TWO_PI
    inside = 1 - above - below
    m1 = inside - (up - down) / r
    m3 = inside * (1 + 3 / r**2) - 3 * (up - down) / r - 3 * (upper * up + lower * down) / r**2
    m3 -= ((2 + upper**2) * up - (2 + lower**2) * down) / r**3
    return PLATEAU * (above - below) + a * m1 - a**3 * m3 / 6, m1 - a**2 * m3 / 2


def _by_parts(a: Array, r: float) -> tuple[Array, Array]:
    """psi = int_0^{sqrt 2} (1 - u^2 / 2) (P(w > u / a) - P(w < -u / a)) du for w = 1 + xi / r, and its derivative.

    No terms cancel: P(w > v) - P(w < -v) = (erf(r (1 - v) / sqrt 2) + erf(r (1 + v) / sqrt 2)) / 2.
    """
    nodes, weights = np.polynomial.legendre.leggauss(24)
    u = (nodes + 1) * EDGE / 2
    weights = weights * EDGE / 2 * (1 - u**2 / 2)
    v = u / a[:, None]
    minus, plus = r * (1 - v), r * (1 + v)
    density = (np.exp(-(minus**2) / 2) - np.exp(-(plus**2) / 2)) / ROOT_TWO_PI
    value = ((erf(minus / EDGE) + erf(plus / EDGE)) / 2) @ weights
    return value, (r * v * density / a[:, None]) @ weights


@lru_cache(maxsize=16)
def table(smoothing: float) -> Array:
    """psi as a piecewise cubic of u = 1 + a, with CELLS cells of equal width in each octave 2^e <= u < 2^(e + 1).

    The leading bits of u are the number of its cell. For each cell the table holds the coefficients of 1, t, t^2 and t^3 of the cubic
    that interpolates psi at the four Chebyshev points of 0 <= t <= 1. In a cell of width h the error is at most
    h^4 max |d^4 psi / du^4| / 3072; beyond the last octave psi is its supremum to 1e-15.
    """
    points = (np.cos((2 * np.arange(4) + 1) * math.pi / 8) + 1) / 2
    octave, cell = np.divmod(np.arange(OCTAVES * CELLS), CELLS)
    u = 2.0 ** octave[:, None] * (1 + (cell[:, None] + points) / CELLS)
    value, _ = exact(u.ravel() - 1, smoothing)
    pieces = np.linalg.solve(np.vander(points, 4, increasing=True), value.reshape(-1, 4).T).T.ravel().astype(np.float64)
    pieces[0] = 0.0
    pieces.flags.writeable = False
    return pieces


@lru_cache(maxsize=16)
def table_in_steps(smoothing: float, bits: int) -> Array:
    """The table of 2^bits psi / supremum."""
    return table(smoothing) * (max_steps(bits) / supremum(smoothing))


@compiled
def _cell_of(a):  # type: ignore[no-untyped-def]
    """The index of the cubic of |a| in the table, and t in its cell; the last cell for NaN."""
    x = abs(a)
    bits = np.float64(1.0 + (x if x < FAR else FAR)).view(np.uint64)
    cell = (bits >> BELOW_CELL) - FIRST_CELL
    t = np.uint64((bits & WITHIN_CELL) | CELLS_AS_BITS).view(np.float64) - CELLS
    return np.uintp(cell << np.uint64(2)), t


@compiled
def psi(a, pieces, top):  # type: ignore[no-untyped-def]
    """sign(a) min(table at |a|, top), and 0 for NaN."""
    index, t = _cell_of(a)
    value = cubic(pieces, index, t)
    return math.copysign(value if value < top else top, a) if a == a else 0.0


@compiled
def _add(X, slopes, squares, groups, scale, pieces, top, sums):  # type: ignore[no-untyped-def]
    """sums[groups[i], j] += psi(slopes[i] X[i, j] / scale) in steps. Split so that the loops around the table's reads are vectorised."""
    rows, columns = np.uintp(X.shape[0]), np.uintp(X.shape[1])
    fours = columns - columns % FOUR
    indices, values = np.empty(columns, dtype=np.uintp), np.empty(columns)
    for i in range(rows):
        slope = slopes[i] / scale
        group = np.uintp(groups[i])
        if never_nan(slope, squares[i]):
            for j in range(columns):
                indices[j], values[j] = _cell_of(slope * X[i, j])
            for j in range(ZERO, fours, FOUR):
                four_cubics(pieces, indices, values, j)
            for j in range(fours, columns):
                values[j] = cubic(pieces, indices[j], values[j])
            for j in range(columns):
                sums[group, j] += rint_int(math.copysign(min(values[j], top), slope * X[i, j]))
        else:
            for j in range(columns):
                sums[group, j] += rint_int(psi(slope * X[i, j], pieces, top))


EXAMPLES = (Psi(scale=1.0), Psi(scale=1e-3, smoothing=0.5), Psi(scale=50.0, smoothing=20.0))
