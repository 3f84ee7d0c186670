"""Asi, Liu, Tian (2024), Private Stochastic Convex Optimization with Heavy Tails: Near-Optimality from Simple Reductions; Lowy,
Razaviyayn (2023), Private Stochastic Optimization with Large Worst-Case Lipschitz Parameter. Imports the package.
"""

import math
from dataclasses import dataclass

from nightfit.methods.loop.theory import MOST_STEPS, Notes, Problem, TheorySchedule

PHASES = 4  # of solvers.phased


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """A clipped descent on records of its own, regularised towards the result of the previous phase."""

    units: int
    bound: float
    regularisation: float
    steps: int


def regularisation_of(problem: Problem) -> float:
    """lam = max(G_2 / sqrt n, G_k (sqrt d / (n sqrt rho))^(1 - 1 / k)) / D."""
    power = 1 - 1 / problem.moment.order
    noise = math.sqrt(problem.columns) / (problem.units * math.sqrt(problem.rho))
    second = math.sqrt(problem.columns) * problem.moment.scale
    return max(second / math.sqrt(problem.units), problem.moment.norm(problem.columns) * noise**power) / problem.diameter


def phases(problem: Problem, fewest: int = 1) -> tuple[Phase, ...]:
    """For i = 1 .. log2 n: n_i = n / 2^i disjoint records, C_i = G_k (n_i sqrt(rho) / sqrt d)^(1 / k), lam_i = lam 32^i and
    T_i = max(n_i, n_i^2 rho / d) steps, at most MOST_STEPS (localisation; constants of the order that the theorem states).
    """
    regularisation, found = regularisation_of(problem), []
    for i in range(1, max(1, math.floor(math.log2(problem.units))) + 1):
        units = problem.units // 2**i
        if units < fewest:
            break
        ratio = units * math.sqrt(problem.rho) / math.sqrt(problem.columns)
        steps = min(MOST_STEPS, math.ceil(max(units, units**2 * problem.rho / problem.columns)))
        bound = problem.moment.norm(problem.columns) * ratio ** (1 / problem.moment.order)
        found.append(Phase(units=units, bound=bound, regularisation=regularisation * 32**i, steps=steps))
    return tuple(found)


def phased(problem: Problem) -> TheorySchedule:
    """The bound of the first phase, from which solvers.phased computes the others; the steps T of all phases, in PHASES phases of equal
    length; the step size 1 / (lam T / 4), at most 1 / b, with which solvers.phased regularises by lam in the first phase.
    """
    notes = Notes()
    made = phases(problem)
    notes.unless(bool(made), "there are too few records for a single phase")
    first = (
        made[0]
        if made
        else Phase(units=1, bound=problem.moment.norm(problem.columns), regularisation=32 * regularisation_of(problem), steps=1)
    )
    ratio = first.units * math.sqrt(problem.rho / problem.columns)
    notes.unless(ratio >= 1, f"sqrt(rho) n_1 / sqrt(d) is {ratio:.3g}, below 1: the noise of one step exceeds every gradient")
    steps = notes.steps(problem, sum(phase.steps for phase in made))
    steps = problem.steps or max(PHASES, steps - steps % PHASES)
    return TheorySchedule(
        theorem="Asi et al. 2024, localisation; Lowy, Razaviyayn 2023, alg. 1",
        bound=first.bound,
        steps=steps,
        step_size=min(1 / problem.curvature, PHASES / (regularisation_of(problem) * steps)),
        notes=tuple(notes),
    )
