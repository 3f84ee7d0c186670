"""Proximal gradient descent with averaging of the last iterates (a projection is a prox). Imports numpy and rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import State
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class ProximalGradient:
    """w <- prox_{step_size penalty}(w - step_size g), `steps` times; the result is the mean of the last `averaged` iterates.

    Guarantee: everything here is post-processing of private gradients and free; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "proximal_gradient"
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
        counted = moved if state.step >= self.steps - self.averaged else 0.0
        return State(state.step + 1, moved, moved, state.averaged + counted)

    def result(self, state: State) -> Array:
        return state.averaged / self.averaged


def check(steps: int, step_size: float, averaged: int) -> None:
    """Refuse what is no schedule."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if not (math.isfinite(step_size) and step_size > 0):
        raise ValueError(f"step_size must be positive and finite, got {step_size}")
    if not 1 <= averaged <= steps:
        raise ValueError(f"averaged must lie between 1 and steps ({steps}), got {averaged}")


def stepped(weights: Array, gradient: Array, step_size: float, penalty: Penalty, features: int) -> Array:
    """prox_{step_size penalty}(weights - step_size gradient), the intercept behind the features unpenalised."""
    moved = weights - step_size * gradient
    moved[:features] = penalty.prox(moved[:features], step_size)
    return moved


EXAMPLES = (ProximalGradient(steps=20, step_size=0.1), ProximalGradient(steps=30, step_size=0.5, averaged=15))
