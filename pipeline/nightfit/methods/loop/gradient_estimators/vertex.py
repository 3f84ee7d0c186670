"""The vertex of an l1 ball towards which the mean loss falls most (Hu et al. 2021, alg. 1, HTDP-FW). Imports rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.privacy.calibration import selection_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.penalties.l1_ball import L1Ball
from nightfit.queries.boundings.phi import Phi
from nightfit.queries.gradient_sums import GradientSum, Vertices
from nightfit.types import Answer, Array


class VertexEstimator:
    """Shared by means that choose one vertex of the ball by noisy scores. Their `sums` says of which bounded gradients.

    The intercept is one more coordinate of the ball: there are 2 columns vertices, and ||(w, intercept)||_1 <= radius.
    """

    answer: ClassVar[Answer] = Answer.VERTEX
    penalty: L1Ball

    def sums(self, point: Point) -> GradientSum:
        raise NotImplementedError

    def events(self, point: Point, label: str, allowed: Allowance) -> tuple[Event, ...]:
        return (selection_event(Vertices(sums=self.sums(point)), label, point.adjacency, 1, allowed.rho),)

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        (place,) = gate.select(label, Vertices(sums=self.sums(point)))
        columns = len(point.weights)
        vertex = np.zeros(columns)
        vertex[place % columns] = self.penalty.radius if place < columns else -self.penalty.radius
        return vertex

    def deviation(self, point: Point, allowed: Allowance) -> float:
        """No coordinate gets noise of its own."""
        return math.nan


def check_ball(name: str, penalty: object) -> None:
    if not isinstance(penalty, L1Ball):
        raise ValueError(f"{name} walks between the vertices of an l1 ball: set model.penalty to {{l1_ball: its radius}}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Vertex(VertexEstimator):
    """argmax over v = +-radius e_j of -<v, g> + noise, g_j = (bound / n) sum_i phi(g_ij / bound); their s is our bound.

    Each step has a disjoint part of the records, as printed; `batch: full` has less noise. Corrected: one exponential mechanism of
    pure epsilon_0 costs rho = epsilon_0^2 / 8, and the scores' sensitivity is exact on the grid.

    Guarantee: that of Vertices with its bounding.
    """

    name: ClassVar[str] = "vertex"
    usual_batch: ClassVar[str] = "splits"
    bound: float
    penalty: L1Ball

    def __post_init__(self) -> None:
        Phi(scale=self.bound)
        check_ball("vertex", self.penalty)

    def sums(self, point: Point) -> GradientSum:
        return point.sum(Phi(scale=self.bound))


EXAMPLES = (Vertex(bound=1.0, penalty=L1Ball(radius=1.0)), Vertex(bound=20.0, penalty=L1Ball(radius=5.0)))
