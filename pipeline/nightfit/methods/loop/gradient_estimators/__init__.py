"""Private robust estimates of the mean gradient, one file each, as queries to the gate. Imports privacy, queries and packages below."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Protocol, Self

from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.queries.base import SumQuery
from nightfit.queries.boundings import Bounding
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.queries.rows import Rows
from nightfit.types import Adjacency, Answer, Array, Draw

EXPECTED_SQUARE = 0.4  # of a scaled column: 1 / 1.645^2 of a normal one, whose 0.9 quantile is its scale, and a little more of others


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The public facts of one gradient query: where it is evaluated and which records it reads.

    `previous` is the last released gradient, zero before the first; `rows` are the paid scales, if there are any.
    """

    loss: Loss
    weights: Array
    previous: Array
    units: int
    bits: int
    adjacency: Adjacency
    draw: Draw
    key: bytes = field(repr=False)
    rows: Rows | None = None

    def sum(self, bounding: Bounding, groups: Groups | None = None) -> GradientSum:
        """The query for the sum of the bounded gradients at this point."""
        return GradientSum(
            loss=self.loss,
            bounding=bounding,
            weights=self.weights,
            bits=self.bits,
            key=self.key,
            draw=self.draw,
            groups=groups,
            rows=self.rows,
        )

    @property
    def expected_units(self) -> int:
        """The expected number of units that the draw reads, at least 1."""
        return max(1, round(self.units * self.draw.fraction))


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """What one step may cost: as much as one Gaussian query with noise of `multiplier` sensitivities, rho = 1 / (2 multiplier^2).

    `epsilon` and `delta` are those of the whole fit, for an estimator that spends them in one step.
    """

    multiplier: float
    epsilon: float
    delta: float

    @property
    def rho(self) -> float:
        """1 / (2 multiplier^2)."""
        return 0.5 / self.multiplier**2


class BoundedQuantity(StrEnum):
    """What the number `bound` of an estimator limits."""

    COORDINATE = "coordinate"  # of a unit's gradient
    NORM = "norm"  # of a unit's gradient
    TARGET = "target"
    WEIGHTS = "weights"


class GradientEstimator(Protocol):
    """The queries of one step of a fit. `events` depends on neither the weights nor the key of its point.

    `private` has no default: every estimator writes it in its own body, and `declared.check_members` refuses one that does not.
    """

    name: ClassVar[str]
    answer: ClassVar[Answer]
    private: ClassVar[bool]
    bounded: ClassVar[BoundedQuantity]
    one_shot: ClassVar[bool]  # one estimate is a whole fit and spends the whole budget
    coarse: ClassVar[bool]  # locates a mean, but too coarsely to descend by
    usual_bound: ClassVar[float]  # in clips of residuals (and norms of rows), unless the method says otherwise

    @property
    def bound(self) -> float:
        """The public number that limits the quantity `bounded`."""

    def with_bound(self, bound: float) -> Self:
        """The same estimator with another bound."""

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        """The queries that `estimate` will ask, with their noise."""

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        """The private estimate, from the queries reserved under this label."""

    def deviation(self, point: Point, allowance: Allowance) -> float:
        """Standard deviation of the noise in one coordinate of the estimate; NaN if it depends on the data."""

    def explain(self, point: Point, allowance: Allowance) -> list[str]:
        """Sentences about this estimator that a plan adds to the common ones."""


class EstimatorBase:
    """What most estimators share. It does not declare `private`."""

    bounded: ClassVar[BoundedQuantity] = BoundedQuantity.COORDINATE
    one_shot: ClassVar[bool] = False
    coarse: ClassVar[bool] = False
    usual_bound: ClassVar[float] = 1.0

    def with_bound(self, bound: float) -> Self:
        return replace(self, bound=bound)  # type: ignore[type-var]

    def explain(self, point: Point, allowance: Allowance) -> list[str]:
        return []


class GaussianEstimator(EstimatorBase):
    """Shared by estimators that ask one query with Gaussian noise. Their `query` returns it."""

    answer: ClassVar[Answer] = Answer.GRADIENT

    def query(self, point: Point) -> SumQuery:
        raise NotImplementedError

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        return (gaussian_event(self.query(point), label, point.adjacency, allowance.multiplier),)

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        query = self.query(point)
        return gate.ask(label, query) / query.divisor(point.units)

    def deviation(self, point: Point, allowance: Allowance) -> float:
        """multiplier sensitivity grid / divisor."""
        query = self.query(point)
        return allowance.multiplier * query.sensitivity(point.adjacency) * query.grid / query.divisor(point.units)
