"""Takes each answer as the next weights, for estimators that answer with weights. Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.solvers import Solver, SolverBase, SolverState
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment(SolverBase):
    """w <- the answer, `steps` times; the result is the mean of the last `averaged` answers.

    Guarantee: every update is post-processing of private answers and costs nothing; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "assignment"
    takes: ClassVar[Answer] = Answer.WEIGHTS
    usual_estimator: ClassVar[str] = "hard_thresholding"
    usual_steps: ClassVar[int | None] = 10
    steps: int
    averaged: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.averaged <= self.steps:
            raise ValueError(f"assignment needs 1 <= averaged <= steps, got averaged {self.averaged} and steps {self.steps}")

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        summand = answer if state.step >= self.steps - self.averaged else 0.0
        return SolverState(state.step + 1, answer, answer, state.averaged + summand)

    def result(self, state: SolverState) -> Array:
        return state.averaged / self.averaged


EXAMPLES: tuple[Solver, ...] = (Assignment(steps=1), Assignment(steps=10, averaged=3))
