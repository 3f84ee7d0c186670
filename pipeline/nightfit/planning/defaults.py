"""The loop of a named method: mean, solver, draws and noise, each as named or from public facts. Imports specification and below."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.methods.loop.gradient_estimators import Allowance, GradientEstimator, Point
from nightfit.methods.loop.loop import GradientLoop
from nightfit.methods.loop.solvers import Solver, noise_gain
from nightfit.methods.loop.solvers.proximal_gradient import ProximalGradient
from nightfit.planning.specification import Specification
from nightfit.plugins import member, named
from nightfit.privacy.accounting import (
    sampled_multiplier,
)
from nightfit.privacy.events import Event
from nightfit.problem.penalties.sparsity import Sparsity
from nightfit.queries.base import bits_for
from nightfit.types import WHOLE, Adjacency, Answer, Draw, Part, Sample, parts_of

NOISE_BITS = 57  # sums below 2^61 and noise of 30 deviations stay inside int64
FEWEST_STEPS, USUAL_STEPS, MOST_STEPS = 5, 20, 100
TOLERATED = 0.1
MOST_ROWS = 2**31
LONGEST = 100_000


def iteration_of(said: Specification, units: int, largest: int) -> GradientLoop:
    """GradientEstimator, solver, draws and noise of the loop, each as the method names it or from public facts."""
    budget, shape = said.budget, said.preprocessing
    bits = bits_for(largest)
    mean_kind, solver_kind = kinds_of(said)
    step_size = said.method.step_size or _step_size(said)
    mean = _mean(said, mean_kind, step_size)
    zeros = np.zeros(shape.columns)
    whole = Allowance(multiplier=1 / math.sqrt(budget.mu_squared()), epsilon=budget.epsilon, delta=budget.delta)

    def loop(solver: Solver, bits: int) -> GradientLoop:
        draws = _draws(said, mean, solver, units)
        return GradientLoop(
            loss=said.loss,
            penalty=said.penalty,
            mean=mean,
            solver=solver,
            features=len(shape.features),
            columns=shape.columns,
            units=units,
            noun="record" if shape.unit is None else "person",
            bits=bits,
            adjacency=budget.adjacency,
            draws=draws,
            allowances=tuple(replace(whole, multiplier=multiplier) for multiplier in _multipliers(said, draws)),
            start=() if said.start is None else tuple(said.start.scaled(shape).tolist()),
        )

    point = Point(
        loss=said.loss,
        weights=zeros,
        previous=zeros,
        units=units,
        bits=bits,
        adjacency=budget.adjacency,
        draw=WHOLE,
        key=bytes(16),
    )
    single = getattr(mean, "single", False)
    if single and said.method.steps not in (None, 1):
        raise ValueError(f"an estimate by {named(mean)} is a fit by itself and costs the whole budget: it has one step, remove steps")
    usual = 1 if single else getattr(solver_kind, "usual_steps", None)
    made = loop(_solver(said, solver_kind, step_size, usual, mean.deviation(point, whole)), bits)
    spread = max((_spread(event) for event in made.events), default=1.0)
    finest = bits - max(0, math.ceil(math.log2(spread)) - NOISE_BITS)
    if finest < 8:
        raise ValueError("so much noise does not fit in 64 bits; choose fewer steps or columns, or a larger epsilon")
    return made if finest == bits else loop(made.solver, finest)


def _spread(event: Event) -> float:
    """The scale of its noise in steps; noise that is not on a grid of steps counts as 1."""
    return 1.0 if event.noise_scale is None else event.noise_scale


def kinds_of(said: Specification) -> tuple[Any, Any]:
    """The classes of mean and solver that fit together. Acceleration needs a smooth convex loss, a convex penalty and every record
    in every step; theorems speak of plain descent.
    """
    method = said.method
    solver: Any = member(solvers, method.solver) if method.solver is not None else None
    mean: Any = member(means, method.mean or str(getattr(solver, "usual_mean", "clipped")))
    if said.of_columns:
        if solver is not None or mean.answer is not Answer.GRADIENT:
            raise ValueError("means of columns take one question and no solver: name a mean such as clipped, threshold, trimmed or range")
        return mean, member(solvers, "proximal_gradient")
    if getattr(mean, "coarse", False):
        raise ValueError("range tells where values lie, too coarsely to descend by: it is for model.kind mean")
    if solver is None:
        smooth = math.isfinite(said.loss.smoothness) and said.loss.convex and said.penalty.convex
        plain = method.schedule == "theory" or method.batch not in (None, "full")
        gradient = "accelerated_gradient" if smooth and not plain else "proximal_gradient"
        solver = member(solvers, {Answer.GRADIENT: gradient, Answer.WEIGHTS: "assignment", Answer.VERTEX: "frank_wolfe"}[mean.answer])
    if solver.takes is not mean.answer:
        raise ValueError(
            f"the solver {solver.__module__.rpartition('.')[2]!r} steps by a {solver.takes}, and the mean "
            f"{mean.__module__.rpartition('.')[2]!r} gives a {mean.answer}: name only one of them"
        )
    used = {entry.name for entry in (*fields(mean), *fields(solver))}
    for name in ("step_size", "averaged"):
        if getattr(method, name) is not None and name not in used:
            raise ValueError(f"{name} means nothing to {solver.__module__.rpartition('.')[2]!r}: remove it")
    return mean, solver


def _mean(said: Specification, kind: Any, step_size: float) -> GradientEstimator:
    """The robust mean; for a median of means, 2 ceil(2 ln(2 columns / 0.05)) groups (Tao et al. 2022, alg. 3, at failure 0.05)."""
    wanted = {entry.name for entry in fields(kind)}
    if said.method.groups is not None and "groups" not in wanted:
        raise ValueError(f"the mean {said.method.mean!r} has no groups: remove them, or use median_of_means")
    for name, only in (("smoothing", "smoothed"), ("noise", "trimmed"), ("blocks", "sample_aggregate")):
        if getattr(said.method, name) is not None and name not in wanted:
            raise ValueError(f"the mean {said.method.mean!r} has no {name}: remove it, or use {only}")
    for name in ("groups", "blocks"):
        if name in wanted:
            _check_identified(said, name)
    known: dict[str, Callable[[], Any]] = {
        "bound": lambda: _bound(said, kind),
        "groups": lambda: said.method.groups or 2 * math.ceil(2 * math.log(2 * said.preprocessing.columns / 0.05)),
        "step_size": lambda: step_size,
        "features": lambda: len(said.preprocessing.features),
        "penalty": lambda: said.penalty,
        **({} if said.method.smoothing is None else {"smoothing": lambda: said.method.smoothing}),
        "noise": lambda: said.method.noise or "laplace_log_normal",
        "blocks": lambda: said.method.blocks,
        "touched": lambda: 2 if said.budget.adjacency is Adjacency.REPLACE_ONE and _identified(said) else 1,
    }
    made: GradientEstimator = kind(**{name: value() for name, value in known.items() if name in wanted})
    return made


def _identified(said: Specification) -> bool:
    """Whether slots are hashes of ids, which another unit in the same place would not share."""
    return said.preprocessing.row_id is not None or said.preprocessing.unit is not None


def _check_identified(said: Specification, what: str) -> None:
    if said.budget.adjacency is Adjacency.ADD_REMOVE and not _identified(said):
        raise ValueError(f"{what} under add_remove need data.row_id: without it a removed record would move others to other {what}")


def _bound(said: Specification, kind: Any) -> float:
    """The gradient of a record is slope * x with |x_j| <= 1: its norm is at most slope sqrt(columns), which is the bound of a mean
    that bounds norms; one that bounds coordinates has the slope's, and one that bounds weights the radius of the penalty's ball.
    """
    if said.method.bound is not None:
        return said.method.bound
    if getattr(kind, "bounds_weights", False):
        radius: float | None = getattr(said.penalty, "radius", None)
        if radius is None:
            raise ValueError("this mean needs a public radius of the ball of (scaled) weights: set method.bound, or the penalty l2_ball")
        return radius
    largest = min(said.loss.lipschitz, said.residual)
    return largest * math.sqrt(said.preprocessing.columns) if getattr(kind, "bounds_norm", False) else largest


def _step_size(said: Specification) -> float:
    """The mean loss is smoothness * width smooth along `width` coordinates, because |x_j| <= 1, so 1 / (smoothness width) converges:
    a step moves all columns, or between two sparse vectors those of either and the intercept.
    """
    smooth = 0 < said.loss.smoothness < math.inf
    shape, width = said.preprocessing, said.preprocessing.columns
    if isinstance(said.penalty, Sparsity):
        width = min(width, 2 * said.penalty.nonzeros + shape.intercept)
    return 1 / ((said.loss.smoothness if smooth else 1.0) * width)


def _solver(said: Specification, kind: Any, step_size: float, usual: int | None, one: float) -> Solver:
    """Solver and steps from public facts; `one` is the noise of an estimate that gets the whole budget.

    More steps come closer to the optimum and add noise: steps is the largest number up to MOST_STEPS at which the noise of a
    coefficient in a flat direction is at most TOLERATED of a residual, and FEWEST_STEPS at least; where the data decide the noise,
    or steps do not share the budget, it is the solver's usual number. The last quarter of the iterates is averaged.
    """
    method = said.method

    def made(steps: int) -> Solver:
        most = steps // 4 if said.penalty.convex else 1  # a mean of sparse vectors is not sparse
        order = method.moment.order if method.moment else 2.0 if method.schedule == "theory" else None
        known = {
            "steps": steps,
            "step_size": step_size,
            "averaged": method.averaged or max(1, most),
            "penalty": said.penalty,
            "order": order,
        }
        solver: Solver = kind(**{entry.name: known[entry.name] for entry in fields(kind) if entry.name in known})
        return solver

    if said.of_columns:
        return ProximalGradient(steps=1, step_size=1.0)
    if method.steps is not None:
        return made(method.steps)
    if usual is not None or not math.isfinite(one) or method.batch not in (None, "full"):
        return made(max(usual or USUAL_STEPS, method.averaged or 1))
    fewest = max(FEWEST_STEPS, method.averaged or 1)
    for steps in range(MOST_STEPS, fewest, -5):
        if one * math.sqrt(steps) * noise_gain(made(steps)) <= TOLERATED * said.residual:
            return made(steps)
    return made(fewest)


def _draws(said: Specification, mean: GradientEstimator, solver: Solver, units: int) -> tuple[Draw, ...]:
    """Which records each step reads: as the method says, or as is usual for the mean or the solver."""
    if solver.steps > LONGEST:
        raise ValueError(f"a fit has at most {LONGEST:,} steps, got {solver.steps}")
    rate = getattr(solver, "usual_rate", 1.0)
    usual = getattr(mean, "usual_batch", "full" if rate * units < 1 or rate == 1.0 else int(rate * units))
    batch = said.method.batch or usual
    own = getattr(solver, "draws", None)
    draws: tuple[Draw, ...]
    if own is not None:
        draws = own()
    elif batch == "full":
        draws = (WHOLE,) * solver.steps
    elif batch == "splits":
        draws = parts_of(solver.steps)
    elif isinstance(batch, int) and 1 <= batch < units:
        draws = tuple(Sample(batch / units, step) for step in range(solver.steps))
    else:
        raise ValueError(f"batch must be full, splits or a number of records below {units}, got {batch!r}")
    if any(draw != WHOLE for draw in draws):
        _check_identified(said, "parts and samples")
    return draws


def _multipliers(said: Specification, draws: tuple[Draw, ...]) -> list[float]:
    """The noise of each step, in sensitivities, such that all together cost the budget.

    Steps on parts: one that shares some record with at most k steps (itself included) gets 1 / k of the budget, so what concerns
    one record adds to at most all of it. Poisson samples: by the privacy loss distribution of all of them.
    """
    budget = said.budget
    if any(isinstance(draw, Sample) for draw in draws):
        if budget.adjacency is Adjacency.REPLACE_ONE:
            raise ValueError("Poisson samples are accounted for under zero_out or add_remove: set privacy.adjacency to one of them")
        return [sampled_multiplier(draws[0].fraction, len(draws), budget.epsilon, budget.delta, budget.adjacency)] * len(draws)
    parts = [draw for draw in draws if isinstance(draw, Part)]
    edges = sorted({part.low for part in parts})
    counts = {edge: sum(part.low <= edge < part.high for part in parts) for edge in edges}
    most = {part: max(count for edge, count in counts.items() if part.low <= edge < part.high) for part in set(parts)}
    return [math.sqrt(most[part] / budget.mu_squared()) for part in parts]
