"""Xie et al. (2023), differentially private regularised stochastic convex optimisation. Imports the package and accounting."""

import math

from nightfit.methods.loop.theory import Notes, Problem, TheorySchedule
from nightfit.methods.loop.theory.wang2020 import SMOOTHINGS
from nightfit.privacy.accounting import sampled_multiplier
from nightfit.queries.boundings.phi import SUPREMUM
from nightfit.queries.boundings.psi import supremum
from nightfit.types import Adjacency


def batch_of(problem: Problem, notes: Notes) -> int:
    """m = (n p)^(2 / 3) / epsilon^(1 / 3) (remark 4), below n / 2, unless the user fixed it."""
    if isinstance(problem.batch, int):
        return problem.batch
    best = (problem.units * problem.columns) ** (2 / 3) / problem.epsilon ** (1 / 3)
    most = max(1, problem.units // 2)
    notes.unless(best <= most, f"remark 4's batch of {best:,.0f} records is more than half of all: {most:,} are used; full would be better")
    return max(1, min(most, round(best)))


def steps_of(problem: Problem, batch: int, notes: Notes) -> int:
    """T = n^2 / m^2 (prop. 1, cor. 1 and 2, with constant 1). As printed the noise does not suffice for T = 5 n^2 / m^2, whatever the
    constant that the propositions hide; here the noise is found for T, so any T is private.
    """
    return notes.steps(problem, (problem.units / batch) ** 2)


def noise_of(problem: Problem, batch: int, steps: int) -> float:
    """z of `steps` Poisson samples, by privacy loss distributions."""
    relation = Adjacency.ADD_REMOVE if problem.adjacency is Adjacency.REPLACE_ONE else problem.adjacency
    return sampled_multiplier(min(0.999, batch / problem.units), steps, problem.epsilon, problem.delta, relation)


def _schedule(problem: Problem, theorem: str, batch: int, steps: int, notes: Notes, bound: float, **more: float) -> TheorySchedule:
    """gamma_t = min(1 / K1, ..): the step starts at 1 / K1 (thm 1), K1 being our smoothness; printed K1 / sqrt(t), which is no
    step and is infinite at t = 0. All iterates are averaged.
    """
    notes.smooth(problem)
    return TheorySchedule(
        theorem=theorem,
        bound=bound,
        steps=steps,
        step_size=1 / problem.curvature,
        step_factor=1.0,
        averaged=steps,
        batch=batch,
        notes=tuple(notes),
        groups=int(more["groups"]) if "groups" in more else None,
        smoothing=more.get("smoothing"),
    )


def clipped(problem: Problem) -> TheorySchedule:
    """Alg. 1. The paper leaves C open (remark 2): C = G (m / (sqrt(p) z))^(1 / k) minimises the bias G^k / ((k - 1) C^(k - 1)) of a
    clip plus its noise C sqrt(p) z / m.
    """
    notes = Notes()
    batch = batch_of(problem, notes)
    steps = steps_of(problem, batch, notes)
    ratio = batch / (math.sqrt(problem.columns) * noise_of(problem, batch, steps))
    bound = problem.moment.norm(problem.columns) * ratio ** (1 / problem.moment.order)
    return _schedule(problem, "Xie et al. 2023, alg. 1, thm 1 (its clip by bias and noise)", batch, steps, notes, bound)


def truncation(problem: Problem, batch: int, steps: int, second: float, smoothing: float | None = None) -> float:
    """s* = sqrt((tau / 2) m / (ln(2 p T / zeta) + B sqrt(p) z)), tau bounding the second moment; with beta's terms for psi. The
    printed s (alg. 4, line 3) lacks p and T.
    """
    height = SUPREMUM if smoothing is None else supremum(smoothing)
    wide, cost = (1.0, 0.0) if smoothing is None else (1 + 1 / smoothing, smoothing / 2)
    logarithm = math.log(2 * problem.columns * steps / problem.failure)
    noise = height * math.sqrt(problem.columns) * noise_of(problem, batch, steps)
    return math.sqrt(second / 2 * wide * batch / (cost + logarithm + noise))


def soft(problem: Problem) -> TheorySchedule:
    """Alg. 4 with phi itself."""
    notes = Notes()
    second = notes.second_moment(problem)
    batch = batch_of(problem, notes)
    steps = steps_of(problem, batch, notes)
    return _schedule(problem, "Xie et al. 2023, alg. 4, cor. 2", batch, steps, notes, truncation(problem, batch, steps, second))


def smoothed(problem: Problem) -> TheorySchedule:
    """Alg. 4 with psi at beta = sqrt(ln(1 / zeta)) (line 2)."""
    notes = Notes()
    second = notes.second_moment(problem)
    batch = batch_of(problem, notes)
    steps = steps_of(problem, batch, notes)
    beta = min(max(math.sqrt(math.log(1 / problem.failure)), SMOOTHINGS[0]), SMOOTHINGS[1])
    bound = truncation(problem, batch, steps, second, beta)
    return _schedule(problem, "Xie et al. 2023, alg. 4, cor. 2", batch, steps, notes, bound, smoothing=beta)


def median_of_means(problem: Problem) -> TheorySchedule:
    """Alg. 2 and 3, cor. 1: an interval of width kappa (epsilon m / sqrt(p ln(1 / delta)))^(1 / k), of which our bound is half, and
    2 ceil(1.5 ln(2 p / zeta)) groups, even. Printed without kappa, the moment's scale.
    """
    notes = Notes()
    batch = batch_of(problem, notes)
    steps = steps_of(problem, batch, notes)
    k, kappa = problem.moment.order, problem.moment.scale
    notes.unless(k >= 2, f"cor. 1 needs a moment of order 2 at least, and one of order {k:g} is assumed")
    ratio = problem.epsilon * batch / math.sqrt(problem.columns * math.log(1 / problem.delta))
    width = kappa * ratio ** (1 / k)
    notes.unless(width > 4 * kappa, f"the interval's width {width:.3g} is not above 4 |mean| (up to {4 * kappa:.3g}), as cor. 1 needs")
    groups = problem.groups or 2 * math.ceil(1.5 * math.log(2 * problem.columns / problem.failure))
    return _schedule(problem, "Xie et al. 2023, alg. 2 and 3, cor. 1", batch, steps, notes, width / 2, groups=groups)
