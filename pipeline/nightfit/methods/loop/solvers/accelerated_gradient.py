"""Accelerated proximal gradient descent (Nesterov 1983; Beck, Teboulle 2009, FISTA) with averaging. Imports numpy and packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.solvers import Solver, SolverBase, SolverState
from nightfit.methods.loop.solvers.proximal_gradient import check_schedule, proximal_step
from nightfit.problem.accelerated import nesterov
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceleratedGradient(SolverBase):
    """w_{t+1} = prox_{step_size penalty}(v_t - step_size g(v_t)), v_{t+1} = w_{t+1} + t / (t + 3) (w_{t+1} - w_t).

    It reaches directions of small curvature in the square root of the steps that plain descent needs, and adds up noise faster there.

    Guarantee: every update is post-processing of private gradients and costs nothing; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "accelerated_gradient"
    accelerated: ClassVar[bool] = True
    takes: ClassVar[Answer] = Answer.GRADIENT
    steps: int
    step_size: float
    averaged: int = 1

    def __post_init__(self) -> None:
        check_schedule(self.steps, self.step_size, self.averaged)

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        iterate = proximal_step(state.weights, answer, self.step_size, penalty, features)
        extrapolated = iterate + nesterov(state.step) * (iterate - state.iterate)
        summand = iterate if state.step >= self.steps - self.averaged else 0.0
        return SolverState(state.step + 1, extrapolated, iterate, state.averaged + summand)

    def result(self, state: SolverState) -> Array:
        return state.averaged / self.averaged


EXAMPLES: tuple[Solver, ...] = (AcceleratedGradient(steps=20, step_size=0.2), AcceleratedGradient(steps=40, step_size=0.5, averaged=10))
