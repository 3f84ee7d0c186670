"""Proximal stochastic descent on Poisson samples (Xie et al. 2023, alg. 1, 2, 4; Wang et al. 2020, sec. 6). Imports rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import State
from nightfit.methods.loop.solvers.proximal_gradient import check, stepped
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class ProximalSgd:
    """w_{t+1} = prox_{s_t penalty}(w_t - s_t g_t), s_t = step_size min(1, sqrt((steps / 4 + 1) / (t + 1))), g_t from a fresh sample.

    Xie et al. print gam_t = K1 / sqrt(t), which has the wrong dimension and no value at 0: it is at most 1 / K1, our step_size,
    and falls like 1 / sqrt(t). With the mean `clipped` this is DP-SPGD, with `median_of_means` DP-SPGD(K), with `smoothed` or
    `soft` DP-SPGD(H) and the stochastic version of Wang's alg. 4. A batch is divided by its expected size, a constant.
    Guarantee: everything here is post-processing of private gradients and free; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "proximal_sgd"
    takes: ClassVar[Answer] = Answer.GRADIENT
    usual_rate: ClassVar[float] = 0.01
    usual_steps: ClassVar[int] = 200
    steps: int
    step_size: float
    averaged: int = 1

    def __post_init__(self) -> None:
        check(self.steps, self.step_size, self.averaged)

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def update(self, state: State, gradient: Array, penalty: Penalty, features: int) -> State:
        size = self.step_size * min(1.0, math.sqrt((self.steps / 4 + 1) / (state.step + 1)))
        moved = stepped(state.weights, gradient, size, penalty, features)
        counted = moved if state.step >= self.steps - self.averaged else 0.0
        return State(state.step + 1, moved, moved, state.averaged + counted)

    def result(self, state: State) -> Array:
        return state.averaged / self.averaged


EXAMPLES = (ProximalSgd(steps=40, step_size=0.2), ProximalSgd(steps=40, step_size=0.5, averaged=20))
