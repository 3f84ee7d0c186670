"""Accelerated proximal gradient descent (Nesterov 1983; Beck, Teboulle 2009, FISTA) with averaging. Imports numpy and rooms below."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import State
from nightfit.methods.loop.solvers.proximal_gradient import check, stepped
from nightfit.problem.accelerated import nesterov
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceleratedGradient:
    """w_{t+1} = prox_{step_size penalty}(v_t - step_size g(v_t)), v_{t+1} = w_{t+1} + t / (t + 3) (w_{t+1} - w_t).

    Reaches directions of small curvature in the square root of the steps that plain descent needs, and sums noise faster there.
    Guarantee: everything here is post-processing of private gradients and free; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "accelerated_gradient"
    takes: ClassVar[Answer] = Answer.GRADIENT
    steps: int
    step_size: float
    averaged: int = 1

    def __post_init__(self) -> None:
        check(self.steps, self.step_size, self.averaged)

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def update(self, state: State, gradient: Array, penalty: Penalty, features: int) -> State:
        moved = stepped(state.weights, gradient, self.step_size, penalty, features)
        ahead = moved + nesterov(state.step) * (moved - state.iterate)
        counted = moved if state.step >= self.steps - self.averaged else 0.0
        return State(state.step + 1, ahead, moved, state.averaged + counted)

    def result(self, state: State) -> Array:
        return state.averaged / self.averaged


EXAMPLES = (AcceleratedGradient(steps=20, step_size=0.2), AcceleratedGradient(steps=40, step_size=0.5, averaged=10))
