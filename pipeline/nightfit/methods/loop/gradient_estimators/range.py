"""Locates each coordinate's mean in the fullest bucket of a private histogram (Kamath et al. 2021, alg. 2). Imports packages below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, EstimatorBase, GradientEstimator, Point
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.queries.histograms import BucketCounts
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Range(EstimatorBase):
    """The midpoint of the bucket with the largest noisy count, of `buckets` equal ones in [-bound, bound], for each coordinate.

    Kamath et al.: their R is our bound, their 2 tau our width 2 bound / buckets. Corrected: all buckets are equal, empty ones are
    counted too, values beyond the ends count in the end buckets, and a point is returned. Coarse by design: half a bucket at best.

    Guarantee: that of BucketCounts; the argmax is post-processing.
    """

    name: ClassVar[str] = "range"
    private: ClassVar[bool] = True
    answer: ClassVar[Answer] = Answer.GRADIENT
    coarse: ClassVar[bool] = True
    bound: float
    buckets: int = 65

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a range needs a positive finite bound, got {self.bound}")
        if self.buckets < 2:
            raise ValueError(f"a range needs at least 2 buckets, got {self.buckets}")

    def query(self, point: Point) -> BucketCounts:
        return BucketCounts(
            loss=point.loss,
            weights=point.weights,
            bound=self.bound,
            buckets=self.buckets,
            bits=point.bits,
            draw=point.draw,
            key=point.key,
            rows=point.rows,
        )

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        return (gaussian_event(self.query(point), label, point.adjacency, allowance.multiplier),)

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        counts = gate.ask(label, self.query(point)).reshape(len(point.weights), self.buckets)
        return -self.bound + (np.argmax(counts, axis=1) + 0.5) * 2 * self.bound / self.buckets

    def deviation(self, point: Point, allowance: Allowance) -> float:
        """That of a uniform number in a bucket: the noise only decides which bucket."""
        return 2 * self.bound / self.buckets / math.sqrt(12)


EXAMPLES: tuple[GradientEstimator, ...] = (Range(bound=1.0), Range(bound=20.0, buckets=4097))
