"""Which gradient estimator and solver a method combines. Imports specification and packages below."""

import math
from dataclasses import fields
from typing import Any

from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.methods.loop.declared import check_members
from nightfit.methods.loop.gradient_estimators import GradientEstimator
from nightfit.methods.loop.solvers import Solver
from nightfit.planning.specification import Specification
from nightfit.plugins import member
from nightfit.types import Answer

USUAL_SOLVER = {Answer.GRADIENT: "proximal_gradient", Answer.WEIGHTS: "assignment", Answer.VERTEX: "frank_wolfe"}


def components(spec: Specification) -> tuple[Any, Any]:
    """The classes of the gradient estimator and of the solver: as the method names them, or as suits the other and the problem.

    Raises
    ------
    ValueError
        If they do not fit together, or one of them does not declare what its protocol asks for.
    """
    method = spec.method
    solver: Any = None if method.solver is None else _solver_named(method.solver)
    estimator: Any = member(gradient_estimators, method.mean or (solver.usual_estimator if solver else "clipped"))
    check_members(estimator, GradientEstimator, own=("private",))
    if spec.of_columns:
        if solver is not None or estimator.answer is not Answer.GRADIENT:
            raise ValueError(
                "means of columns take one query and no solver: name an estimator such as clipped, threshold, trimmed or range"
            )
        return estimator, _solver_named("proximal_gradient")
    if estimator.coarse:
        raise ValueError(f"{estimator.name} is too coarse to descend by: it is for model.kind mean")
    solver = solver or _usual_solver(spec, estimator.answer)
    if solver.takes is not estimator.answer:
        raise ValueError(
            f"the solver {solver.name!r} takes a {solver.takes}, and the estimator {estimator.name!r} gives a {estimator.answer}: "
            "name only one of them"
        )
    accepted = settings_of(estimator) | settings_of(solver)
    for name, value in (("step_size", method.step_size), ("averaged", method.averaged)):
        if value is not None and name not in accepted:
            raise ValueError(f"{name} means nothing to {solver.name!r}: remove it")
    return estimator, solver


def settings_of(kind: Any) -> set[str]:
    """Names of the settings that an estimator or solver is built from: its dataclass fields."""
    return {entry.name for entry in fields(kind)}


def _solver_named(name: str) -> Any:
    kind = member(solvers, name)
    check_members(kind, Solver)
    return kind


def _usual_solver(spec: Specification, answer: Answer) -> Any:
    """The solver for an answer. Acceleration needs a smooth convex loss, a convex penalty and every record in every step; theorems
    are about plain descent.
    """
    smooth = math.isfinite(spec.loss.smoothness) and spec.loss.convex and spec.penalty.convex
    plain = spec.method.schedule == "theory" or spec.method.batch not in (None, "full")
    accelerated = answer is Answer.GRADIENT and smooth and not plain
    return _solver_named("accelerated_gradient" if accelerated else USUAL_SOLVER[answer])
