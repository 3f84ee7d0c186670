"""Solvers, one file each: pure updates of a public state from private gradients. Sees no rows and no ledger. Imports penalties, types."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.none import NoPenalty
from nightfit.types import Answer, Array

IMPULSES = 1024


@dataclass(frozen=True, slots=True)
class State:
    """Where an optimiser stands after `step` gradients.

    The next gradient is asked at `weights`; `iterate` is the best guess so far; `averaged` sums the iterates that the result averages.
    """

    step: int
    weights: Array
    iterate: Array
    averaged: Array


class Solver(Protocol):
    takes: ClassVar[Answer]

    @property
    def steps(self) -> int:
        """The number of gradients it asks for, fixed in advance."""

    def start(self, columns: int) -> State:
        """A start that does not depend on data."""

    def update(self, state: State, answer: Array, penalty: Penalty, features: int) -> State:
        """The next state from what was asked at the state's weights; the first `features` weights are penalised, an intercept behind
        them is not.
        """

    def result(self, state: State) -> Array:
        """The fitted weights."""


def noise_gain(solver: Solver) -> float:
    """Standard deviation of the result in a direction in which the loss is flat, for gradients whose noise has deviation one.

    Such a direction only adds up noise: with e_t as the gradient of step t, coordinate t of the result is what that step's noise
    is multiplied by, and independent noises add in squares.
    """
    squares = 0.0
    for first in range(0, solver.steps, IMPULSES):
        width = min(IMPULSES, solver.steps - first)
        state = solver.start(width)
        for step in range(solver.steps):
            impulse = np.zeros(width)
            if first <= step < first + width:
                impulse[step - first] = 1.0
            state = solver.update(state, impulse, NoPenalty(), width)
        squares += float(np.sum(solver.result(state) ** 2))
    return math.sqrt(squares)
