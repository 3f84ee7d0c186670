"""What a method's theorem chooses where the user decided nothing. Imports components and packages below."""

import math
from dataclasses import replace

from nightfit.methods.loop.gradient_estimators import EXPECTED_SQUARE
from nightfit.methods.loop.loop import GradientLoop
from nightfit.methods.loop.solvers import distance_left
from nightfit.methods.loop.theory import Moment, Problem, TheorySchedule
from nightfit.methods.loop.theory.choice import theorem_of
from nightfit.planning.components import components, settings_of
from nightfit.planning.defaults import pays_for_curvature
from nightfit.planning.specification import Specification
from nightfit.types import Answer

MOST_LEFT = 0.5  # of the distance to an optimum, above which a fit is closer to its start than to it


def theorem_for(spec: Specification, units: int) -> TheorySchedule:
    """What the theorem about the method's estimator and solver chooses, with notes on what was assumed."""
    method, notes = spec.method, []
    estimator, solver = components(spec)
    sampled = isinstance(method.batch, int) or (method.batch is None and solver.usual_sampling_rate < 1)
    theorem = theorem_of(estimator.name, solver.name, sampled)
    if theorem is None:
        return TheorySchedule(theorem=f"no theorem covers the estimator {estimator.name!r}; everything is chosen as with schedule auto")
    if sampled and theorem is theorem_of(estimator.name, solver.name, False):
        notes.append("the theorem is about steps that read all records or disjoint parts, not about Poisson samples")
    if solver.accelerated:
        notes.append("the theorem is about plain descent: proximal_gradient")
    slope = min(spec.loss.lipschitz, spec.residual)
    if method.moment is None:
        notes.append(f"no moment is assumed: E g_j^2 <= {slope**2:.3g} follows from the size of a residual (method.moment says another)")
    known = method.diameter or spec.penalty.diameter(len(spec.preprocessing.features))
    diameter = known or 2 * spec.residual
    if known is None and not spec.of_columns:
        notes.append(f"nothing bounds the weights: a diameter of {diameter:.3g} is assumed (method.diameter says another)")
    schedule = theorem(_problem(spec, units, method.moment or Moment(order=2.0, bound=slope**2), diameter))
    return replace(schedule, notes=(*schedule.notes, *notes))


def _problem(spec: Specification, units: int, moment: Moment, diameter: float) -> Problem:
    method, budget = spec.method, spec.budget
    return Problem(
        units=units,
        columns=spec.preprocessing.columns,
        epsilon=budget.epsilon,
        delta=budget.delta,
        mu=math.sqrt(budget.mu_squared()),
        moment=moment,
        diameter=diameter,
        smoothness=(spec.loss.smoothness or 1.0) * (spec.curvature or spec.preprocessing.columns),
        strong_convexity=spec.penalty.strong_convexity + (spec.strong_convexity or 0.0),
        failure=method.failure,
        adjacency=budget.adjacency,
        steps=1 if spec.of_columns else method.steps,
        batch=method.batch,
        groups=method.groups,
        sparsity=spec.penalty.nonzeros,
    )


def with_theorem(spec: Specification, theorem: TheorySchedule | None) -> Specification:
    """The specification with a theorem's choices where the user decided nothing."""
    if theorem is None:
        return spec
    estimator, solver = components(spec)
    used = {"steps", "batch"} | settings_of(estimator) | settings_of(solver)
    chosen = {**theorem.choices(), **({} if spec.penalty.convex else {"averaged": 1})}
    undecided = {name: value for name, value in chosen.items() if name in used and getattr(spec.method, name) is None}
    if theorem.step_factor is not None and "step_size" in undecided and pays_for_curvature(spec):
        del undecided["step_size"]
        undecided["step_factor"] = theorem.step_factor
    return replace(spec, method=replace(spec.method, **undecided))


def usefulness(loop: GradientLoop, residual: float) -> list[str]:
    """Plain words where a theorem's numbers are of no use: too much noise, or steps too short or too long, whatever the data are.

    In a usual direction the second moment of scaled rows is EXPECTED_SQUARE; a step size that follows a paid curvature counts it as one.
    """
    said, noise = [], loop.coefficient_noise()
    if noise is not None and noise > residual:
        said.append(f"the noise of a coefficient would be {noise / residual:,.3g} residuals")
    if loop.solver.takes is Answer.GRADIENT:
        smoothness = loop.loss.smoothness if 0 < loop.loss.smoothness < math.inf else 1.0
        left = distance_left(loop.solver, EXPECTED_SQUARE * (smoothness if loop.scales is None or "step_size" in loop.stated else 1.0))
        if left > 1:
            said.append("its steps are so long that they move away from the optimum")
        elif left > MOST_LEFT:
            said.append(f"its steps are so short that they leave {left:.0%} of the distance to the optimum")
    return [f"Warning: the theorem's numbers are of no use here: {' and '.join(said)}. Leave out `schedule: theory`."] if said else []
