"""Asi, Liu, Tian (2024), Private Stochastic Convex Optimization with Heavy Tails: Near-Optimality from Simple Reductions; Lowy,
Razaviyayn (2023), Private Stochastic Optimization with Large Worst-Case Lipschitz Parameter. Imports the room.
"""

import math
from dataclasses import dataclass

from nightfit.methods.loop.theory import MOST_STEPS, Notes, Problem, Schedule

FOUR = 4  # phases that solvers.phased walks through


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A clipped descent on records of its own, pulled towards where the last one ended."""

    units: int
    bound: float
    pull: float
    steps: int


def pull_of(problem: Problem) -> float:
    """lam = max(G_2 / sqrt n, G_k (sqrt d / (n sqrt rho))^(1 - 1 / k)) / D."""
    power = 1 - 1 / problem.moment.order
    noise = math.sqrt(problem.columns) / (problem.units * math.sqrt(problem.rho))
    second = math.sqrt(problem.columns) * problem.moment.scale
    return max(second / math.sqrt(problem.units), problem.moment.norm(problem.columns) * noise**power) / problem.diameter


def phases(problem: Problem, fewest: int = 1) -> tuple[Phase, ...]:
    """For i = 1 .. log2 n: n_i = n / 2^i disjoint records, C_i = G_k (n_i sqrt(rho) / sqrt d)^(1 / k), lam_i = lam 32^i and
    T_i = max(n_i, n_i^2 rho / d) steps, at most MOST_STEPS (localisation; constants of the order that the theorem states).
    """
    pull, found = pull_of(problem), []
    for i in range(1, max(1, math.floor(math.log2(problem.units))) + 1):
        units = problem.units // 2**i
        if units < fewest:
            break
        ratio = units * math.sqrt(problem.rho) / math.sqrt(problem.columns)
        steps = min(MOST_STEPS, math.ceil(max(units, units**2 * problem.rho / problem.columns)))
        bound = problem.moment.norm(problem.columns) * ratio ** (1 / problem.moment.order)
        found.append(Phase(units=units, bound=bound, pull=pull * 32**i, steps=steps))
    return tuple(found)


def phased(problem: Problem) -> Schedule:
    """The first phase's bound, from which solvers.phased has the others'; all phases' steps T, in FOUR phases of equal length; steps of
    1 / (lam T / 4), with which solvers.phased pulls by lam in the first phase, and of 1 / b at most.
    """
    notes = Notes()
    made = phases(problem)
    notes.unless(bool(made), "there are too few records for a single phase")
    first = made[0] if made else Phase(units=1, bound=problem.moment.norm(problem.columns), pull=32 * pull_of(problem), steps=1)
    ratio = first.units * math.sqrt(problem.rho / problem.columns)
    notes.unless(ratio >= 1, f"sqrt(rho) n_1 / sqrt(d) is {ratio:.3g}, below 1: the noise of one step exceeds every gradient")
    steps = notes.steps(problem, sum(phase.steps for phase in made))
    steps = problem.steps or max(FOUR, steps - steps % FOUR)
    return Schedule(
        theorem="Asi et al. 2024, localisation; Lowy, Razaviyayn 2023, alg. 1",
        bound=first.bound,
        steps=steps,
        step_size=min(1 / problem.curvature, FOUR / (pull_of(problem) * steps)),
        notes=tuple(notes),
    )
