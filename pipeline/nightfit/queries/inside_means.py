"""The mean of the gradients inside a public ball; those outside are dropped. Imports kernels, boundings and below."""

import math
from dataclasses import dataclass, field

import numpy as np

from nightfit.problem.losses import Loss
from nightfit.queries.base import Summed, drawn_of
from nightfit.queries.boundings.l2_clip import radius_of
from nightfit.queries.kernels import inside_sums
from nightfit.queries.rows import Rows, scaled_by
from nightfit.types import Adjacency, Array, Block, Draw, Integers

ROUND_UP = 1 + 2.0**-40
"""More than the relative rounding error of the sensitivity's own arithmetic: it is never rounded down."""


@dataclass(frozen=True, kw_only=True)
class InsideMean(Summed):
    """expected sum_{i inside} (g_i - centre) / max(number inside, 3 expected / 4), in steps of bound / 2^bits, rounded.

    Guarantee: with r the radius and nu the divisor, replacing a record moves the quotient by at most 2 r / nu if both are inside,
    ||z - S / nu|| / (nu + 1) <= 2 r / nu if one is, and r / nu where nu is clamped; nu >= 3 expected / 4, so by 8 r / 3 after the
    factor `expected`, plus sqrt(columns) for rounding both (Kamath et al. 2021, sec. 4). The same bound
    serves nulling and removing. Broken by test_a_neighbour_moves_the_inside_mean_by_at_most_the_sensitivity.

    Parameters
    ----------
    loss, weights : Loss, Array
        Of the gradient.
    centre, bound : Array, float
        The ball's centre and radius.
    bits : int
        The radius is 2^bits steps.
    expected : int
        The public number of units that is expected inside.
    draw, key : Draw, bytes
        Which records take part.
    rows : Rows or None
        Paid scales: the query is then of scaled rows.
    """

    loss: Loss
    weights: Array
    centre: Array
    bound: float
    bits: int
    expected: int
    draw: Draw
    key: bytes = field(repr=False)
    rows: Rows | None = None

    @property
    def grid(self) -> float:
        return self.bound / 2.0**self.bits

    @property
    def coordinates(self) -> int:
        return len(self.weights)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return (8 / 3 * 2.0**self.bits + math.sqrt(len(self.weights))) * ROUND_UP

    def divisor(self, units: int) -> float:
        return self.expected

    def chunk(self, block: Block) -> Integers:
        block = scaled_by(self.rows, drawn_of(block, self.key, self.draw))
        radius = radius_of(len(self.weights), self.bits)
        return inside_sums(block, self.weights, self.loss, self.centre, 2.0**self.bits / self.bound, radius)

    def finalise(self, total: Integers) -> Integers:
        *sums, inside = map(int, total)
        divisor = max(inside, -(-3 * self.expected // 4))
        return np.array([(2 * value * self.expected + divisor) // (2 * divisor) for value in sums], dtype=np.int64)
