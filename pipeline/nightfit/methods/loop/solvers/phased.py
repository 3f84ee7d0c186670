"""Phases of regularised descent on disjoint data (Asi, Liu, Tian 2024; Lowy, Razaviyayn 2023). Imports packages below."""

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.solvers import Solver, SolverBase, SolverState
from nightfit.methods.loop.solvers.proximal_gradient import check_schedule, proximal_step
from nightfit.problem.penalties import Penalty
from nightfit.types import Answer, Array, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class Phased(SolverBase):
    """Phase i = 1, 2, ... reads half as many records as the previous one and minimises loss + (lam_i / 2) ||w - c_i||^2 inside a ball
    around c_i, the result of the previous phase. From phase to phase lam_i grows and the radius shrinks.

    w <- prox(Proj_{Ball(c_i, r_i)}((w - s g + s lam_i c_i) / (1 + s lam_i))), s_t = min(step_size, 4 / (lam_i (t + 1))), r_i = r / 2^i;
    a phase returns the mean of w_t with weights proportional to t + 1. Our constants: lam_1 = 1 / (step_size steps of a phase),
    lam_{i+1} = growth lam_i (they print growth 32), r = 4 max(1, ||c_1||). Their weights are quoted from memory; privacy does not depend
    on them. If gradients have a moment of `order` k, a phase's bound is C_i = C_1 (n_i / n_1)^(1 / k), because C ~ G_k (n_i
    sqrt(rho / d))^(1 / k): fewer records have relatively more noise, so they are clipped harder. None stands for k = infinity: no
    gradient is longer than C_1.

    Guarantee: the phases' parts do not overlap and every step is post-processing, so a record pays for the steps of one phase;
    the bounds are public. Broken by test_a_record_pays_for_one_phase.
    """

    name: ClassVar[str] = "phased"
    takes: ClassVar[Answer] = Answer.GRADIENT
    usual_steps: ClassVar[int | None] = 40
    steps: int
    step_size: float
    phases: int = 4
    growth: float = 4.0
    order: float | None = None

    def __post_init__(self) -> None:
        check_schedule(self.steps, self.step_size, 1)
        if not 1 <= self.phases <= self.steps or self.steps % self.phases:
            raise ValueError(f"steps must be a multiple of the {self.phases} phases, got {self.steps}")
        if self.order is not None and not self.order > 1:
            raise ValueError(f"the order of a moment must be above 1, got {self.order}")

    def prescribed_draws(self) -> tuple[Part, ...]:
        """The part that each step reads: half of the records, a quarter, ...; the last two phases have equal parts."""
        edges = [2**32 - (2**32 >> phase) for phase in range(self.phases)] + [2**32]
        parts = [Part(low, high) for low, high in itertools.pairwise(edges)]
        return tuple(part for part in parts for _ in range(self.steps // self.phases))

    def bound_factor(self, step: int) -> float:
        """(n_i / n_1)^(1 / k)."""
        if self.order is None:
            return 1.0
        draws = self.prescribed_draws()
        return float((draws[step].fraction / draws[0].fraction) ** (1 / self.order))

    def update(self, state: SolverState, answer: Array, penalty: Penalty, features: int) -> SolverState:
        phase, t = divmod(state.step, self.steps // self.phases)
        length, centre = self.steps // self.phases, state.iterate
        strength = self.growth**phase / (self.step_size * length)
        size = min(self.step_size, 4 / (strength * (t + 1)))
        regularised = (state.weights - size * answer + size * strength * centre) / (1 + size * strength)
        radius = 4 * max(1.0, float(np.linalg.norm(centre))) / 2**phase if phase else math.inf
        offset = regularised - centre
        projected = centre + offset * min(1.0, radius / max(float(np.linalg.norm(offset)), 1e-300))
        weights = proximal_step(projected, np.zeros_like(projected), size, penalty, features)
        averaged = state.averaged + 2 * (t + 1) / (length * (length + 1)) * weights
        if t + 1 < length:
            return SolverState(state.step + 1, weights, centre, averaged)
        return SolverState(state.step + 1, averaged, averaged, np.zeros_like(averaged))

    def result(self, state: SolverState) -> Array:
        return state.iterate


EXAMPLES: tuple[Solver, ...] = (Phased(steps=40, step_size=0.5), Phased(steps=60, step_size=0.2, phases=3, order=2.0))
