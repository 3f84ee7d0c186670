"""Proximal gradient descent with averaging of the last iterates (a projection is a prox). Imports numpy and rooms below."""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.penalties import Penalty
from pipeline.solvers import State
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class ProximalGradient:
    """w <- prox_{step_size penalty}(w - step_size g), `steps` times; the result is the mean of the last `averaged` iterates.

    Guarantee: everything here is post-processing of private gradients and free; the number of steps is fixed in advance.
    """

    steps: int
    step_size: float
    averaged: int = 1

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise ValueError(f"step_size must be positive and finite, got {self.step_size}")
        if not 1 <= self.averaged <= self.steps:
            raise ValueError(f"averaged must lie between 1 and steps ({self.steps}), got {self.averaged}")

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns))

    def update(self, state: State, gradient: Array, penalty: Penalty, features: int) -> State:
        moved = state.weights - self.step_size * gradient
        moved[:features] = penalty.prox(moved[:features], self.step_size)
        counted = moved if state.step >= self.steps - self.averaged else np.zeros_like(moved)
        return State(state.step + 1, moved, state.averaged + counted)

    def result(self, state: State) -> Array:
        return state.averaged / self.averaged


EXAMPLES = (ProximalGradient(steps=20, step_size=0.1), ProximalGradient(steps=30, step_size=0.5, averaged=15))
