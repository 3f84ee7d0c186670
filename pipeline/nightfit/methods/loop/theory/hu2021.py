"""Hu, Ni, Xiao, Wang (2021), High Dimensional Differentially Private Stochastic Optimization with Heavy-tailed Data.

Imports the package.
"""

import math

from nightfit.methods.loop.theory import Notes, Problem, TheorySchedule
from nightfit.queries.boundings.phi import SUPREMUM


def frank_wolfe(problem: Problem) -> TheorySchedule:
    """HTDP-FW (alg. 1): T = (n epsilon b^2 Rw^2 / (v ln(d n / zeta)))^(1 / 3) disjoint splits of m = n / T records,
    s = sqrt((v / 2) m / (ln(2 d T / zeta) (1 + 4 K / epsilon))), K = 2 sqrt 2 / 3; Rw is half the diameter.
    """
    notes = Notes()
    notes.smooth(problem)
    second = notes.second_moment(problem)
    n, d, radius = problem.units, problem.columns, problem.diameter / 2
    reach = (problem.curvature * radius) ** 2 / (second * math.log(d * n / problem.failure))
    steps = notes.steps(problem, (n * problem.epsilon * reach) ** (1 / 3))
    logarithm = math.log(2 * d * steps / problem.failure)
    bound = math.sqrt(second / 2 * (n / steps) / (logarithm * (1 + 4 * SUPREMUM / problem.epsilon)))
    return TheorySchedule(
        theorem="Hu et al. 2021, alg. 1 (HTDP-FW)", bound=bound, steps=steps, averaged=1, batch="splits", notes=tuple(notes)
    )


def private_lasso(problem: Problem) -> TheorySchedule:
    """HTP-LASSO (alg. 2): T = (n epsilon)^(2 / 5), features and target shrunk to K = kappa (n epsilon)^(1 / 4) / T^(1 / 8)."""
    notes = Notes()
    strength = problem.units * problem.epsilon
    steps = notes.steps(problem, strength**0.4)
    notes.unless(problem.moment.order >= 4, "alg. 2 needs fourth moments of features and target; bounded features have them")
    return TheorySchedule(
        theorem="Hu et al. 2021, alg. 2 (HTP-LASSO)",
        bound=problem.moment.scale * strength**0.25 / steps**0.125,
        steps=steps,
        averaged=1,
        batch="full",
        notes=tuple(notes),
    )
