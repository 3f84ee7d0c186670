"""Tao, Wu, Cheng, Wang (2022), Private Stochastic Convex Optimization and Sparse Learning with Heavy-tailed Data Revisited. Imports
the package. Their v is order - 1, their u the moment's bound.
"""

import math
from dataclasses import replace

from nightfit.methods.loop.theory import Notes, Problem, TheorySchedule, linear_steps


def threshold_at(problem: Problem, units: float, multiplier: float, groups: int | None = None) -> float:
    """tau* = (v u n / (c sqrt(d) z))^(1 / (1 + v)), c = 2 for a mean and M for the median of M groups' means.

    Minimises the bias u / tau^v plus a coordinate's noise c tau sqrt(d) z / n. For one column and one query it is B* of alg. 1,
    (v u n mu / 2)^(1 / (1 + v)); the printed B has ln(1 / xi) sqrt(ln(1.25 / delta)) / epsilon for 2 / (v mu).
    """
    changed = problem.adjacency.contributions_changed * (1.0 if groups is None else groups / 2)
    strength = (problem.moment.order - 1) * problem.moment.bound * units / (changed * math.sqrt(problem.columns) * multiplier)
    return float(strength ** (1 / problem.moment.order))


def groups_of(problem: Problem) -> int:
    """M = 2 ceil(2 ln(2 d / xi)), even (alg. 3, line 1: 4 ln(2 d / xi), which is no whole number)."""
    return problem.groups or 2 * math.ceil(2 * math.log(2 * problem.columns / problem.failure))


def gradient_error(problem: Problem, units: float, bound: float, multiplier: float, groups: int | None) -> float:
    """G of thm 3, at the noise that is drawn: sqrt(d) (kappa (ln(d / xi) / n)^(v / (1 + v)) + u / tau^v) + sqrt(d) sigma."""
    power = 1 - 1 / problem.moment.order
    logarithm = max(1.0, math.log(problem.columns / problem.failure))
    changed = problem.adjacency.contributions_changed * (1.0 if groups is None else groups / 2)
    noise = changed * bound * math.sqrt(problem.columns) * multiplier / units
    bias = problem.moment.bound / bound ** (problem.moment.order - 1)
    return math.sqrt(problem.columns) * (problem.moment.scale * (logarithm / units) ** power + bias + noise)


def _descent(problem: Problem, groups: int | None, name: str) -> TheorySchedule:
    """Thm 6: T = R^2 epsilon^2 n^2 / (tau^2 d^4) steps on all records, with tau = (u epsilon n / d^1.5)^(1 / (1 + v)) (u as in
    thm 7, so that R / tau is a number), step D / (R sqrt T), all averaged. Thm 7: linear_steps on disjoint parts, with G of thm 3
    for ln n of them, step 1 / (a + b), the last. The bound is tau* for that T.
    """
    notes = Notes()
    notes.smooth(problem)
    n, d = problem.units, problem.columns
    if not problem.strongly_convex:
        problem = replace(problem, batch=problem.batch or "full")
        tau = (problem.moment.bound * problem.epsilon * n / d**1.5) ** (1 / problem.moment.order)
        steps = notes.steps(problem, (problem.radius * problem.epsilon * n / (tau * d**2)) ** 2)
    else:
        problem = replace(problem, batch=problem.batch or "splits")
        guess = math.ceil(math.log(n + 1))
        records, multiplier = problem.records_per_step(guess), problem.multiplier(guess)
        error = gradient_error(problem, records, threshold_at(problem, records, multiplier, groups), multiplier, groups)
        steps = linear_steps(problem, error, notes)
    averaged = problem.records_per_step(steps) / (groups or 1)
    notes.unless(averaged >= 10, f"a step's means are of {averaged:.3g} records each: choose fewer steps or groups, or batch: full")
    return TheorySchedule(
        theorem=f"Tao et al. 2022, {name}, thm {7 if problem.strongly_convex else 6}",
        bound=threshold_at(problem, problem.records_per_step(steps), problem.multiplier(steps), groups),
        steps=steps,
        step_size=1 / (problem.strong_convexity + problem.curvature)
        if problem.strongly_convex
        else problem.diameter / (problem.radius * math.sqrt(steps)),
        averaged=1 if problem.strongly_convex else steps,
        groups=groups,
        batch=problem.batch,
        notes=tuple(notes),
    )


def threshold(problem: Problem) -> TheorySchedule:
    """Alg. 2 with alg. 1 for each coordinate: a plain mean of what lies within the threshold."""
    return _descent(problem, None, "alg. 1 and 2")


def median_of_means(problem: Problem) -> TheorySchedule:
    """Alg. 2 with alg. 3."""
    return _descent(problem, groups_of(problem), "alg. 2 and 3")


def hard_thresholding(problem: Problem) -> TheorySchedule:
    """Alg. 5, thm 10: T = (gamma / mu_r) ln n disjoint splits, step 2 / (3 gamma), B = (u n epsilon / (T ln(d T / xi)
    sqrt(s ln(1 / delta))))^(1 / (1 + v)); gamma and mu_r, the restricted curvatures, are our smoothness and strong convexity. The
    printed B has a factor gamma in the numerator, which makes it no gradient; bias and noise both enter divided by gamma.
    """
    notes = Notes()
    notes.smooth(problem)
    n, kept = problem.units, problem.sparsity or problem.columns
    notes.unless(problem.sparsity is not None, "thm 10 needs a number of coefficients to keep: all are (penalty: {sparsity: k} says fewer)")
    notes.unless(problem.strongly_convex, "thm 10 needs restricted strong convexity: a condition of 1 is used in its place")
    condition = problem.curvature / problem.strong_convexity if problem.strongly_convex else 1.0
    steps = notes.steps(problem, condition * math.log(n))
    spread = steps * math.log(problem.columns * steps / problem.failure) * math.sqrt(kept * math.log(1 / problem.delta))
    return TheorySchedule(
        theorem="Tao et al. 2022, alg. 5, thm 10",
        bound=(problem.moment.bound * n * problem.epsilon / spread) ** (1 / problem.moment.order),
        steps=steps,
        step_size=2 / (3 * problem.curvature),
        step_factor=2 / 3,
        averaged=1,
        batch="splits",
        notes=tuple(notes),
    )
