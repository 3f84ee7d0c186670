"""How much squared residuals fall when columns are clamped farther out. Imports rows and below."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.base import PlainSum, root_up, sum_of_shares
from nightfit.queries.rows import RESOLUTION, Rows
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers

NEAREST, NEARER, FARTHER = 0.25, 0.5, 2.0
"""The other clamps, as multiples of the present one. With the usual reach of 8 scales: 2, 4, and 16 = LARGEST_REACH of rows."""

CLAMPS = (NEAREST, NEARER, 1.0, FARTHER)
"""All clamps that are compared, as multiples of the present one."""

GAINS = len(CLAMPS) - 1
"""The number of comparisons: each clamp with the next."""


def clamped(rows: Rows, free: npt.NDArray[np.bool_], times: float) -> Rows:
    """The rows with the reach of the free columns multiplied by `times`."""
    return replace(rows, reach=np.where(free, rows.reach * times, rows.reach))


@dataclass(frozen=True, kw_only=True)
class TailGains(PlainSum):
    """For clamps of the free columns at 1/4, 1/2, 1 and 2 times their reach, with predictions p_0, p_1, p_2 and p_3 there:
    sum_i clip(r_k, -clip, clip) clip(p_k - p_k-1, -bound_k, bound_k) / k_i in whole steps, for k = 1, 2, 3, with bound_k = bound times the
    multiple, the residual r_k at the middle of p_k and p_k-1, and k_i the rows of the row's unit.

    Twice this is the fall of squared residuals by the farther clamp, (y - p_k-1)^2 - (y - p_k)^2, where nothing is clipped.

    Guarantee: a row adds three whole numbers of at most floor(2^bits / k) steps each, so a unit's k rows add a vector of a norm of at most
    sqrt(3) 2^bits; a null record and what is not a number add zero. A row's predictions are products of its own whole numbers in a fixed
    order. The bounds `clip` and `bound` scale the grid, never the sensitivity in steps. Broken by
    test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    rows : Rows
        The scaled rows, with the present reach.
    loss, weights : Loss, Array
        Of residual and prediction.
    free : array of bool
        The columns whose clamp may change.
    clip, bound : float
        The bounds on a residual and on the change of a prediction.
    bits : int
        clip times bound is 2^bits steps.
    """

    rows: Rows
    loss: Loss
    weights: Array
    free: npt.NDArray[np.bool_]
    clip: float
    bound: float
    bits: int
    draw: Draw = WHOLE

    @property
    def grid(self) -> float:
        """The step of a number whose bound is `bound`; those of the others are as many times as large as their clamps."""
        return self.clip * self.bound / 2.0**self.bits

    @property
    def coordinates(self) -> int:
        return GAINS

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * root_up(GAINS) * 2.0**self.bits

    def divisor(self, units: int) -> float:
        return float(units)

    def chunk(self, block: Block) -> Integers:
        total, most = np.zeros(GAINS, dtype=np.int64), 2**self.bits // block.rows_of_unit
        tiles = [clamped(self.rows, self.free, times).tiles(block, len(block)) for times in CLAMPS]
        for parts in zip(*tiles, strict=True):
            place, present = parts[0][0], parts[0][1].any(axis=1)
            predictions = [self._predicted(q) for _, q in parts]
            for k in range(GAINS):
                near, far = predictions[k], predictions[k + 1]
                with np.errstate(all="ignore"):
                    residual = np.clip(-self.loss.slope(block.y[place], (near + far) / 2) / self.clip, -1.0, 1.0)
                    shares = residual * np.clip((far - near) / (self.bound * CLAMPS[k + 1]), -1.0, 1.0)
                total[k] += sum_of_shares(shares, present, most[place])
        return total

    def _predicted(self, q: Array) -> Array:
        products = np.empty(len(q))
        margins(q, self.weights * 2.0**-RESOLUTION, products, np.empty(len(q)))
        return products
