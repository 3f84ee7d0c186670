"""Which engine runs a specification: `auto`, `loop` or `local`. Imports defaults, methods and packages below."""

from dataclasses import replace

from nightfit.methods.auto.constants.budget import MOST_COLUMNS
from nightfit.methods.auto.constants.screening import MOST_WHITENED
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.screening import automatic
from nightfit.methods.local.fit import LocalMethod, local_fit
from nightfit.methods.procedure import Procedure
from nightfit.planning.defaults import gradient_loop, pays_for_scales
from nightfit.planning.specification import AUTO, Specification
from nightfit.plugins import named
from nightfit.problem.losses import Estimand, Loss
from nightfit.problem.penalties import Penalty
from nightfit.types import LABEL


def procedure_for(spec: Specification, units: int, max_units: int) -> Procedure:
    """The engine that runs a specification, with all its choices made.

    Parameters
    ----------
    spec : Specification
        What the user decided, and a theorem.
    units : int
        Public number of units.
    max_units : int
        Number of units that sums must hold without overflow.

    Raises
    ------
    ValueError
        If no engine can run it, with the cure.
    """
    if spec.local is not None:
        return _local(spec, units, spec.local)
    if spec.budget.unit == LABEL:
        raise ValueError("the unit label is for local reports with the curriculum label_only")
    return _central(spec, units, max_units)


def _local(spec: Specification, units: int, method: LocalMethod) -> Procedure:
    """The local engine; a ValueError names what it cannot do."""
    budget, shape = spec.budget, spec.preprocessing
    if spec.start is not None:
        raise ValueError("model.start previous is for trusted refits: local reports start at zero; remove it")
    if shape.unit is not None:
        raise ValueError(
            f"a local report is about one record, and a {shape.unit} has many: no report covers a person's mean gradient; "
            "write one row per person and use `data: {unit: record}`, or use privacy.trust central"
        )
    if shape.row_id is not None:
        raise ValueError("data.row_id tells the bucket of a record, and local reports have no buckets: remove data.row_id")
    if method.label_only != (budget.unit == LABEL):
        raise ValueError(
            "the curriculum label_only protects the label of a record and nothing else of it, so its budget is a label's: "
            f"use `data: {{unit: label}}` with it and only with it, got the unit {budget.unit}"
        )
    return local_fit(
        method,
        loss=spec.loss,
        penalty=spec.penalty,
        features=len(shape.features),
        columns=shape.columns,
        units=units,
        ceiling=budget.ceiling(),
        currency=budget.currency,
        adjacency=budget.adjacency,
    )


def _central(spec: Specification, units: int, max_units: int) -> Procedure:
    """The engine `auto` where it applies, else the loop. Only `auto` fits columns without public bounds."""
    why_not = _obstacle(spec)
    if spec.method.solver == AUTO and why_not is None:
        fit = AutoFit(
            loss=spec.loss,
            penalty=spec.penalty,
            preprocessing=spec.preprocessing,
            units=units,
            adjacency=spec.budget.adjacency,
            mu_squared=spec.budget.mu_squared(),
            largest_units=max_units,
            start=spec.start,
        )
        found = automatic(fit)
        return replace(found, shares_rows=spec.shares_rows) if isinstance(found, AutoFit) else found
    if spec.loss.estimand is Estimand.CLASS_LOG_ODDS:
        why = why_not or f"it is not {spec.method.solver or spec.method.mean}"
        raise ValueError(f"several classes are fitted by `auto` alone, and {why}: use `method: auto`, or kind logistic for each label")
    if not spec.preprocessing.bounded and not pays_for_scales(spec):
        why = f", and {why_not}" if spec.method.solver == AUTO else ""
        raise ValueError(
            f"columns without public bounds need scales that are asked for, of at most {MOST_COLUMNS} columns of a model{why}: state the "
            "bounds of every column in data.columns, or use `scales: paid`"
        )
    plain = replace(spec, method=replace(spec.method, solver=None)) if spec.method.solver == AUTO else spec
    return gradient_loop(plain, units, max_units)


def _obstacle(spec: Specification) -> str | None:
    """Why `auto` cannot fit this, from the facts that loss and penalty declare; None if it can."""
    return "it does not estimate means of columns" if spec.of_columns else obstacle(spec.loss, spec.penalty, spec.preprocessing.columns)


def obstacle(loss: Loss, penalty: Penalty, columns: int) -> str | None:
    """Why `auto` cannot fit this loss, penalty and number of columns; None if it can."""
    if loss.estimand is None:
        return f"it has no fit of the {named(loss)} loss, which declares no estimand"
    if not penalty.convex:
        return f"it needs a convex penalty, and {named(penalty)} is not convex"
    if loss.estimand is Estimand.CLASS_LOG_ODDS and columns > MOST_WHITENED:
        return f"it fits several classes of at most {MOST_WHITENED} columns, and there are {columns}"
    if columns > MOST_COLUMNS:
        return f"it takes at most {MOST_COLUMNS} columns, and there are {columns}"
    return None


def why_not_auto(spec: Specification) -> str:
    """The clause of a plan that says why the loop runs although the method is `auto`; empty if the method is another."""
    why = _obstacle(spec)
    return "" if spec.method.solver != AUTO or why is None else f", because `auto` cannot be used here: {why}"
