"""A range from one half of the records, a ball mean around it from the other (Kamath et al. 2021, alg. 3). Imports rooms below."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, Point, gaussian_event
from nightfit.methods.loop.gradient_estimators.range import Range
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.base import Summed, drawn_of
from nightfit.queries.boundings.l2_clip import radius_of
from nightfit.queries.kernels import inside_sums
from nightfit.types import Adjacency, Answer, Array, Block, Draw, Integers, Part


@dataclass(frozen=True, kw_only=True)
class InsideMean(Summed):
    """expected sum_{i inside} (g_i - centre) / max(number inside, 3 expected / 4), in steps of bound / 2^bits, rounded.

    Guarantee: with r the radius and nu the divisor, replacing a record moves the quotient by at most 2 r / nu if both are inside,
    ||z - S / nu|| / (nu + 1) <= 2 r / nu if one is, and r / nu where nu is clamped; nu >= 3 expected / 4, so by 8 r / 3 after the
    factor `expected`, plus sqrt(columns) for rounding both (Kamath et al. 2021, sec. 4). The same bound
    serves nulling and removing. Broken by test_a_neighbour_moves_the_inside_mean_by_at_most_the_sensitivity.
    """

    loss: Loss
    weights: Array
    centre: Array
    bound: float
    bits: int
    expected: int
    draw: Draw
    key: bytes = field(repr=False)

    @property
    def grid(self) -> float:
        return self.bound / 2.0**self.bits

    @property
    def coordinates(self) -> int:
        return len(self.weights)

    def sensitivity(self, adjacency: Adjacency) -> float:
        return (8 / 3 * 2.0**self.bits + math.sqrt(len(self.weights))) * (1 + 2.0**-40)

    def divisor(self, units: int) -> float:
        return self.expected

    def chunk(self, block: Block) -> Integers:
        block = drawn_of(block, self.key, self.draw)
        radius = radius_of(len(self.weights), self.bits)
        return inside_sums(block, self.weights, self.loss, self.centre, 2.0**self.bits / self.bound, radius)

    def finish(self, total: Integers) -> Integers:
        *sums, inside = map(int, total)
        divisor = max(inside, -(-3 * self.expected // 4))
        return np.array([(2 * value * self.expected + divisor) // (2 * divisor) for value in sums], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeBall:
    """c + sum(Z') / max(|Z'|, 3 n0 / 4) + noise: c from `Range` on the first half of the records, Z' the differences g - c of the
    second half that are no longer than `bound` (their tau sqrt(d)); what lies outside is dropped.

    As printed, but for keyed halves instead of the first and last records; `ball` needs a third of the noise.

    Guarantee: those of BucketCounts and InsideMean; the halves do not overlap, so a record pays for one of them.
    """

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
            gaussian_event(inside, second, f"{label} ball", allowed.multiplier),
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
