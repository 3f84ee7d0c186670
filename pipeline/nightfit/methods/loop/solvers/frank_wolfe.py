"""Frank and Wolfe's method (1956; Hu et al. 2021, alg. 1, 2): each step moves towards one vertex. Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.solvers import Solver, SolverBase, SolverState
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class FrankWolfe(SolverBase):
    """w <- (1 - eta) w + eta v with the answered vertex v and eta = 2 / (t + 2) in step t = 1, 2, ...: w stays in the convex hull.

    Guarantee: every update is post-processing of private answers and costs nothing; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "frank_wolfe"
    takes: ClassVar[Answer] = Answer.VERTEX
    usual_estimator: ClassVar[str] = "vertex"
    usual_steps: ClassVar[int | None] = 60  # eta falls like 2 / t, so 20 steps end a tenth of the radius from the optimum
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        eta = 2 / (state.step + 3)
        iterate = (1 - eta) * state.weights + eta * answer
        return SolverState(state.step + 1, iterate, iterate, iterate)

    def result(self, state: SolverState) -> Array:
        return state.iterate


EXAMPLES: tuple[Solver, ...] = (FrankWolfe(steps=20), FrankWolfe(steps=1))
