"""Private robust estimates from the units' gradients, one file each, as questions to the gate. Imports gate, query and rooms below."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.base import SumQuery
from nightfit.queries.boundings import Bounding
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.types import Adjacency, Answer, Array, Draw


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Where and of whom gradients are asked: all of it public. `previous` is the last released gradient, zero before the first."""

    loss: Loss
    weights: Array
    previous: Array
    units: int
    bits: int
    adjacency: Adjacency
    draw: Draw
    key: bytes = field(repr=False)

    def sum(self, bounding: Bounding, groups: Groups | None = None) -> GradientSum:
        """The sum of bounded gradients here."""
        return GradientSum(
            loss=self.loss, bounding=bounding, weights=self.weights, bits=self.bits, key=self.key, draw=self.draw, groups=groups
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """What one step may cost: as much as one Gaussian question with noise of `multiplier` sensitivities, rho = 1 / (2 multiplier^2).

    `epsilon` and `delta` are those of the whole fit, for an estimate that is a fit by itself.
    """

    multiplier: float
    epsilon: float
    delta: float

    @property
    def rho(self) -> float:
        return 0.5 / self.multiplier**2


class GradientEstimator(Protocol):
    """What is asked in one step of a fit. What `events` returns depends on the point's weights and key in nothing."""

    answer: ClassVar[Answer]

    @property
    def bound(self) -> float:
        """The public number that bounds a contribution, in units of the gradient."""

    def events(self, point: Point, label: str, allowed: Allowance) -> tuple[Event, ...]:
        """The questions that `estimate` will ask, with their noise."""

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        """The private estimate, by the questions reserved under this label."""

    def deviation(self, point: Point, allowed: Allowance) -> float:
        """Standard deviation of the noise in a coordinate of the estimate; NaN if the data decide it."""


class GaussianEstimator:
    """Shared by means that ask one question with Gaussian noise. Their `query` says which."""

    answer: ClassVar[Answer] = Answer.GRADIENT

    def query(self, point: Point) -> SumQuery:
        raise NotImplementedError

    def events(self, point: Point, label: str, allowed: Allowance) -> tuple[Event, ...]:
        return (gaussian_event(self.query(point), label, point.adjacency, allowed.multiplier),)

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        query = self.query(point)
        return gate.ask(label, query) / query.divisor(point.units)

    def deviation(self, point: Point, allowed: Allowance) -> float:
        query = self.query(point)
        return allowed.multiplier * query.sensitivity(point.adjacency) * query.grid / query.divisor(point.units)
