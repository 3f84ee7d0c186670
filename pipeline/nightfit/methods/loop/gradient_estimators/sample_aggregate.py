"""Releases one of many block minimisers with noise of its smooth sensitivity (Wang et al. 2020, alg. 1). Imports packages below."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import EXPECTED_SQUARE, Allowance, BoundedQuantity, EstimatorBase, GradientEstimator, Point
from nightfit.privacy.accounting import smooth_gaussian_shift
from nightfit.privacy.events import Event, SmoothGaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.l2_ball import L2Ball
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.block_minimisers import BlockMinimisers, projected
from nightfit.types import WHOLE, Answer, Array

# assumed ratio of the ball's diameter to the distance of block minimisers; only accuracy depends on it: the diameter over it is a part of
# S whatever the records are, and at 100 its noise alone was as large as the weights in a ball of twice their norm with 11 columns
DISTANCE_RATIO = 1000
MAX_BLOCKS = 3000  # the driver holds all distances between minimisers: 72 MB
TOLERATED_NOISE = 0.3  # of a coefficient, in residuals, beyond which a plan warns, as it does of other methods
ROWS_PER_COLUMN = 2  # records of a block at least, for each column, so that its minimiser is determined


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregation:
    """The number of blocks, the smoothness of the bound S, and the noise S / shift."""

    blocks: int
    touched: int
    smoothness: float
    shift: float

    @property
    def tail(self) -> float:
        """The weight of the diameter in S: e^(-smoothness k), where k changed units touch half of the blocks."""
        needed = (self.blocks - (self.blocks + self.touched) // 2 - 1) // self.touched
        return math.exp(-self.smoothness * needed)

    def expected_noise(self, columns: int, units: int) -> float:
        """2 sqrt(d m / (n square)) / shift: S is about twice the distance within which the most central block minimiser has half of the
        others, whose coordinates each have the variance m / (n square) for residuals of one and independent columns of this mean square.
        """
        return 2 * math.sqrt(columns * self.blocks / (units * EXPECTED_SQUARE)) / self.shift


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleAggregate(EstimatorBase):
    """The block minimiser that lies closest to the larger half of them, plus N(0, (S / shift)^2) in each coordinate, projected to the
    ball of radius `bound` again: a whole fit in one query with the whole (epsilon, delta).

    Corrected: S is the order-statistic bound of BlockMinimisers instead of a mean of largest radii; blocks are disjoint, so a unit
    touches one of them (two if ids may change) instead of sqrt(m); shift is exact, five times the printed one.

    Guarantee: that of BlockMinimisers and of SmoothGaussianEvent.
    """

    name: ClassVar[str] = "sample_aggregate"
    private: ClassVar[bool] = True
    answer: ClassVar[Answer] = Answer.WEIGHTS
    bounded: ClassVar[BoundedQuantity] = BoundedQuantity.WEIGHTS
    one_shot: ClassVar[bool] = True
    bound: float
    penalty: Penalty
    features: int
    touched: int = 1
    blocks: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"sample_aggregate needs a positive finite bound, the radius of the ball of weights, got {self.bound}")
        if self.blocks is not None and not 3 <= self.blocks <= MAX_BLOCKS:
            raise ValueError(f"blocks must lie between 3 and {MAX_BLOCKS:,}, got {self.blocks}")

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        aggregation = self.aggregation(point, allowance.epsilon, allowance.delta)
        return (
            SmoothGaussianEvent(
                label=label,
                smoothness=aggregation.smoothness,
                shift=aggregation.shift,
                epsilon=allowance.epsilon,
                delta=allowance.delta,
                coordinates=len(point.weights),
                adjacency=point.adjacency,
            ),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        event = gate.account.events.get(label)
        if not isinstance(event, SmoothGaussianEvent):
            raise ValueError(f"nothing was reserved for the aggregate {label!r}")
        query = BlockMinimisers(
            loss=point.loss,
            penalty=self.penalty,
            features=self.features,
            coordinates=len(point.weights),
            radius=self.bound,
            blocks=self.aggregation(point, event.epsilon, event.delta).blocks,
            touched=self.touched,
            smoothness=event.smoothness,
            key=point.key,
            rows=point.rows,
        )
        return projected(gate.smooth_release(label, query), self.bound)

    def deviation(self, point: Point, allowance: Allowance) -> float:
        return math.nan

    def aggregation(self, point: Point, epsilon: float, delta: float) -> Aggregation:
        if not 0 < point.loss.smoothness < math.inf:
            raise ValueError("sample_aggregate minimises each block by a method for smooth losses: use squared, huber or logistic")
        if point.draw != WHOLE:
            raise ValueError("sample_aggregate reads all records in one query: remove batch")
        return _best_aggregation(epsilon, delta, len(point.weights), point.units, self.touched, self.blocks)

    def explain(self, point: Point, allowance: Allowance) -> list[str]:
        made = self.aggregation(point, allowance.epsilon, allowance.delta)
        noise = made.expected_noise(len(point.weights), point.units)
        wanted = float(f"{point.units * (noise / TOLERATED_NOISE) ** 2:.1g}")
        loud = (
            f"Warning: if blocks differ by chance alone, the noise is about {noise:.2g} residuals per scaled coefficient; about "
            f"{wanted:,.0f} records would make it {TOLERATED_NOISE:g}: use another method."
        )
        warning = "Warning: with so few blocks the noise is as large as the ball: use more records or another method."
        return [
            f"The records are divided into {made.blocks:,} blocks by a keyed hash, about {point.units // made.blocks:,} in each. Each "
            f"block is fitted, within a ball of radius {self.bound:.4g} (intercept included), and one fit is released, with Gaussian "
            f"noise of {1 / made.shift:.3g} smooth sensitivities (which change by a factor of at most e^{made.smoothness:.3g} between "
            "neighbours), computed in doubles and rounded to a public grid.",
            *([warning] if made.tail > 0.1 else []),
            *([loud] if noise > TOLERATED_NOISE else []),
        ]


@cache
def _best_aggregation(epsilon: float, delta: float, columns: int, units: int, touched: int, blocks: int | None) -> Aggregation:
    """Blocks and smoothness with the least noise if the block minimisers lie DISTANCE_RATIO times closer together than the diameter.

    Their distance grows with sqrt(blocks), and the diameter enters S with the weight `tail`. So the noise is in proportion to
    sqrt(blocks) max(1, DISTANCE_RATIO tail) / shift, and 2 touched ln(DISTANCE_RATIO) / smoothness blocks are enough for a given
    smoothness.
    """
    most = min(MAX_BLOCKS, units // (ROWS_PER_COLUMN * columns))
    if (blocks or 3) > most:
        raise ValueError(
            f"{units:,} records make at most {most:,} blocks with {ROWS_PER_COLUMN} records per column: "
            "use more records, fewer columns or another method"
        )
    candidates = []
    for times in np.geomspace(0.25, 4, 13):
        smoothness = float(times) * epsilon / (4 * (columns + math.log(2 / delta)))  # at 1 that of Wang et al. 2020, alg. 1
        shift = smooth_gaussian_shift(epsilon, delta, smoothness, columns)
        count = blocks or min(most, math.ceil(2 * touched * math.log(DISTANCE_RATIO) / smoothness) + 2 * touched)
        if shift > 0:
            candidates.append(Aggregation(blocks=count, touched=touched, smoothness=smoothness, shift=shift))
    if not candidates:
        raise ValueError(f"no smooth noise is ({epsilon:g}, {delta:g})-private in {columns} columns: use another method")
    return min(candidates, key=lambda made: math.sqrt(made.blocks) * max(1.0, DISTANCE_RATIO * made.tail) / made.shift)


EXAMPLES: tuple[GradientEstimator, ...] = (
    SampleAggregate(bound=5.0, penalty=NoPenalty(), features=2),
    SampleAggregate(bound=20.0, penalty=L2Ball(radius=20.0), features=3, touched=2),
)
