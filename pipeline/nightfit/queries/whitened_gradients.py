"""Mean gradients in whitened coordinates, row and residual both bounded. Imports second_moments and below."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import FLOAT_BITS, inner_radius, margins, rint
from nightfit.problem.losses import Loss
from nightfit.queries.base import PlainSum, sum_of_shares
from nightfit.queries.rows import RESOLUTION, Rotation, Rows
from nightfit.queries.second_moments import OuterProducts
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers


@dataclass(frozen=True, kw_only=True)
class WhitenedGradient(PlainSum):
    """sum_i clip(r_i, -clip, clip) z_i min(1, cap^2 / ||z_i||^2) / k_i with z = A x (or x), r = -slope(y, z . weights) and k the rows of
    the row's unit, in whole steps of clip cap / 2^bits: a unit adds the mean over its rows.

    With `present`, z ends in a one for each of these columns in which the row has a value, so that the sum of a column's values comes with
    how many there are: divided by all rows, a mean over missing values would lie too near to zero.

    The weight of a row is the square of the one that clips its norm to cap. So for the squared loss, where no residual is clipped, the
    derivative of this sum in the weights is the second moment of the clipped rows: SecondMoment with the same rotation and cap.

    Guarantee: a row's contribution has a norm of at most 2^bits / k steps, exactly: |clip(r)| / clip <= 1, ||z|| min(1, cap^2 / ||z||^2)
    <= cap, and cap is scaled to radius 2^bits / k (1 - margin) - sqrt(d) / 2, whose margin exceeds the relative rounding error of the
    computed norm and products (at most (d + 8) 2^-53); rounding to whole steps adds at most sqrt(d) / 2. So a unit's k rows have at
    most 2^bits together. A row's z is exact integers and its products are added in a fixed order, so no other record's contribution
    changes. What is not a number adds zero. The bounds `clip` and `cap` scale the grid, never the sensitivity in steps. Broken by
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    rows, rotation : Rows, Rotation or None
        z in whole numbers.
    loss, weights : Loss, Array
        Of the residual.
    clip : float
        The bound on a residual.
    cap : float
        The bound on a row's norm.
    bits : int
        clip times cap is 2^bits steps.
    present : tuple of int
        Columns whose values are counted as well.
    """

    rows: Rows
    rotation: Rotation | None
    loss: Loss
    weights: Array
    clip: float
    cap: float
    bits: int
    draw: Draw = WHOLE
    present: tuple[int, ...] = ()

    @property
    def grid(self) -> float:
        return self.clip * self.cap / 2.0**self.bits

    @property
    def coordinates(self) -> int:
        return (self.rows.columns if self.rotation is None else self.rotation.matrix.shape[1]) + len(self.present)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * 2.0**self.bits

    def divisor(self, units: int) -> float:
        return float(units)

    def chunk(self, block: Block) -> Integers:
        return self.chunks((), block, (block.y,))[0]

    @property
    def work(self) -> bytes:
        """Of a row: its scaling, rotation and counted columns, and how many rows are added at a time."""
        at, rotation = self.rows, self.rotation
        turned = b"" if rotation is None else rotation.matrix.tobytes() + np.float64(rotation.unit).tobytes()
        numbers = np.array([self.bits, at.columns, *self.present], dtype=np.int64)
        return b"".join((type(self).__name__.encode(), numbers.tobytes(), *(a.tobytes() for a in (at.centre, at.scale, at.reach)), turned))

    def with_work_of(self, other: "WhitenedGradient") -> "WhitenedGradient":
        return replace(self, rows=other.rows, rotation=other.rotation)

    def chunks(self, others: Sequence["WhitenedGradient"], block: Block, targets: Sequence[Array]) -> list[Integers]:
        """The integers of this query and of others of the same rows, rotation and bits, each with a target of its own.

        A record that has none of the targets adds zero to the query of that target, as a row of zeros does.
        """
        columns, queries = self.coordinates, (self, *others)
        radii = np.maximum(inner_radius(2.0**self.bits / block.rows_of_unit, columns), 0.0)
        step = 2.0**-RESOLUTION if self.rotation is None else self.rotation.step
        totals = [np.zeros(columns, dtype=np.int64) for _ in queries]
        for place, Z in self.rows.rotated_tiles(block, self.rotation, 2 ** (FLOAT_BITS - 1 - self.bits)):
            if self.present:
                Z = np.ascontiguousarray(np.column_stack([Z, values_in(block.X[place], self.present) * np.rint(1 / step)]))
            for query, target, total in zip(queries, targets, totals, strict=True):
                total += query._sums(Z, target[place], radii[place], step)
        return totals

    def _sums(self, Z: Array, y: Array, radii: Array, step: float) -> Integers:
        """Of a tile's rows of whole numbers; a row without a target counts as a row of zeros."""
        products, squares, sums = np.empty(len(Z)), np.empty(len(Z)), np.zeros(Z.shape[1])
        margins(Z, np.r_[self.weights * step, np.zeros(len(self.present))], products, squares)
        squares[np.isnan(y)] = 0.0
        _add_gradients(Z, self.loss.slope(y, products), squares, self.clip, self.cap / step, radii, sums)
        return sums.astype(np.int64)


def values_in(X: Array, columns: tuple[int, ...]) -> Array:
    """Rows x columns: one where a row has a value; zero where it has none, and in a null row."""
    found: Array = (~np.isnan(X[:, columns]) & (X != 0.0).any(axis=1)[:, None]).astype(np.float64)
    return found


@dataclass(frozen=True, kw_only=True)
class GradientAndMoment(OuterProducts):
    """The second moment of u = w (z, R clip(r, -clip, clip) / clip) with z = A x, r = -slope(y, z . weights), R = cap / sqrt(2) and
    w = min(1, R / ||z||).

    It holds the second moment w^2 z z' that SecondMoment has with the cap R, and beside it R / clip times the gradient that
    WhitenedGradient has with the cap R.

    With a matrix of weights r is a vector, one residual for each column of the matrix, and where its norm is above the clip it is scaled
    back to it: so the gradients of all classes are bounded together, once, and the second moment of r comes along.

    Half of ||u||^2 <= 2 R^2 = cap^2 is the residual's. Under replace_one the gradient alone moves by up to 2 R clip, because the old and
    the new one may point in opposite directions; outer products never do, so this moves by sqrt(2) cap^2 in all and its gradient has the
    same noise as the gradient alone (but for 7 / 5 < sqrt(2), one in a hundred): the second moment costs nothing.

    Guarantee: that of OuterProducts; z is whole numbers of the row alone, and u follows from it, y and public numbers. A null record and
    what is not a number add zero. Broken by test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    rotation : Rotation
        Of z = A x.
    loss, weights : Loss, Array
        Of the residual; the weights of one margin, or a matrix with a column for each margin.
    clip : float
        The bound on a residual.
    """

    rotation: Rotation
    loss: Loss
    weights: Array
    clip: float

    @property
    def size(self) -> int:
        return self.rotation.matrix.shape[1] + outputs_of(self.weights)

    @property
    def step(self) -> float:
        return self.rotation.step

    def vectors(self, block: Block, most: int) -> Iterator[tuple[slice, Array, Array]]:
        radius, weights = self.cap / math.sqrt(2) / self.step, self.weights * self.step
        buffer: Array | None = None
        for place, z in self.rows.rotated_tiles(block, self.rotation, most):
            buffer = np.empty((len(z), self.size)) if buffer is None else buffer
            u = buffer[: len(z)]
            slopes, squares = slopes_of(self.loss, block.y[place], z, weights)
            _join_residuals(z, slopes, squares, self.clip, radius, u)
            margins(u, np.zeros(self.size), np.empty(len(z)), squares)
            yield place, u, squares


def outputs_of(weights: Array) -> int:
    """The number of margins: one, or the number of columns of a matrix of weights."""
    return 1 if weights.ndim == 1 else weights.shape[1]


def slopes_of(loss: Loss, y: Array, z: Array, weights: Array) -> tuple[Array, Array]:
    """The slopes of each row (rows x margins) and its squared norm, each from the row alone."""
    products, squares = np.empty((outputs_of(weights), len(z))), np.empty(len(z))
    for place, column in enumerate(weights.reshape(len(weights), -1).T):
        margins(z, column, products[place], squares)
    return loss.slope(y, products[0] if weights.ndim == 1 else products.T).reshape(len(z), -1), squares


@dataclass(frozen=True, kw_only=True)
class MeanResidual(PlainSum):
    """sum_i clip(r_i - middle, -clip, clip) / k_i with r = -slope(y, x . weights) of the scaled row and k the rows of the row's unit, in
    whole steps of clip / 2^bits.

    Guarantee: a row adds a whole number of at most floor(2^bits / k) steps, because |clip(r - middle)| / clip is at most one, so a unit's
    k rows add at most 2^bits; a null record and what is not a number add zero. Broken by
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    rows : Rows
        The scaled rows.
    loss, weights : Loss, Array
        Of the residual.
    clip, middle : float
        Residuals are clipped to [middle - clip, middle + clip].
    bits : int
        The clip is 2^bits steps.
    """

    rows: Rows
    loss: Loss
    weights: Array
    clip: float
    bits: int
    middle: float = 0.0
    draw: Draw = WHOLE

    @property
    def grid(self) -> float:
        return self.clip / 2.0**self.bits

    @property
    def coordinates(self) -> int:
        return 1

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * 2.0**self.bits

    def divisor(self, units: int) -> float:
        return float(units)

    def chunk(self, block: Block) -> Integers:
        total, most = np.zeros(1, dtype=np.int64), 2**self.bits // block.rows_of_unit
        for place, q in self.rows.tiles(block, len(block)):
            products, squares = np.empty(len(q)), np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, squares)
            with np.errstate(all="ignore"):
                shares = np.clip((-self.loss.slope(block.y[place], products) - self.middle) / self.clip, -1.0, 1.0)
            total += sum_of_shares(shares, squares > 0.0, most[place])
        return total


@compiled
def _add_gradients(Z, slopes, squares, clip, cap, radii, sums):  # type: ignore[no-untyped-def]
    """sums += rint(clip(-slopes[i]) / clip radii[i] min(1 / cap, cap / squares[i]) Z[i]) for every row that is not null."""
    rows, columns = Z.shape
    for i in range(rows):
        share = min(max(-slopes[i] / clip, -1.0), 1.0)
        if not squares[i] > 0.0 or share != share:
            continue
        factor = share * radii[i] * min(1 / cap, cap / squares[i])
        for j in range(columns):
            sums[j] += rint(factor * Z[i, j])


@compiled
def _join_residuals(Z, slopes, squares, clip, radius, out):  # type: ignore[no-untyped-def]
    """out[i] = w (Z[i], radius clip(-slopes[i]) / clip) with w = min(1, radius / ||Z[i]||); zero for a null row."""
    rows, columns = Z.shape
    outputs = slopes.shape[1]
    for i in range(rows):
        present, norm = squares[i] > 0.0, 0.0
        for m in range(outputs):
            present = present and slopes[i, m] == slopes[i, m]
            share = min(max(-slopes[i, m] / clip, -1.0), 1.0)
            norm += share * share
        weight = min(1.0, radius / math.sqrt(squares[i])) if present else 0.0
        inward = 1.0 / math.sqrt(norm) if norm > 1.0 else 1.0
        for j in range(columns):
            out[i, j] = weight * Z[i, j]
        for m in range(outputs):
            share = min(max(-slopes[i, m] / clip, -1.0), 1.0)
            out[i, columns + m] = weight * radius * (inward * share) if present else 0.0
