"""One of many block minimisers, with Gaussian noise of its smooth sensitivity (Wang et al. 2020, alg. 1). Imports rooms below."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.privacy.accounting import smooth_gaussian_shift
from nightfit.privacy.events import Event, SmoothGaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.l2_ball import L2Ball
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.block_minimisers import BlockMinimisers, projected
from nightfit.types import WHOLE, Answer, Array

NARROWER = 100
MOST_BLOCKS = 3000
ROWS_PER_COLUMN = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregation:
    """How many blocks, how smooth a bound S and how much noise: S / shift."""

    blocks: int
    touched: int
    smoothness: float
    shift: float

    @property
    def tail(self) -> float:
        """What the diameter counts: e^(-smoothness k) for the k units that must change until half of the blocks did."""
        far = (self.blocks - (self.blocks + self.touched) // 2 - 1) // self.touched
        return math.exp(-self.smoothness * far)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleAggregate:
    """The block minimiser that lies closest to the larger half of them, plus N(0, (S / shift)^2) in each coordinate, projected to the
    ball of radius `bound` again: a fit by itself, in one question with the whole (epsilon, delta).

    Corrected: S is the order-statistic bound of BlockMinimisers instead of a mean of largest radii; blocks are disjoint, so that a
    unit touches one of them (two if ids may change) instead of sqrt(m); shift is the exact one, five times the printed.

    Guarantee: that of BlockMinimisers and of SmoothGaussianEvent.
    """

    name: ClassVar[str] = "sample_aggregate"
    answer: ClassVar[Answer] = Answer.WEIGHTS
    bounds_weights: ClassVar[bool] = True
    single: ClassVar[bool] = True
    bound: float
    penalty: Penalty
    features: int
    touched: int = 1
    blocks: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"sample_aggregate needs a positive finite bound, the radius of the ball of weights, got {self.bound}")
        if self.blocks is not None and not 3 <= self.blocks <= MOST_BLOCKS:
            raise ValueError(f"blocks must lie between 3 and {MOST_BLOCKS:,}, got {self.blocks}")

    def events(self, point: Point, label: str, allowed: Allowance) -> tuple[Event, ...]:
        made = self.aggregation(point, allowed.epsilon, allowed.delta)
        return (
            SmoothGaussianEvent(
                label=label,
                smoothness=made.smoothness,
                shift=made.shift,
                epsilon=allowed.epsilon,
                delta=allowed.delta,
                coordinates=len(point.weights),
                adjacency=point.adjacency,
            ),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        event = gate.account.events.get(label)
        if not isinstance(event, SmoothGaussianEvent):
            raise ValueError(f"nothing was reserved for the aggregate {label!r}")
        question = BlockMinimisers(
            loss=point.loss,
            penalty=self.penalty,
            features=self.features,
            coordinates=len(point.weights),
            radius=self.bound,
            blocks=self.aggregation(point, event.epsilon, event.delta).blocks,
            touched=self.touched,
            smoothness=event.smoothness,
            key=point.key,
        )
        return projected(gate.smooth_release(label, question), self.bound)

    def deviation(self, point: Point, allowed: Allowance) -> float:
        return math.nan

    def aggregation(self, point: Point, epsilon: float, delta: float) -> Aggregation:
        if not 0 < point.loss.smoothness < math.inf:
            raise ValueError("sample_aggregate solves blocks by a method for smooth losses: use squared, huber or logistic")
        if point.draw != WHOLE:
            raise ValueError("sample_aggregate asks once, of all records: remove batch")
        return _chosen(epsilon, delta, len(point.weights), point.units, self.touched, self.blocks)

    def explain(self, point: Point, allowed: Allowance) -> list[str]:
        made = self.aggregation(point, allowed.epsilon, allowed.delta)
        few = ["Warning: so few blocks leave noise of the size of the ball: use more records or another method."] if made.tail > 0.1 else []
        return [
            f"The records are divided into {made.blocks:,} blocks by a keyed hash, about {point.units // made.blocks:,} in each. Each "
            f"block is fitted, within a ball of radius {self.bound:.4g} (intercept included), and one fit is released, with Gaussian "
            f"noise of {1 / made.shift:.3g} smooth sensitivities (which change by a factor of at most e^{made.smoothness:.3g} between "
            "neighbours), made of doubles and rounded to a public grid.",
            *few,
        ]


@cache
def _chosen(epsilon: float, delta: float, columns: int, units: int, touched: int, blocks: int | None) -> Aggregation:
    """Blocks and smoothness with the least noise if the minimisers of blocks lie NARROWER times closer together than the diameter.

    Their distance grows with sqrt(blocks), and the diameter, as many changed units away as touch half of the blocks, counts `tail` of
    itself: so the noise is in proportion to sqrt(blocks) max(1, NARROWER tail) / shift, and for a given smoothness
    2 touched ln(NARROWER) / smoothness blocks are enough. A block has twice as many records as columns at least.
    """
    most = min(MOST_BLOCKS, units // (ROWS_PER_COLUMN * columns))
    if (blocks or 3) > most:
        raise ValueError(
            f"{units:,} records make at most {most:,} blocks with {ROWS_PER_COLUMN} records per column: "
            "use more records, fewer columns or another method"
        )
    tried = []
    for times in np.geomspace(0.25, 4, 13):
        smoothness = float(times) * epsilon / (4 * (columns + math.log(2 / delta)))  # at 1 that of Wang et al. 2020, alg. 1
        shift = smooth_gaussian_shift(epsilon, delta, smoothness, columns)
        many = blocks or min(most, math.ceil(2 * touched * math.log(NARROWER) / smoothness) + 2 * touched)
        if shift > 0:
            tried.append(Aggregation(blocks=many, touched=touched, smoothness=smoothness, shift=shift))
    if not tried:
        raise ValueError(f"no smooth noise is ({epsilon:g}, {delta:g}) private in {columns} columns: use another method")
    return min(tried, key=lambda made: math.sqrt(made.blocks) * max(1.0, NARROWER * made.tail) / made.shift)


EXAMPLES = (
    SampleAggregate(bound=5.0, penalty=NoPenalty(), features=2),
    SampleAggregate(bound=20.0, penalty=L2Ball(radius=20.0), features=3, touched=2),
)
