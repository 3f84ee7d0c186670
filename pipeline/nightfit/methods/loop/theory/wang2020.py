"""Wang, Xiao, Devadas, Xu (2020), On Differentially Private Stochastic Convex Optimization with Heavy-tailed Data. Imports the package."""

import math

from nightfit.methods.loop.gradient_estimators.sample_aggregate import MAX_BLOCKS, ROWS_PER_COLUMN
from nightfit.methods.loop.theory import Notes, Problem, TheorySchedule
from nightfit.queries.boundings.phi import SUPREMUM
from nightfit.queries.boundings.psi import supremum

SMOOTHINGS = (0.5, 50.0)  # for which the table of boundings.psi is checked


def private_part(problem: Problem, steps: int, height: float) -> float:
    """N_p = 2 B sqrt(d) z_T: what the noise adds to the logarithm; B is the truncation's height, 2 the contributions changed."""
    return problem.adjacency.contributions_changed * height * math.sqrt(problem.columns) * problem.multiplier(steps)


def logarithm(problem: Problem, steps: int) -> float:
    """ln(2 d T / zeta): a union bound over both sides of d T coordinates; printed ln(1 / (delta' T)), which is none where
    delta' T >= 1.
    """
    return math.log(2 * problem.columns * steps / problem.failure)


def truncation(problem: Problem, steps: int, second: float, smoothing: float | None = None) -> float:
    """s* = sqrt((v / 2) (1 + 1 / beta) n / (beta / 2 + ln(2 d T / zeta) + N_p)), without beta's terms for plain phi.

    Minimises v (1 + 1 / beta) / (2 s) + s (beta / 2 + ln(2 d T / zeta) + N_p) / n. The printed s = sqrt(n v / (2 ln ...))
    (alg. 4, line 1) leaves the noise N_p out, and is several times too large.
    """
    height = SUPREMUM if smoothing is None else supremum(smoothing)
    wide, cost = (1.0, 0.0) if smoothing is None else (1 + 1 / smoothing, smoothing / 2)
    return math.sqrt(
        second / 2 * wide * problem.records_per_step(steps) / (cost + logarithm(problem, steps) + private_part(problem, steps, height))
    )


def smoothing(problem: Problem, steps: int) -> float:
    """beta* = sqrt(2 (ln(2 d T / zeta) + N_p)); alg. 4 prints ln(1 / delta'), lemma 3 twice that, both of the wrong order."""
    return math.sqrt(2 * (logarithm(problem, steps) + private_part(problem, steps, SUPREMUM)))


def steps_of(problem: Problem, second: float, notes: Notes) -> int:
    """Strongly convex (thm 5, 7): (b / a) ln n. Convex (thm 8): (b D sqrt(n rho) / (d sqrt v))^(2 / 3), where b / sqrt v, which
    the theorem's O hides, makes it a pure number.
    """
    notes.smooth(problem)
    if problem.strongly_convex:
        return notes.steps(problem, problem.curvature / problem.strong_convexity * math.log(problem.units))
    needed = problem.columns**2 / problem.epsilon**2
    notes.unless(problem.units >= needed, f"thm 8 needs n >= d^2 / epsilon^2 = {needed:,.0f} records")
    strength = problem.curvature * problem.diameter * math.sqrt(problem.units * problem.rho) / (problem.columns * math.sqrt(second))
    return notes.steps(problem, strength ** (2 / 3))


def soft(problem: Problem) -> TheorySchedule:
    """Alg. 4 with phi itself, whose error bound v / (2 s) + s ln(2 / zeta) / n is the better one; step size 1 / b, last iterate."""
    notes = Notes()
    second = notes.second_moment(problem)
    steps = steps_of(problem, second, notes)
    _printed(problem, steps, notes)
    return TheorySchedule(
        theorem=f"Wang et al. 2020, alg. 4, thm {7 if problem.strongly_convex else 8}",
        bound=truncation(problem, steps, second),
        steps=steps,
        step_size=1 / problem.curvature,
        step_factor=1.0,
        averaged=1,
        notes=tuple(notes),
    )


def smoothed(problem: Problem) -> TheorySchedule:
    """Alg. 4 as in the paper, with psi at beta*."""
    notes = Notes()
    second = notes.second_moment(problem)
    steps = steps_of(problem, second, notes)
    _printed(problem, steps, notes)
    best = smoothing(problem, steps)
    used = min(max(best, SMOOTHINGS[0]), SMOOTHINGS[1])
    notes.unless(used == best, f"the best smoothing is {best:.3g}: {used:g} is used, up to which psi is tabulated")
    return TheorySchedule(
        theorem=f"Wang et al. 2020, alg. 4, lemma 3, thm {7 if problem.strongly_convex else 8}",
        bound=truncation(problem, steps, second, used),
        steps=steps,
        step_size=1 / problem.curvature,
        step_factor=1.0,
        averaged=1,
        smoothing=used,
        notes=tuple(notes),
    )


def _printed(problem: Problem, steps: int, notes: Notes) -> None:
    notes.unless(
        problem.failure * steps < 1,
        f"failure times steps is {problem.failure * steps:.3g}, not below 1: as printed, s would be the root of a negative number; "
        "ln(2 d T / failure) is used instead of ln(1 / (failure T))",
    )


def trimmed_records(problem: Problem, steps: int, width: float = 2.0) -> float:
    """m = ln(n (b - a) / kappa) / t, t = epsilon0 / 10, epsilon0 = sqrt(2 rho / (d T)): so many at each end that the range's
    share of the smooth bound, e^(-m t) (b - a), falls to that of one record, kappa / n. `width` is (b - a) / kappa. Alg. 2 prints
    m = O(1), at which the answer is noise.
    """
    each = math.sqrt(2 * problem.rho / (problem.columns * steps))
    return math.log(width * problem.units) / (each / 10)


def trimmed(problem: Problem) -> TheorySchedule:
    """Alg. 3: means in [-kappa, kappa], (b / a) ln n steps of 1 / b (thm 5)."""
    notes = Notes()
    second = notes.second_moment(problem)
    notes.unless(problem.strongly_convex, "thm 5 needs strong convexity, and alg. 3 has no other theorem: the steps of thm 8 are used")
    steps = steps_of(problem, second, notes)
    ends = trimmed_records(problem, steps)
    notes.unless(
        ends < problem.units / 2,
        f"the smooth bound needs {ends:,.0f} trimmed records at each end, and there are {problem.units:,} in all: "
        "expect noise of the size of the range; fewer steps or columns would help",
    )
    return TheorySchedule(
        theorem="Wang et al. 2020, alg. 3, thm 5",
        bound=problem.moment.scale,
        steps=steps,
        step_size=1 / problem.curvature,
        step_factor=1.0,
        averaged=1,
        notes=tuple(notes),
    )


def sample_aggregate(problem: Problem) -> TheorySchedule:
    """Alg. 1: blocks = 2 ln(D n) / beta, beta = epsilon / (4 (d + ln(2 / delta))), one block per record; weights in a ball of
    diameter D. The printed overlap sqrt(m) needs millions of blocks, and thm 2 m >= d^2 / epsilon^2.
    """
    notes = Notes()
    beta = problem.epsilon / (4 * (problem.columns + math.log(2 / problem.delta)))
    wanted = 2 * math.ceil(math.log(max(math.e, problem.diameter * problem.units)) / beta)
    most = min(MAX_BLOCKS, problem.units // (ROWS_PER_COLUMN * problem.columns))
    notes.unless(problem.strongly_convex, "thm 2 needs strong convexity: blocks' minimisers may lie far apart")
    notes.unless(
        wanted <= most,
        f"{wanted:,} blocks of {problem.units / wanted:.3g} records each are wanted, and {most:,} are what these records and the method "
        "allow: as many are used, and the noise is larger",
    )
    return TheorySchedule(
        theorem="Wang et al. 2020, alg. 1, thm 2", bound=problem.diameter / 2, steps=1, blocks=min(wanted, most), notes=tuple(notes)
    )


def robust_gradient(problem: Problem) -> TheorySchedule:
    """Not private (Holland 2019, lemma 5; Wang et al., lemma 3): s = sqrt(n v / (2 ln(2 d T / zeta))), beta = 2 ln(2 d T / zeta)."""
    notes = Notes()
    second = notes.second_moment(problem)
    steps = steps_of(problem, second, notes)
    height = logarithm(problem, steps)
    return TheorySchedule(
        theorem="Holland 2019, lemma 5; Wang et al. 2020, lemma 3",
        bound=math.sqrt(problem.units * second / (2 * height)),
        steps=steps,
        step_size=1 / problem.curvature,
        step_factor=1.0,
        averaged=1,
        smoothing=min(2 * height, SMOOTHINGS[1]),
        notes=tuple(notes),
    )
