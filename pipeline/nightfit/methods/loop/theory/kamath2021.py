"""Kamath, Liu, Zhang (2021), Improved Rates for Differentially Private SCO with Heavy-Tailed Data. Imports the package.

Their moments are central, directional and at most 1: with kappa = bound^(1 / order) everything is in units of kappa, and the
moment of a coordinate stands for that of a direction. Their M is our diameter.
"""

import math

from nightfit.methods.loop.theory import Notes, Problem, TheorySchedule, linear_steps

MIN_TAU = 60  # alg. 3 asks for tau >= 60, because its centre may be 30 off in every coordinate


def strength_of(problem: Problem) -> float:
    """sqrt(rho) n / d."""
    return math.sqrt(problem.rho) * problem.units / problem.columns


def ball(problem: Problem) -> TheorySchedule:
    """Alg. 4, thm 4.7: tau = (sqrt(rho) n / d)^(1 / k), T = (sqrt(rho) n / d)^((2 k - 2) / k) / (4 ln R), step M / (R sqrt T), all
    averaged. Thm 4.8: tau = (sqrt(rho) n / (d sqrt T))^(1 / k), step 1 / (a + b), the last. The ball's radius is tau sqrt(d) kappa.
    """
    notes = Notes()
    k, d, kappa = problem.moment.order, problem.columns, problem.moment.scale
    notes.unless(k >= 2, f"thm 4.1 needs a moment of order 2 at least, and one of order {k:g} is assumed")
    notes.smooth(problem)
    strength = strength_of(problem)
    if not problem.strongly_convex:
        spread = math.log(problem.radius / kappa)
        notes.unless(spread > 0, f"ln R of thm 4.7 is {spread:.3g}, not positive: 1 is used in its place")
        steps = notes.steps(problem, strength ** ((2 * k - 2) / k) / (4 * max(1.0, spread)))
        tau = strength ** (1 / k)
    else:
        guess = (strength / math.sqrt(max(1.0, math.log(problem.units)))) ** (1 / k)
        steps = linear_steps(problem, gradient_error(problem, guess), notes)
        tau = (strength / math.sqrt(steps)) ** (1 / k)
    theorem = "4.8" if problem.strongly_convex else "4.7"
    notes.unless(
        tau >= MIN_TAU,
        f"tau of thm {theorem} is {tau:.3g}, below the {MIN_TAU} that alg. 3 asks for (which needs sqrt(rho) n / d >= {MIN_TAU}^k = "
        f"{MIN_TAU**k:,.0f}, and it is {strength:,.0f}): its promise does not cover this bound; privacy does not depend on it",
    )
    return TheorySchedule(
        theorem=f"Kamath et al. 2021, alg. 4, thm {theorem}",
        bound=tau * math.sqrt(d) * kappa,
        steps=steps,
        step_size=_step(problem, steps),
        averaged=1 if problem.strongly_convex else steps,
        batch="full",
        notes=tuple(notes),
    )


def gradient_error(problem: Problem, tau: float) -> float:
    """G of thm 4.1: kappa sqrt(d / n + tau^2 d^2 / (rho n^2) + tau^(2 - 2 k))."""
    d, n, k = problem.columns, problem.units, problem.moment.order
    return problem.moment.scale * math.sqrt(d / n + (tau * d / n) ** 2 / problem.rho + tau ** (2 - 2 * k))


def axis_aligned(problem: Problem) -> TheorySchedule:
    """Appendix B (k = 2), a clip of each coordinate: tau = (rho n^2 / d)^(1 / 4), T = sqrt(rho) n R^2 / d^1.5, step M / (R sqrt T)."""
    notes = Notes()
    kappa, d, n = math.sqrt(notes.second_moment(problem)), problem.columns, problem.units
    notes.smooth(problem)
    tau = (problem.rho * n**2 / d) ** 0.25
    if not problem.strongly_convex:
        steps = notes.steps(problem, math.sqrt(problem.rho) * n * (problem.radius / kappa) ** 2 / d**1.5)
    else:
        error = kappa * math.sqrt(d / n + (tau * d / n) ** 2 / problem.rho + d / tau**2)
        steps = linear_steps(problem, error, notes)
    return TheorySchedule(
        theorem="Kamath et al. 2021, appendix B",
        bound=tau * kappa,
        steps=steps,
        step_size=_step(problem, steps),
        averaged=1 if problem.strongly_convex else steps,
        batch="full",
        notes=tuple(notes),
    )


def buckets(problem: Problem) -> TheorySchedule:
    """Alg. 2 inside alg. 3: buckets of half-width 10 kappa; one query."""
    return TheorySchedule(theorem="Kamath et al. 2021, alg. 2, thm 4.2", bound=10 * problem.moment.scale, steps=1)


def _step(problem: Problem, steps: int) -> float:
    if not problem.strongly_convex:
        return problem.diameter / (problem.radius * math.sqrt(steps))
    return 1 / (problem.strong_convexity + problem.curvature)
