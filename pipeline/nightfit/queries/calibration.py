"""The second moment of level, prediction and residual, by which a fit is calibrated. Imports second_moments and below."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.rows import RESOLUTION
from nightfit.queries.second_moments import OuterProducts
from nightfit.types import Array, Block

CALIBRATION_SIZE = 3
"""The length of u: level, prediction, residual."""


@dataclass(frozen=True, kw_only=True)
class Calibration(OuterProducts):
    """The second moment of u = (level, w s, b r / clip) with s = clip(x . direction, -1, 1),
    r = clip(-slope(y, x . weights) - middle, -clip, clip) and b^2 = level^2 + w^2.

    Half of ||u||^2 <= 2 b^2 is the residual's, so its products with level and w s have the noise of a gradient in two columns, and the
    other products come with them at no cost. A small w gives the level less noise and the scale more.

    Guarantee: that of OuterProducts. A null record and what is not a number add zero. Broken by
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
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
    """

    loss: Loss
    weights: Array
    direction: Array
    clip: float
    level: float
    weight: float
    middle: float = 0.0

    @property
    def size(self) -> int:
        return CALIBRATION_SIZE

    def vectors(self, block: Block, most: int) -> Iterator[tuple[slice, Array, Array]]:
        for place, q in self.rows.tiles(block, most):
            products, predicted, squares = np.empty(len(q)), np.empty(len(q)), np.empty(len(q))
            margins(q, self.weights * 2.0**-RESOLUTION, products, squares)
            margins(q, self.direction * 2.0**-RESOLUTION, predicted, squares)
            with np.errstate(all="ignore"):
                residual = np.clip((-self.loss.slope(block.y[place], products) - self.middle) / self.clip, -1.0, 1.0)
            shares = self.weight * np.clip(predicted, -1.0, 1.0), math.hypot(self.level, self.weight) * residual
            u = np.column_stack([np.full(len(q), self.level), *shares])
            u[(squares == 0.0) | np.isnan(u).any(axis=1)] = 0.0
            margins(u, np.zeros(self.size), np.empty(len(q)), squares)
            yield place, u, squares
