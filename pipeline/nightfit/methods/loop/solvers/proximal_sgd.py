"""Proximal stochastic descent on Poisson samples (Xie et al. 2023, alg. 1, 2, 4; Wang et al. 2020, sec. 6). Imports packages below."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.solvers import Solver, SolverBase, SolverState
from nightfit.methods.loop.solvers.proximal_gradient import check_schedule, proximal_step
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array


@dataclass(frozen=True, kw_only=True, slots=True)
class ProximalSgd(SolverBase):
    """w_{t+1} = prox_{s_t penalty}(w_t - s_t g_t), s_t = step_size min(1, sqrt((steps / 4 + 1) / (t + 1))), g_t from a fresh sample.

    Xie et al. print gam_t = K1 / sqrt(t), which has the wrong dimension and no value at 0: it is at most 1 / K1, our step_size,
    and falls like 1 / sqrt(t). With the estimator `clipped` this is DP-SPGD, with `median_of_means` DP-SPGD(K), with `smoothed` or
    `soft` DP-SPGD(H) and the stochastic version of Wang's alg. 4. A batch is divided by its expected size, a constant.

    Guarantee: every update is post-processing of private gradients and costs nothing; the number of steps is fixed in advance.
    """

    name: ClassVar[str] = "proximal_sgd"
    takes: ClassVar[Answer] = Answer.GRADIENT
    usual_sampling_rate: ClassVar[float] = 0.01
    usual_steps: ClassVar[int | None] = 200
    steps: int
    step_size: float
    averaged: int = 1

    def __post_init__(self) -> None:
        check_schedule(self.steps, self.step_size, self.averaged)

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        size = self.step_size * min(1.0, math.sqrt((self.steps / 4 + 1) / (state.step + 1)))
        iterate = proximal_step(state.weights, answer, size, penalty, features)
        summand = iterate if state.step >= self.steps - self.averaged else 0.0
        return SolverState(state.step + 1, iterate, iterate, state.averaged + summand)

    def result(self, state: SolverState) -> Array:
        return state.averaged / self.averaged


EXAMPLES: tuple[Solver, ...] = (ProximalSgd(steps=40, step_size=0.2), ProximalSgd(steps=40, step_size=0.5, averaged=20))
