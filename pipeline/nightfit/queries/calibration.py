"""The second moment of level, prediction and residual: what a fit is calibrated by. Imports second_moments and packages below."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.rows import RESOLUTION
from nightfit.queries.second_moments import OuterProducts
from nightfit.types import Array, Block

SIZE = 3


@dataclass(frozen=True, kw_only=True)
class Calibration(OuterProducts):
    """That of u = (level, w s, b r / clip): s = clip(x . direction, -1, 1), r = clip(-slope(y, x . weights) - middle, -clip, clip),
    b^2 = level^2 + w^2. The level is one, or zero without an intercept.

    Half of ||u||^2 <= 2 b^2 is the residual's, so its products with level and w s have the noise of a gradient in two columns, and the
    other products come with them at no cost. A small weight w is for the level, if noise is large: what it misses is worse than a scale
    that is a little wrong.

    Guarantee: that of OuterProducts. A null record and what is not a number add zero. Broken by
    test_a_neighbour_moves_a_recipe_question_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_a_recipe_question_by_at_most_its_sensitivity.
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
        return SIZE

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
            margins(u, np.zeros(SIZE), np.empty(len(q)), squares)
            yield place, u, squares
