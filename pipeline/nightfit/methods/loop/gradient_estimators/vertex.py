"""The vertex of an l1 ball towards which the mean loss falls most (Hu et al. 2021, alg. 1, HTDP-FW). Imports packages below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, EstimatorBase, GradientEstimator, Point
from nightfit.privacy.calibration import selection_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.l1_ball import L1Ball
from nightfit.queries.boundings.phi import Phi
from nightfit.queries.gradient_sums import GradientSum, Vertices
from nightfit.types import Answer, Array


class VertexEstimator(EstimatorBase):
    """Shared by estimators that choose one vertex of an l1 ball by noisy scores. Their `sums` returns the sum of bounded gradients.

    The intercept is one more coordinate of the ball: there are 2 columns vertices, and ||(w, intercept)||_1 <= radius.
    """

    name: ClassVar[str]
    answer: ClassVar[Answer] = Answer.VERTEX
    penalty: Penalty

    @property
    def radius(self) -> float:
        """Of the l1 ball that the penalty declares."""
        if self.penalty.radius is None or self.penalty.ball_norm != 1:
            raise ValueError(f"{self.name} chooses between the vertices of an l1 ball: set model.penalty to {{l1_ball: its radius}}")
        return self.penalty.radius

    def sums(self, point: Point) -> GradientSum:
        raise NotImplementedError

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        return (selection_event(Vertices(sums=self.sums(point)), label, point.adjacency, 1, allowance.rho),)

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        (place,) = gate.select(label, Vertices(sums=self.sums(point)))
        columns = len(point.weights)
        vertex = np.zeros(columns)
        vertex[place % columns] = self.radius if place < columns else -self.radius
        return vertex

    def deviation(self, point: Point, allowance: Allowance) -> float:
        """NaN: the noise is added to scores, not to coordinates."""
        return math.nan


@dataclass(frozen=True, kw_only=True, slots=True)
class Vertex(VertexEstimator):
    """argmax over v = +-radius e_j of -<v, g> + noise, g_j = (bound / n) sum_i phi(g_ij / bound); their s is our bound.

    As printed each step reads a disjoint part of the records (`batch: splits`); all records have less noise, by the square root of the
    number of steps. Corrected: one exponential mechanism of pure epsilon_0 costs rho = epsilon_0^2 / 8, and the scores' sensitivity is
    exact on the grid.

    Guarantee: that of Vertices with its bounding.
    """

    name: ClassVar[str] = "vertex"
    private: ClassVar[bool] = True
    bound: float
    penalty: Penalty

    def __post_init__(self) -> None:
        Phi(scale=self.bound)
        _ = self.radius  # raises if the penalty is not an l1 ball

    def sums(self, point: Point) -> GradientSum:
        return point.sum(Phi(scale=self.bound))


EXAMPLES: tuple[GradientEstimator, ...] = (Vertex(bound=1.0, penalty=L1Ball(radius=1.0)), Vertex(bound=20.0, penalty=L1Ball(radius=5.0)))
