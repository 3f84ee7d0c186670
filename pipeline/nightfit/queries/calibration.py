"""The second moment of level, prediction and residual, by which a fit is calibrated. Imports second_moments and below."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.rows import RESOLUTION, Rows
from nightfit.queries.second_moments import OuterProducts
from nightfit.types import Array, Block

CALIBRATION_SIZE = 3
"""The length of u without other clamps: level, prediction, residual."""

INCREMENTS = 2.0
"""What a farther clamp adds to a prediction counts this many times in u: it is clipped at half of where predictions are, and has half of
the noise."""


def clamped(rows: Rows, free: npt.NDArray[np.bool_], times: float) -> Rows:
    """The rows with the reach of the free columns multiplied by `times`."""
    return replace(rows, reach=np.where(free, rows.reach * times, rows.reach))


@dataclass(frozen=True, kw_only=True)
class Calibration(OuterProducts):
    """The second moment of u = (level, w s, b r / clip, w e_1, ..., w e_k) with s = clip(x . direction, -1, 1),
    r = clip(-slope(y, x . weights) - middle, -clip, clip) and b^2 = level^2 + w^2.

    With `clamps` c_0 < ... < c_k, one of which is 1, x_j is the row whose free columns are clamped at c_j times their reach, and
    e_j = clip(2 (x_j - x_j-1) . direction, -1, 1): what a farther clamp adds to a prediction. It is zero for most rows.

    Without it half of ||u||^2 <= 2 b^2 is the residual's, so its products with level and w s have the noise of a gradient in two columns,
    and the other products come with them at no cost. A row whose vector is longer than `cap` is scaled back to it. A small w gives the
    level less noise and the scale more.

    Guarantee: that of OuterProducts; all of a row's vector is a function of the row alone. A null record and what is not a number add zero.
    Broken by test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    loss, weights : Loss, Array
        Of the residual.
    direction : Array
        Predictions without the intercept, divided by the width at which they are clipped.
    clip, middle : float
        Residuals are clipped to [middle - clip, middle + clip].
    level : float
        One, or zero without an intercept.
    weight : float
        w, the weight of predictions.
    free : array of bool
        The columns whose clamp may change.
    clamps : tuple of float
        Ascending multiples of the present clamp, 1 among them.
    """

    loss: Loss
    weights: Array
    direction: Array
    clip: float
    level: float
    weight: float
    free: npt.NDArray[np.bool_]
    middle: float = 0.0
    clamps: tuple[float, ...] = (1.0,)

    @property
    def size(self) -> int:
        return CALIBRATION_SIZE + len(self.clamps) - 1

    def vectors(self, block: Block, most: int) -> Iterator[tuple[slice, Array, Array]]:
        here = self.clamps.index(1.0)
        tiles = [clamped(self.rows, self.free, times).tiles(block, most) for times in self.clamps]
        for parts in zip(*tiles, strict=True):
            place, q = parts[here]
            products, squares = np.empty(len(q)), np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, squares)
            predicted = np.column_stack([self._predicted(other) for _, other in parts])
            with np.errstate(all="ignore"):
                residual = np.clip((-self.loss.slope(block.y[place], products) - self.middle) / self.clip, -1.0, 1.0)
                added = self.weight * np.clip(INCREMENTS * np.diff(predicted), -1.0, 1.0)
            shares = self.weight * np.clip(predicted[:, here], -1.0, 1.0), math.hypot(self.level, self.weight) * residual
            u = np.column_stack([np.full(len(q), self.level), *shares, added])
            u[(squares == 0.0) | np.isnan(u).any(axis=1)] = 0.0
            margins(u, np.zeros(self.size), np.empty(len(q)), squares)
            yield place, u, squares

    def _predicted(self, q: Array) -> Array:
        products = np.empty(len(q))
        margins(q, self.direction * 2.0**-RESOLUTION, products, np.empty(len(q)))
        return products
