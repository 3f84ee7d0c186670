"""The next weights are what was answered (hard thresholding, estimates that are a fit by themselves). Imports numpy and rooms below."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import State
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """w <- the answer, `steps` times; the result is the mean of the last `averaged` answers.

    Guarantee: everything here is post-processing of private answers and free; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "assignment"
    takes: ClassVar[Answer] = Answer.WEIGHTS
    usual_mean: ClassVar[str] = "hard_thresholding"
    usual_steps: ClassVar[int] = 10
    steps: int
    averaged: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.averaged <= self.steps:
            raise ValueError(f"steps and averaged need 1 <= averaged <= steps, got {self.averaged} and {self.steps}")

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def update(self, state: State, answer: Array, penalty: Penalty, features: int) -> State:
        counted = answer if state.step >= self.steps - self.averaged else 0.0
        return State(state.step + 1, answer, answer, state.averaged + counted)

    def result(self, state: State) -> Array:
        return state.averaged / self.averaged


EXAMPLES = (Assignment(steps=1), Assignment(steps=10, averaged=3))
