"""The mean residual of several classes at once. Imports whitened_gradients and below."""

from dataclasses import dataclass

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.exact import inner_radius, rint
from nightfit.problem.losses.softmax import Softmax
from nightfit.queries.base import PlainSum
from nightfit.queries.rows import RESOLUTION, Rows
from nightfit.queries.whitened_gradients import slopes_of
from nightfit.types import WHOLE, Adjacency, Array, Block, Draw, Integers


@dataclass(frozen=True, kw_only=True)
class MeanClassResidual(PlainSum):
    """sum_i min(1, clip / |r_i|) r_i / k_i with the vector r = -slope(y, x . weights) of the scaled row and k the rows of the row's unit,
    in whole steps of clip / 2^bits: with weights of zero, how far the share of each class is from that of equal classes.

    Guarantee: a row's vector has a norm of at most 2^bits / k steps, exactly: min(1 / clip, 1 / |r|) r has a norm of at most one, and is
    scaled to the radius 2^bits / k (1 - margin) - sqrt(outputs) / 2, whose margin exceeds the relative rounding error of the computed
    norm; rounding adds at most sqrt(outputs) / 2. So a unit's k rows add at most 2^bits. A null record and what is not a number add zero.
    Broken by test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_auto_query_by_at_most_its_sensitivity.

    Parameters
    ----------
    rows : Rows
        The scaled rows.
    loss, weights : Softmax, Array
        Of the residuals; weights are a matrix with a column for each margin.
    clip : float
        The bound on a residual.
    bits : int
        The clip is 2^bits steps.
    """

    rows: Rows
    loss: Softmax
    weights: Array
    clip: float
    bits: int
    draw: Draw = WHOLE

    @property
    def grid(self) -> float:
        return self.clip / 2.0**self.bits

    @property
    def coordinates(self) -> int:
        return self.loss.outputs

    def sensitivity(self, adjacency: Adjacency) -> float:
        return adjacency.contributions_changed * 2.0**self.bits

    def divisor(self, units: int) -> float:
        return float(units)

    def chunk(self, block: Block) -> Integers:
        total = np.zeros(self.coordinates, dtype=np.int64)
        radii = np.maximum(inner_radius(2.0**self.bits / block.rows_of_unit, self.coordinates), 0.0)
        for place, q in self.rows.tiles(block, len(block)):
            slopes, squares = slopes_of(self.loss, block.y[place], q, self.weights * 2.0**-RESOLUTION)
            _add_residuals(slopes, squares > 0.0, self.clip, radii[place], total)
        return total


@compiled
def _add_residuals(slopes, present, clip, radii, sums):  # type: ignore[no-untyped-def]
    """sums += rint(radii[i] min(1 / clip, 1 / |slopes[i]|) -slopes[i]) for every row that is present."""
    rows, outputs = slopes.shape
    for i in range(rows):
        square = 0.0
        for m in range(outputs):
            square += (slopes[i, m] / clip) ** 2
        if not (present[i] and square < np.inf):
            continue
        factor = radii[i] / (clip * max(1.0, np.sqrt(square)))
        for m in range(outputs):
            sums[m] += np.int64(rint(-slopes[i, m] * factor))
