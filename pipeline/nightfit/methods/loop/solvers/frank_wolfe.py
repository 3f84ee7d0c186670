"""Frank and Wolfe's method (1956; Hu et al. 2021, alg. 1, 2): towards one vertex in each step. Imports numpy and rooms below."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import State
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class FrankWolfe:
    """w <- (1 - eta) w + eta v with the answered vertex v and eta = 2 / (t + 2) in step t = 1, 2, ...: never leaves the vertices' hull.

    Guarantee: everything here is post-processing of private answers and free; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "frank_wolfe"
    takes: ClassVar[Answer] = Answer.VERTEX
    usual_mean: ClassVar[str] = "vertex"
    usual_steps: ClassVar[int] = 20
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def update(self, state: State, vertex: Array, penalty: Penalty, features: int) -> State:
        eta = 2 / (state.step + 3)
        moved = (1 - eta) * state.weights + eta * vertex
        return State(state.step + 1, moved, moved, moved)

    def result(self, state: State) -> Array:
        return state.iterate


EXAMPLES = (FrankWolfe(steps=20), FrankWolfe(steps=1))
