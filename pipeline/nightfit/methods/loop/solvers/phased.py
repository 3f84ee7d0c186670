"""Phases of regularised descent on disjoint data (Asi, Liu, Tian 2024; Lowy, Razaviyayn 2023). Imports rooms below."""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import State
from nightfit.methods.loop.solvers.proximal_gradient import check, stepped
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class Phased:
    """Phase i = 1, 2, ... has half the records of the one before and descends on loss + (lam_i / 2) ||w - c_i||^2 inside a ball around
    c_i, the result of the phase before; lam_i and the radius grow and shrink from phase to phase.

    w <- prox(Proj_{Ball(c_i, r_i)}((w - s g + s lam_i c_i) / (1 + s lam_i))), s_t = min(step_size, 4 / (lam_i (t + 1))), r_i = r / 2^i;
    a phase returns sum_t (t + 1) w_t weighted to one. Our constants: lam_1 = 1 / (step_size steps of a phase), lam_{i+1} = growth
    lam_i (they print growth 32), r = 4 max(1, ||c_1||). Weights of their text are from memory; the privacy is not theirs but ours.
    Where gradients have a moment of `order` k, a phase's bound is C_i = C_1 (n_i / n_1)^(1 / k), because C ~ G_k (n_i sqrt(rho / d))^
    (1 / k): noise weighs more on fewer records, so they are clipped closer. None stands for k = infinity: no gradient is longer than C_1.
    Guarantee: the phases' parts do not overlap and every step is post-processing, so a record pays for the steps of one phase;
    the bounds are public. Broken by test_a_record_pays_for_one_phase.
    """

    name: ClassVar[str] = "phased"
    takes: ClassVar[Answer] = Answer.GRADIENT
    usual_steps: ClassVar[int] = 40
    steps: int
    step_size: float
    phases: int = 4
    growth: float = 4.0
    order: float | None = None

    def __post_init__(self) -> None:
        check(self.steps, self.step_size, 1)
        if not 1 <= self.phases <= self.steps or self.steps % self.phases:
            raise ValueError(f"steps must be a multiple of the {self.phases} phases, got {self.steps}")
        if self.order is not None and not self.order > 1:
            raise ValueError(f"the order of a moment must be above 1, got {self.order}")

    def draws(self) -> tuple[Part, ...]:
        """The part of each step: half of the records, a quarter, ..., the last two phases alike."""
        edges = [2**32 - (2**32 >> phase) for phase in range(self.phases)] + [2**32]
        parts = [Part(low, high) for low, high in itertools.pairwise(edges)]
        return tuple(part for part in parts for _ in range(self.steps // self.phases))

    def narrowed(self, step: int) -> float:
        """(n_i / n_1)^(1 / k): the bound of a step's phase, in bounds of the first."""
        if self.order is None:
            return 1.0
        draws = self.draws()
        return float((draws[step].fraction / draws[0].fraction) ** (1 / self.order))

    def start(self, columns: int) -> State:
        return State(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))

    def update(self, state: State, gradient: Array, penalty: Penalty, features: int) -> State:
        phase, t = divmod(state.step, self.steps // self.phases)
        length, centre = self.steps // self.phases, state.iterate
        strength = self.growth**phase / (self.step_size * length)
        size = min(self.step_size, 4 / (strength * (t + 1)))
        pulled = (state.weights - size * gradient + size * strength * centre) / (1 + size * strength)
        radius = 4 * max(1.0, float(np.linalg.norm(centre))) / 2**phase if phase else math.inf
        away = pulled - centre
        near = centre + away * min(1.0, radius / max(float(np.linalg.norm(away)), 1e-300))
        moved = stepped(near, np.zeros_like(near), size, penalty, features)
        averaged = state.averaged + 2 * (t + 1) / (length * (length + 1)) * moved
        if t + 1 < length:
            return State(state.step + 1, moved, centre, averaged)
        return State(state.step + 1, averaged, averaged, np.zeros_like(averaged))

    def result(self, state: State) -> Array:
        return state.iterate


EXAMPLES = (Phased(steps=40, step_size=0.5), Phased(steps=60, step_size=0.2, phases=3, order=2.0))
