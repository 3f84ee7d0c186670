"""The score of a fitted model: the sum over units of its bounded loss. Imports kernels, records and below."""

from dataclasses import dataclass, field

import numpy as np

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.base import PlainSum
from nightfit.queries.kernels import TILE_BYTES
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers


@dataclass(frozen=True, kw_only=True)
class Margin:
    """z = x'.w for the clamped columns x' = clip((x - centre) / scale, -1, 1) of a block's x; without clamps, z = x.w.

    Parameters
    ----------
    weights : Array
        Of the clamped columns.
    centre, scale : Array
        The clamp of each column, in units of the block.
    """

    weights: Array
    centre: Array
    scale: Array

    @classmethod
    def of(cls, weights: Array, fitted: Preprocessing, shape: Preprocessing) -> "Margin":
        """The margin of weights that a fit made for `fitted`, on blocks made by `shape`.

        Where the fit paid for the bounds of a column, its clamp applies.
        """
        own, given = (np.array([of.centre, of.scale]) for of in (fitted, shape))
        centre, scale = np.zeros(shape.columns), np.ones(shape.columns)
        centre[: len(shape.features)] = (own[0] - given[0]) / given[1]
        scale[: len(shape.features)] = own[1] / given[1]
        return cls(weights=weights, centre=centre, scale=scale)

    def __call__(self, X: Array) -> Array:
        clamped = (self.centre != 0) | (self.scale != 1)
        if clamped.any():
            X = np.array(X, dtype=np.float64)
            X[:, clamped] = np.clip((X[:, clamped] - self.centre[clamped]) / self.scale[clamped], -1.0, 1.0)
        products, squares = np.empty(len(X)), np.empty(len(X))
        margins(X, self.weights, products, squares)
        return products


@dataclass(frozen=True, kw_only=True)
class LossSum(PlainSum):
    """The sum over units of the mean over their rows of 2 min(loss, most) / most - 1, in steps of 2^-bits: -1 for a perfect prediction,
    1 for one whose loss is `most` or more, or is not a number.

    Guarantee: a row of a unit that has k rows adds one whole number of at most floor(2^bits / k) steps on either side of zero, whatever
    the row and the weights are, so a unit's rows add at most 2^bits; a null record (a row of zeros) adds nothing. Integers add exactly,
    so neighbours move the sum by at most `contributions_changed` times 2^bits. Broken by
    test_a_neighbour_moves_a_score_by_at_most_its_sensitivity and, for persons, by test_a_person_moves_a_score_by_at_most_its_sensitivity.

    Parameters
    ----------
    loss : Loss
        What is scored.
    margin : Margin
        The fitted model.
    most : float
        The largest loss that counts.
    bits : int
        One unit is 2^bits steps on either side of zero.
    """

    loss: Loss
    margin: Margin
    most: float
    bits: int
    draw: Draw = field(default=WHOLE, init=False)
    coordinates: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.most < np.inf:
            raise ValueError(f"the largest loss that counts must be positive and finite, got {self.most}")

    @property
    def grid(self) -> float:
        return 2.0**-self.bits

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * 2.0**self.bits

    def divisor(self, units: int) -> float:
        return float(units)

    def chunk(self, block: Block) -> Integers:
        total, largest = np.zeros(1, dtype=np.int64), 2**self.bits // block.rows_of_unit
        tile = max(1, TILE_BYTES // (8 * block.X.shape[1]))
        for start in range(0, len(block), tile):
            X, y = block.X[start : start + tile], block.y[start : start + tile]
            with np.errstate(all="ignore"):
                ratio = self.loss.value(y, self.margin(X)) / self.most
                ratio = np.where(ratio < 1, np.maximum(ratio, 0.0), 1.0)
            steps = np.rint((2 * ratio - 1) * largest[start : start + tile]).astype(np.int64)
            total += steps[(X != 0).any(axis=1)].sum()
        return total
