"""The gradient loop of a method: what the method leaves open is chosen from public facts. Imports components and packages below."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nightfit.methods.auto.constants.budget import MOST_COLUMNS
from nightfit.methods.auto.named_scales import NamedScales
from nightfit.methods.loop.gradient_estimators import EXPECTED_SQUARE, Allowance, BoundedQuantity, GradientEstimator, Point
from nightfit.methods.loop.loop import GradientLoop
from nightfit.methods.loop.solvers import Solver, distance_left, noise_gain
from nightfit.methods.loop.solvers.proximal_gradient import ProximalGradient
from nightfit.planning.components import components, settings_of
from nightfit.planning.draws import draws_of, multipliers_of
from nightfit.planning.specification import PUBLIC, Specification
from nightfit.plugins import named
from nightfit.privacy.accounting import Currency, tight_epsilon
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.base import bits_for
from nightfit.records.coded_rows import largest_square
from nightfit.records.targets import Target
from nightfit.types import WHOLE, Adjacency

NOISE_BITS = 57  # sums below 2^61 and noise of 30 deviations stay inside int64
MIN_BITS = 8  # a coarser grid would round contributions by more than 1 / 256 of their bound
MIN_STEPS, USUAL_STEPS, MAX_STEPS = 5, 20, 100  # of a solver that has no usual number of its own
EXPECTED_CLIP = 2.0  # of residuals, in standard deviations of the target
EXPECTED_CURVATURES = (
    EXPECTED_SQUARE,
    EXPECTED_SQUARE / 4,
    EXPECTED_SQUARE / 16,
)  # of scaled rows, over the largest: the last of columns that share a factor
TOLERATED_NOISE = 0.1  # of a coefficient, in residuals, up to which more steps are taken
MOST_ROWS = 2**31  # leaves 29 bits for a contribution, see bits_for
HISTOGRAMS = 3  # of residuals while a method descends: they shrink, and bounds with them
ROUND_DOWN = 1 - 1e-6  # of an epsilon or a delta that is a part of a sum
USUAL_GROUPS = 4  # of a median of means: the fewest that have a median apart from their mean; its noise grows in proportion to them


def gradient_loop(spec: Specification, units: int, max_units: int) -> GradientLoop:
    """The gradient loop of a specification.

    Parameters
    ----------
    spec : Specification
        What the user decided; whatever is None is chosen from public facts.
    units : int
        Public number of units, the divisor of every mean.
    max_units : int
        Number of units that sums must hold without overflow.

    Raises
    ------
    ValueError
        If the settings do not fit together, with the cure.
    """
    estimator_kind, solver_kind = components(spec)
    scales = scale_queries(spec, estimator_kind, units, max_units)
    step_size = spec.method.step_size or (_step_size(spec) if scales is None else spec.method.step_factor)
    estimator = _estimator(spec, estimator_kind, step_size, scales is not None)
    if estimator.one_shot and spec.method.steps not in (None, 1):
        raise ValueError(f"an estimate by {named(estimator)} is a fit by itself and costs the whole budget: it has one step, remove steps")
    bits = bits_for(max_units)
    usual_steps = 1 if estimator.one_shot else solver_kind.usual_steps
    noise = _one_step_noise(spec, estimator, units, bits)
    if scales is not None and estimator.bounded is BoundedQuantity.NORM and spec.method.bound is None:
        noise *= math.sqrt(EXPECTED_SQUARE * spec.preprocessing.columns)
    solver = _solver(spec, solver_kind, step_size, usual_steps, noise, scales is not None)
    loop = _loop(spec, estimator, solver, units, bits, scales)
    scale = max((event.noise_scale or 1.0 for event in loop.events), default=1.0)
    finest = bits - max(0, math.ceil(math.log2(scale)) - NOISE_BITS)
    if finest < MIN_BITS:
        raise ValueError("so much noise does not fit in 64 bits; choose fewer steps or columns, or a larger epsilon")
    return replace(loop, bits=finest)


def scale_queries(spec: Specification, kind: Any, units: int, max_units: int) -> NamedScales | None:
    """The queries about scales that are asked before the first step; None where public bounds are scales."""
    if not pays_for_scales(spec):
        return None
    labels = spec.loss.target is Target.LABELS
    return NamedScales(
        loss=spec.loss,
        penalty=NoPenalty(),
        preprocessing=spec.preprocessing,
        units=units,
        adjacency=spec.budget.adjacency,
        mu_squared=spec.budget.mu_squared(),
        largest_units=max_units,
        curvature=spec.curvature,
        asks_curvature=pays_for_curvature(spec),
        histograms=0 if labels or kind.one_shot or spec.method.bound is not None else min(HISTOGRAMS, spec.method.steps or HISTOGRAMS),
    )


def pays_for_scales(spec: Specification) -> bool:
    """Whether scales are asked for: not of more columns than `auto` takes, because their noise would hide them, and not in a currency
    that has no price for Gaussian queries.
    """
    priced = spec.budget.currency in (Currency.GAUSSIAN, Currency.ZCDP)
    return priced and not spec.of_columns and spec.method.scales != PUBLIC and spec.preprocessing.columns <= MOST_COLUMNS


def pays_for_curvature(spec: Specification) -> bool:
    """Whether the curvature is asked for: where a step size depends on it that was not stated."""
    steps = any("step_size" in settings_of(kind) for kind in components(spec))
    return pays_for_scales(spec) and steps and spec.curvature is None and spec.method.step_size is None


def _loop(
    spec: Specification, estimator: GradientEstimator, solver: Solver, units: int, bits: int, scales: NamedScales | None
) -> GradientLoop:
    """The loop of an estimator and a solver, whose steps share what the queries about scales leave of the budget."""
    shape, draws = spec.preprocessing, draws_of(spec, solver, units)
    whole = _whole_budget(spec) if scales is None or not estimator.one_shot else _beside(spec, scales)
    multipliers = multipliers_of(spec.budget, draws, scales.spent if scales else 0.0)
    return GradientLoop(
        loss=spec.loss,
        penalty=spec.penalty,
        estimator=estimator,
        solver=solver,
        features=len(shape.features),
        columns=shape.columns,
        units=units,
        noun="record" if shape.unit is None else "person",
        bits=bits,
        adjacency=spec.budget.adjacency,
        draws=draws,
        allowances=tuple(replace(whole, multiplier=multiplier) for multiplier in multipliers),
        start=() if spec.start is None else tuple(spec.start.scaled(shape).tolist()),
        scales=scales,
        stated=frozenset(name for name in ("bound", "step_size") if getattr(spec.method, name) is not None),
    )


def _whole_budget(spec: Specification) -> Allowance:
    """The allowance of a single step that spends the whole budget."""
    budget = spec.budget
    return Allowance(multiplier=1 / math.sqrt(budget.mu_squared()), epsilon=budget.epsilon, delta=budget.delta)


def _beside(spec: Specification, scales: NamedScales) -> Allowance:
    """What queries about scales leave to an estimator with an epsilon and a delta of its own: half of delta, and epsilon less what these
    queries are at the other half.

    Guarantee: by basic composition both together are (epsilon, delta) private. Broken by
    test_a_fit_in_one_query_and_its_scales_are_together_as_private_as_they_may_be.
    """
    whole = _whole_budget(spec)
    taken = tight_epsilon(scales.events, whole.delta / 2 * ROUND_DOWN)
    if not taken < whole.epsilon / 2:
        raise ValueError("the queries about scales would leave less than half of epsilon: state bounds, and use `scales: public`")
    return replace(whole, epsilon=(whole.epsilon - taken) * ROUND_DOWN, delta=whole.delta / 2)


def _one_step_noise(spec: Specification, estimator: GradientEstimator, units: int, bits: int) -> float:
    """Noise in a coordinate of an estimate that reads all records and spends the whole budget; NaN if it depends on the data."""
    zeros = np.zeros(spec.preprocessing.columns)
    point = Point(
        loss=spec.loss,
        weights=zeros,
        previous=zeros,
        units=units,
        bits=bits,
        adjacency=spec.budget.adjacency,
        draw=WHOLE,
        key=bytes(16),
    )
    return estimator.deviation(point, _whole_budget(spec))


def _estimator(spec: Specification, kind: Any, step_size: float, scaled: bool) -> GradientEstimator:
    """The estimator with its settings."""
    method, accepted = spec.method, settings_of(kind)
    special = {"groups": "median_of_means", "smoothing": "smoothed", "noise": "trimmed", "blocks": "sample_aggregate"}
    given = {"groups": method.groups, "smoothing": method.smoothing, "noise": method.noise, "blocks": method.blocks}
    for name, only in special.items():
        if given[name] is not None and name not in accepted:
            raise ValueError(f"the estimator {kind.name!r} has no {name}: remove {name}, or use {only}")
    choices: dict[str, Callable[[], Any]] = {
        "bound": lambda: _bound(spec, kind, scaled),
        "groups": lambda: method.groups or USUAL_GROUPS,
        "step_size": lambda: step_size,
        "features": lambda: len(spec.preprocessing.features),
        "penalty": lambda: spec.penalty,
        **({} if method.smoothing is None else {"smoothing": lambda: method.smoothing}),
        "noise": lambda: method.noise or "laplace_log_normal",
        "blocks": lambda: method.blocks,
        "touched": lambda: _touched(spec),
    }
    estimator: GradientEstimator = kind(**{name: choose() for name, choose in choices.items() if name in accepted})
    return estimator


def _touched(spec: Specification) -> int:
    """How many groups a changed unit is in: a replaced person may have another id, and with it another group; a record keeps its place."""
    return 2 if spec.budget.adjacency is Adjacency.REPLACE_ONE and spec.preprocessing.unit is not None else 1


def _bound(spec: Specification, kind: Any, scaled: bool) -> float:
    """The method's bound, or the largest value of what the estimator bounds; of paid scales the estimator's usual one, in their sizes.

    The gradient of a record is slope * x with |x_j| <= 1, so a coordinate is at most the slope's bound and the norm at most that times
    the root of `largest_square`, which is the number of columns where none is a level of a category. Weights lie in the ball of the
    penalty; an l1 ball lies in the l2 ball of the same radius.
    """
    if spec.method.bound is not None:
        return spec.method.bound
    if kind.bounded is BoundedQuantity.WEIGHTS:
        if spec.penalty.radius is None:
            raise ValueError(
                f"{kind.name} needs a public radius of the ball of (scaled) weights: set method.bound, or the penalty l2_ball or l1_ball"
            )
        return spec.penalty.radius
    if scaled:
        return float(kind.usual_bound)
    slope = min(spec.loss.lipschitz, spec.residual)
    return slope * math.sqrt(_largest_square(spec)) if kind.bounded is BoundedQuantity.NORM else slope


def _step_size(spec: Specification) -> float:
    """1 / (smoothness width): the mean loss is smoothness * width smooth along `width` coordinates, because |x_j| <= 1, or where |x|^2 is
    at most `width`.

    A step changes all columns, or between two sparse vectors the columns of either and the intercept.
    """
    smooth = 0 < spec.loss.smoothness < math.inf
    shape, width = spec.preprocessing, _largest_square(spec)
    if spec.penalty.nonzeros is not None:
        width = min(width, 2 * spec.penalty.nonzeros + shape.intercept)
    return 1 / ((spec.loss.smoothness if smooth else 1.0) * width)


def _largest_square(spec: Specification) -> int:
    """The largest squared norm of a row of public scales."""
    shape = spec.preprocessing
    return largest_square(shape.encoded, shape.centre, shape.scale, shape.columns)


def _solver(spec: Specification, kind: Any, step_size: float, usual_steps: int | None, noise: float, scaled: bool) -> Solver:
    """The solver with its number of steps; `noise` is that of an estimate that spends the whole budget.

    More steps come closer to the optimum and add noise: the number of steps is the largest, up to MAX_STEPS, at which the noise of a
    coefficient in a flat direction is at most TOLERATED_NOISE of a residual, and at least MIN_STEPS. Of paid scales it is the number
    with the least expected error. Where the noise depends on the data, or steps do not share the budget, it is the solver's usual number.
    """
    method = spec.method
    if spec.of_columns:
        return ProximalGradient(steps=1, step_size=1.0)
    if method.steps is not None:
        return _solver_with(spec, kind, step_size, method.steps)
    if usual_steps is not None or not math.isfinite(noise) or method.batch not in (None, "full"):
        return _solver_with(spec, kind, step_size, max(usual_steps or USUAL_STEPS, method.averaged or 1))
    fewest = max(MIN_STEPS, method.averaged or 1)
    if scaled:
        solvers = [_solver_with(spec, kind, step_size, steps) for steps in range(fewest, MAX_STEPS + 1, 5)]
        return min(solvers, key=lambda solver: _expected_error(solver, noise * math.sqrt(solver.steps)))
    for steps in range(MAX_STEPS, fewest, -5):
        solver = _solver_with(spec, kind, step_size, steps)
        if noise * math.sqrt(steps) * noise_gain(solver) <= TOLERATED_NOISE * spec.residual:
            return solver
    return _solver_with(spec, kind, step_size, fewest)


def _expected_error(solver: Solver, noise: float) -> float:
    """sum over directions of curvature a of a (left^2 + (EXPECTED_CLIP noise gain)^2): the error of predictions, in variances of targets,
    if the slopes explain one in every direction. Step sizes are in 1 / curvature.
    """
    return math.fsum(
        a * (distance_left(solver, a) ** 2 + (EXPECTED_CLIP * noise * noise_gain(solver, a)) ** 2) for a in EXPECTED_CURVATURES
    )


def _solver_with(spec: Specification, kind: Any, step_size: float, steps: int) -> Solver:
    """The solver with this number of steps. It averages the last quarter of the iterates, unless a mean of them would not be feasible."""
    method = spec.method
    settings = {
        "steps": steps,
        "step_size": step_size,
        "averaged": method.averaged or max(1, steps // 4 if spec.penalty.convex else 1),
        "order": method.moment.order if method.moment else 2.0 if method.schedule == "theory" else None,
    }
    solver: Solver = kind(**{name: value for name, value in settings.items() if name in settings_of(kind)})
    return solver
