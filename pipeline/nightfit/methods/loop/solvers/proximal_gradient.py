"""Proximal gradient descent with averaging of the last iterates (a projection is a prox). Imports packages below."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.solvers import Solver, SolverBase, SolverState
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class ProximalGradient(SolverBase):
    """w <- prox_{step_size penalty}(w - step_size g), `steps` times; the result is the mean of the last `averaged` iterates.

    Guarantee: every update is post-processing of private gradients and costs nothing; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "proximal_gradient"
    takes: ClassVar[Answer] = Answer.GRADIENT
    steps: int
    step_size: float
    averaged: int = 1

    def __post_init__(self) -> None:
        check_schedule(self.steps, self.step_size, self.averaged)

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        iterate = proximal_step(state.weights, answer, self.step_size, penalty, features)
        summand = iterate if state.step >= self.steps - self.averaged else 0.0
        return SolverState(state.step + 1, iterate, iterate, state.averaged + summand)

    def result(self, state: SolverState) -> Array:
        return state.averaged / self.averaged


def check_schedule(steps: int, step_size: float, averaged: int) -> None:
    """Raise ValueError unless steps >= 1, step_size > 0 and 1 <= averaged <= steps."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if not (math.isfinite(step_size) and step_size > 0):
        raise ValueError(f"step_size must be positive and finite, got {step_size}")
    if not 1 <= averaged <= steps:
        raise ValueError(f"averaged must lie between 1 and steps ({steps}), got {averaged}")


def proximal_step(weights: Array, gradient: Array, step_size: float, penalty: Penalty, features: int) -> Array:
    """prox_{step_size penalty}(weights - step_size gradient), the intercept behind the features unpenalised."""
    stepped = weights - step_size * gradient
    stepped[:features] = penalty.prox(stepped[:features], step_size)
    return stepped


EXAMPLES: tuple[Solver, ...] = (ProximalGradient(steps=20, step_size=0.1), ProximalGradient(steps=30, step_size=0.5, averaged=15))
