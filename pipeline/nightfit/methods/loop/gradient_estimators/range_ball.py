"""A range from one half of the records, a ball mean around it from the other (Kamath et al. 2021, alg. 3). Imports rooms below."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.methods.loop.gradient_estimators.range import Range
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.queries.inside_means import InsideMean
from nightfit.types import Answer, Array, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeBall:
    """c + sum(Z') / max(|Z'|, 3 n0 / 4) + noise: c from `Range` on the first half of the records, Z' the differences g - c of the
    second half that are no longer than `bound` (their tau sqrt(d)); what lies outside is dropped.

    As printed, but for keyed halves instead of the first and last records; `ball` needs a third of the noise.

    Guarantee: those of BucketCounts and InsideMean; the halves do not overlap, so a record pays for one of them.
    """

    name: ClassVar[str] = "range_ball"
    answer: ClassVar[Answer] = Answer.GRADIENT
    bounds_norm: ClassVar[bool] = True
    bound: float
    buckets: int = 65

    def __post_init__(self) -> None:
        Range(bound=self.bound, buckets=self.buckets)

    @property
    def range(self) -> Range:
        """A coordinate is no larger than the norm."""
        return Range(bound=self.bound, buckets=self.buckets)

    def halves(self, point: Point) -> tuple[Point, Point]:
        if not isinstance(point.draw, Part) or point.draw.high - point.draw.low < 2:
            raise ValueError("range_ball halves its records: use batch full or splits")
        middle = (point.draw.low + point.draw.high) // 2
        return replace(point, draw=Part(point.draw.low, middle)), replace(point, draw=Part(middle, point.draw.high))

    def inside(self, point: Point, centre: Array) -> InsideMean:
        return InsideMean(
            loss=point.loss,
            weights=point.weights,
            centre=centre,
            bound=self.bound,
            bits=point.bits,
            expected=max(1, round(point.units * point.draw.fraction)),
            draw=point.draw,
            key=point.key,
        )

    def events(self, point: Point, label: str, allowed: Allowance) -> tuple[Event, ...]:
        first, second = self.halves(point)
        inside = self.inside(second, np.zeros(len(point.weights)))
        return (
            *self.range.events(first, f"{label} range", allowed),
            gaussian_event(inside, f"{label} ball", second.adjacency, allowed.multiplier),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        first, second = self.halves(point)
        centre = self.range.estimate(gate, first, f"{label} range")
        inside = self.inside(second, centre)
        return centre + gate.ask(f"{label} ball", inside) / inside.divisor(point.units)

    def deviation(self, point: Point, allowed: Allowance) -> float:
        _, second = self.halves(point)
        inside = self.inside(second, np.zeros(len(point.weights)))
        return allowed.multiplier * inside.sensitivity(point.adjacency) * inside.grid / inside.divisor(point.units)


EXAMPLES = (RangeBall(bound=1.0), RangeBall(bound=20.0, buckets=17))
