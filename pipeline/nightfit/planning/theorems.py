"""What a method's theorem chooses where the user said nothing. Imports choices and rooms below."""

import math
from dataclasses import fields, replace

from nightfit.methods.loop.theory import Moment, Problem, Schedule
from nightfit.methods.loop.theory.choice import theorem_of
from nightfit.planning.defaults import kinds_of
from nightfit.planning.specification import Specification
from nightfit.plugins import name_of

CHOSEN = ("bound", "steps", "step_size", "averaged", "groups", "batch", "smoothing", "blocks")  # what a theorem may choose


def theorem_for(said: Specification, units: int) -> Schedule:
    """What the method's theorem chooses, with what was assumed where the user said nothing."""
    method, budget, notes = said.method, said.budget, []
    mean, solver = kinds_of(said)
    sampled = isinstance(method.batch, int) or (method.batch is None and getattr(solver, "usual_rate", 1.0) < 1)
    theorem = theorem_of(name_of(mean), name_of(solver), sampled)
    if theorem is None:
        return Schedule(theorem=f"none speaks of the mean {name_of(mean)!r}; all is chosen as by auto")
    if sampled and theorem is theorem_of(name_of(mean), name_of(solver), False):
        notes.append("the theorem speaks of steps that read all records or disjoint parts, not of Poisson samples")
    if name_of(solver) == "accelerated_gradient":
        notes.append("the theorem speaks of plain descent: proximal_gradient")
    largest = min(said.loss.lipschitz, said.residual)
    if method.moment is None:
        notes.append(f"no moment is assumed: E g_j^2 <= {largest**2:.3g} follows from the size of a residual (method.moment says another)")
    known = method.diameter or _diameter(said)
    diameter = known or 2 * said.residual
    if known is None and not said.of_columns:
        notes.append(f"nothing bounds the weights: a diameter of {diameter:.3g} is assumed (method.diameter says another)")
    found = theorem(
        Problem(
            units=units,
            columns=said.preprocessing.columns,
            epsilon=budget.epsilon,
            delta=budget.delta,
            mu=math.sqrt(budget.mu_squared()),
            moment=method.moment or Moment(order=2.0, bound=largest**2),
            diameter=diameter,
            smoothness=(said.loss.smoothness or 1.0) * said.preprocessing.columns,
            strong_convexity=said.penalty.strong_convexity,
            failure=method.failure,
            adjacency=budget.adjacency,
            steps=1 if said.of_columns else method.steps,
            batch=method.batch,
            groups=method.groups,
            sparsity=getattr(said.penalty, "nonzeros", None),
        )
    )
    return replace(found, notes=(*found.notes, *notes))


def _diameter(said: Specification) -> float | None:
    """Of the set that a constraint leaves to the weights."""
    radius, low, high = (getattr(said.penalty, name, None) for name in ("radius", "low", "high"))
    if radius is not None:
        return float(2 * radius)
    return None if low is None or high is None else float((high - low) * math.sqrt(len(said.preprocessing.features)))


def scheduled(said: Specification, theorem: Schedule | None) -> Specification:
    """The specification with a theorem's choices where the user made none."""
    if theorem is None:
        return said
    used = {"steps", "batch", *(entry.name for kind in kinds_of(said) for entry in fields(kind))}
    chosen = {name: getattr(theorem, name) for name in CHOSEN}
    if not said.penalty.convex:
        chosen["averaged"] = 1
    missing = {name: value for name, value in chosen.items() if name in used and value is not None and getattr(said.method, name) is None}
    return replace(said, method=replace(said.method, **missing))
