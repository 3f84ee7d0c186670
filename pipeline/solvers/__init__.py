"""Solvers, one file each: pure updates of a public state from private gradients. Sees no rows and no ledger. Imports penalties, types."""

from dataclasses import dataclass
from typing import Protocol

from pipeline.penalties import Penalty
from pipeline.types import Array


@dataclass(frozen=True, slots=True)
class State:
    """Where an optimiser stands after `step` gradients; `averaged` is the sum of the iterates that the result averages."""

    step: int
    weights: Array
    averaged: Array


class Solver(Protocol):
    @property
    def steps(self) -> int:
        """The number of gradients it asks for, fixed in advance."""

    def start(self, columns: int) -> State:
        """A start that does not depend on data."""

    def update(self, state: State, gradient: Array, penalty: Penalty, features: int) -> State:
        """The next state; the first `features` weights are penalised, an intercept behind them is not."""

    def result(self, state: State) -> Array:
        """The fitted weights."""
