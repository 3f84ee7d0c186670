"""The server that is not trusted: projected gradient steps on mean reports. Imports numerics and types."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.types import Array, Integers


@dataclass(frozen=True, slots=True)
class State:
    """After `step` batches: the iterate and the sum of all iterates. All of it is a function of reports."""

    step: int
    weights: Array
    summed: Array

    def average(self) -> Array:
        return self.summed / max(1, self.step)

    def packed(self) -> Integers:
        """The numbers' bits, to be kept exactly where integers are kept."""
        return np.concatenate([[float(self.step)], self.weights, self.summed]).view(np.int64)

    @classmethod
    def unpacked(cls, kept: Integers) -> "State":
        numbers = np.ascontiguousarray(kept).view(np.float64)
        columns = (len(numbers) - 1) // 2
        return cls(int(numbers[0]), numbers[1 : 1 + columns].copy(), numbers[1 + columns :].copy())


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """w <- Proj_R(w - eta_t (l2 w + g)) for the mean g of a batch of reports, t counting every batch.

    eta_t = radius / (size sqrt(t)) with size = sqrt(B^2 / batch + L^2 (1 - 1 / batch)) + l2 radius, a bound on the norm of the step
    in mean square (Nemirovski et al. 2009, sec. 2.2), or 1 / (l2 t) where `strongly` is set. The penalty l2 |w|^2 / 2 spares columns
    from `penalised` on (the intercept); it is added here, because inside a report it would use up the bound.
    """

    radius: float
    l2: float
    strongly: bool
    size: float
    penalised: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise ValueError(f"the radius of the ball of weights must be positive and finite, got {self.radius}")
        if not (math.isfinite(self.l2) and self.l2 >= 0):
            raise ValueError(f"the l2 penalty must be 0 or more, got {self.l2}")
        if self.strongly and self.l2 == 0:
            raise ValueError("steps 1 / (l2 t) need an l2 penalty above 0: set one, or use the steps of a convex loss")

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns))

    def update(self, state: State, mean: Array) -> State:
        weights, summed = state.weights.copy(), state.summed.copy()
        self.move(weights, summed, mean, state.step + 1)
        return State(state.step + 1, weights, summed)

    def move(self, weights: Array, summed: Array, mean: Array, step: int) -> None:
        """The step in place: weights become the next iterate, which is added to `summed`."""
        eta = 1 / (self.l2 * step) if self.strongly else self.radius / (self.size * math.sqrt(step))
        _move(weights, summed, mean, eta, self.l2, self.penalised, self.radius)


def step_size_of(norm: float, bound: float, batch: int, l2: float, radius: float) -> float:
    """The `size` of a server, from B, L and the batch."""
    return math.sqrt(norm**2 / batch + bound**2 * (1 - 1 / batch)) + l2 * radius


@compiled
def _move(weights: Any, summed: Any, mean: Any, eta: Any, l2: Any, penalised: Any, radius: Any) -> None:
    square = 0.0
    for j in range(len(weights)):
        shrunk = l2 * weights[j] if j < penalised else 0.0
        weights[j] -= eta * (shrunk + mean[j])
        square += weights[j] * weights[j]
    factor = min(1.0, radius / math.sqrt(square)) if square > 0.0 else 1.0
    for j in range(len(weights)):
        weights[j] *= factor
        summed[j] += weights[j]
