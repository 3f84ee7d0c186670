"""Locates the mean with half of the records and averages around it with the others (Kamath et al. 2021, alg. 3). Imports packages below."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, BoundedQuantity, EstimatorBase, GradientEstimator, Point
from nightfit.methods.loop.gradient_estimators.range import Range
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.queries.inside_means import InsideMean
from nightfit.types import Answer, Array, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeBall(EstimatorBase):
    """c + sum(Z') / max(|Z'|, 3 n0 / 4) + noise: c from `Range` on the first half of the records, Z' the differences g - c of the
    second half that are no longer than `bound` (their tau sqrt(d)); longer ones are dropped.

    As printed, except that the halves are keyed instead of the first and last records; `ball` needs a third of the noise.

    Guarantee: those of BucketCounts and InsideMean; the halves do not overlap, so a unit pays for one of them, or for leaving one and
    joining the other if its id changes.
    """

    name: ClassVar[str] = "range_ball"
    private: ClassVar[bool] = True
    answer: ClassVar[Answer] = Answer.GRADIENT
    bounded: ClassVar[BoundedQuantity] = BoundedQuantity.NORM
    bound: float
    buckets: int = 65

    def __post_init__(self) -> None:
        Range(bound=self.bound, buckets=self.buckets)

    @property
    def range(self) -> Range:
        """With the same bound, because a coordinate is no larger than the norm."""
        return Range(bound=self.bound, buckets=self.buckets)

    def halves(self, point: Point) -> tuple[Point, Point]:
        if not isinstance(point.draw, Part) or point.draw.high - point.draw.low < 2:
            raise ValueError("range_ball reads two halves of its records: use batch full or splits")
        middle = (point.draw.low + point.draw.high) // 2
        return replace(point, draw=Part(point.draw.low, middle)), replace(point, draw=Part(middle, point.draw.high))

    def inside(self, point: Point, centre: Array) -> InsideMean:
        return InsideMean(
            loss=point.loss,
            weights=point.weights,
            centre=centre,
            bound=self.bound,
            bits=point.bits,
            expected=point.expected_units,
            draw=point.draw,
            key=point.key,
            rows=point.rows,
        )

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        first, second = self.halves(point)
        inside = self.inside(second, np.zeros(len(point.weights)))
        return (
            *self.range.events(first, f"{label} range", allowance),
            gaussian_event(inside, f"{label} ball", second.adjacency, allowance.multiplier),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        first, second = self.halves(point)
        centre = self.range.estimate(gate, first, f"{label} range")
        inside = self.inside(second, centre)
        return centre + gate.ask(f"{label} ball", inside) / inside.divisor(point.units)

    def deviation(self, point: Point, allowance: Allowance) -> float:
        _, second = self.halves(point)
        inside = self.inside(second, np.zeros(len(point.weights)))
        return allowance.multiplier * inside.sensitivity(point.adjacency) * inside.grid / inside.divisor(point.units)


EXAMPLES: tuple[GradientEstimator, ...] = (RangeBall(bound=1.0), RangeBall(bound=20.0, buckets=17))
