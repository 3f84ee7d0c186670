"""Solvers, one file each: pure updates of a public state from private answers. They see no rows and no ledger. Imports penalties, types."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.none import NoPenalty
from nightfit.types import Answer, Array, Draw

IMPULSES = 1024  # impulses that noise_gain follows at once: bounds its memory at 1,024 columns


@dataclass(frozen=True, slots=True)
class SolverState:
    """The state of a solver after `step` answers.

    The next query is evaluated at `weights`; `iterate` is the current solution; `averaged` is the sum of the iterates that the result
    averages.
    """

    step: int
    weights: Array
    iterate: Array
    averaged: Array


class Solver(Protocol):
    """Turns answers into weights, in a number of steps that is fixed in advance."""

    name: ClassVar[str]
    takes: ClassVar[Answer]
    accelerated: ClassVar[bool]  # steps with momentum
    usual_estimator: ClassVar[str]  # the gradient estimator unless the method names one
    usual_steps: ClassVar[int | None]  # unless the method says otherwise; None lets the plan choose them by their noise
    usual_sampling_rate: ClassVar[float]  # of the Poisson samples that steps read unless the method says otherwise; 1 for all records

    @property
    def steps(self) -> int:
        """The number of answers it takes."""

    def prescribed_draws(self) -> tuple[Draw, ...] | None:
        """The records that each step reads, if the solver prescribes them; None leaves them to the method."""

    def bound_factor(self, step: int) -> float:
        """The estimator's bound in this step, as a multiple of its bound in the first."""

    def start(self, columns: int) -> SolverState:
        """The first state, which does not depend on data."""

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        """The next state from the answer at the state's weights. The first `features` weights are penalised, an intercept behind
        them is not.
        """

    def result(self, state: SolverState) -> Array:
        """The fitted weights."""


class SolverBase:
    """What most solvers share."""

    accelerated: ClassVar[bool] = False
    usual_estimator: ClassVar[str] = "clipped"
    usual_steps: ClassVar[int | None] = None
    usual_sampling_rate: ClassVar[float] = 1.0

    def prescribed_draws(self) -> tuple[Draw, ...] | None:
        return None

    def bound_factor(self, step: int) -> float:
        return 1.0

    def start(self, columns: int) -> SolverState:
        return SolverState(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))


def noise_gain(solver: Solver, curvature: float = 0.0) -> float:
    """Standard deviation of the result in a direction of this curvature, if each gradient's noise has deviation one.

    With e_t + curvature w as the gradient of step t, coordinate t of the result is the factor of that step's noise, and the variances of
    independent noises add. A direction in which the loss is flat only adds up noise.
    """
    squares = 0.0
    for first in range(0, solver.steps, IMPULSES):
        width = min(IMPULSES, solver.steps - first)
        state = solver.start(width)
        for step in range(solver.steps):
            gradient = curvature * state.weights
            if first <= step < first + width:
                gradient[step - first] += 1.0
            state = solver.update(state, gradient, NoPenalty(), width)
        squares += float(np.sum(solver.result(state) ** 2))
    return math.sqrt(squares)


def distance_left(solver: Solver, curvature: float) -> float:
    """What is left of a distance of one from the optimum, in a direction of this curvature and without noise."""
    start = solver.start(1)
    state = replace(start, weights=start.weights + 1.0, iterate=start.iterate + 1.0)
    for _ in range(solver.steps):
        state = solver.update(state, curvature * state.weights, NoPenalty(), 1)
    return abs(float(solver.result(state)[0]))
