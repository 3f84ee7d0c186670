"""A release from a plan and what its queries led to. Imports planning and below."""

import platform
from functools import cache
from importlib.metadata import version
from typing import Any, cast

from nightfit.methods.intervals import Intervals
from nightfit.methods.procedure import PaidShare, UsedShare
from nightfit.planning.plan import Plan
from nightfit.problem.losses import LOG_MEANS, LogMeanLoss, Loss
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.assumptions import Assumption
from nightfit.release.document import Release, implied_link
from nightfit.release.validation import FORMAT
from nightfit.types import Array

UNNAMED = "1"  # the label of a column of labels 0 and 1 whose share is told
LARGEST_PATH = 20_000  # numbers of a stored path, about 400 kB of JSON; a longer one is left out, as a report could not draw it either


def build(
    plan: Plan,
    weights: Array,
    path: list[Array],
    preprocessing: Preprocessing,
    *,
    run: str,
    manifest: str,
    started: str,
    private: bool,
    intervals: Intervals | None = None,
    class_intervals: tuple[Intervals, ...] = (),
    loss: Loss | None = None,
    used: UsedShare | None = None,
    labels: tuple[PaidShare, ...] = (),
) -> Release:
    """Assemble a release, complete but for its receipt.

    Parameters
    ----------
    plan
        Of the run.
    weights, path, intervals, class_intervals
        Fitted weights of the scaled columns, the solver's iterates, and ranges for the coefficients where the method knows them, of each
        class where there are several. All are post-processing of paid answers.
    preprocessing
        How rows become scaled columns; bounds in it that were not public are post-processing, too.
    loss
        The loss with the range of means that the run paid for, if it was not public.
    used, labels
        How many units counted, and the shares of labels, if the run paid for them.
    run, manifest, started, private
        Of the run, with the manifest's random id; whether the release claims privacy.
    """
    features, loss = plan.specification.preprocessing.features, loss or plan.specification.loss
    fitted = {
        "features": list(features),
        **_in_original_units(plan, weights, preprocessing),
        "scaled_weights": weights.T.tolist(),
        "intervals": None if intervals is None else intervals.as_dict(features),
        **_class_intervals(plan, class_intervals),
        "coefficient_noise": plan.procedure.coefficient_noise(),
        "preprocessing": preprocessing.as_dict(),
        **({} if loss.link.name == implied_link(loss.name) else {"link": loss.link.name}),
        **_range(loss),
        **({} if used is None else {"used": used.as_dict()}),
        **({"labels": _shares(plan, labels)} if labels else {}),
        "path": [step.tolist() for step in path] if len(path) * len(weights) <= LARGEST_PATH else [],
    }
    header = {"nightfit_release": FORMAT, "model": plan.specification.name, "run": run, "manifest": manifest, "time": started}
    return Release(content={**header, **fitted, **claimed(plan, private=private)})


def _shares(plan: Plan, labels: tuple[PaidShare, ...]) -> dict[str, dict[str, float]]:
    """The paid share of each declared class; of two, that of the second, or of the label that is told from any other value."""
    declared = plan.specification.preprocessing.outcome.labels
    names = plan.specification.class_names or declared[-1:] or (UNNAMED,)
    return {name: share.as_dict() for name, share in zip(names, labels, strict=True)}


def claimed(plan: Plan, *, private: bool) -> dict[str, Any]:
    """What every release says of its run: the guarantee, if it claims one, the plan and its cost, and the versions that made it."""
    guarantee = {"private": private, "guarantee": _guarantee(plan) if private else None}
    return {**guarantee, **_planned(plan), "versions": dict(_versions())}


def _planned(plan: Plan) -> dict[str, Any]:
    """What was decided before any record was read: the plan, its events and their cost."""
    spent = plan.cost
    currency = str(plan.specification.budget.currency)
    return {
        "plan": plan.as_dict(),
        "plan_digest": plan.digest(),
        "events": [event.as_dict() for event in plan.events],
        "cost": {"amount": str(spent.amount), "mass": str(spent.mass), "unit": "2^-200", "currency": currency},
    }


def _guarantee(plan: Plan) -> dict[str, Any]:
    budget, described = plan.specification.budget, plan.as_dict()
    return {
        "epsilon": plan.epsilon,
        "delta": budget.delta,
        "currency": str(budget.currency),
        "adjacency": str(budget.adjacency),
        "unit": budget.unit,
        **({"trust": "local", "protects": described["local"]["protects"]} if "local" in described else {}),
        **({} if budget.earlier_rows is None else {"earlier_rows": budget.earlier_rows}),
        "assumptions": [str(assumption) for assumption in assumptions_of(plan)],
    }


def assumptions_of(plan: Plan) -> list[Assumption]:
    """What the guarantee of a plan's release takes for granted, in the order of the enumeration."""
    shape, mechanisms = plan.specification.preprocessing, {event.mechanism for event in plan.events}
    smooth = bool(mechanisms & {"smooth_sensitivity", "smooth_gaussian"})
    person = shape.unit is not None
    holds = {
        Assumption.EXACT_INTEGERS: not smooth,
        Assumption.FLOATING_POINT_NOISE: smooth,
        Assumption.BOUNDS_ARE_PUBLIC: True,
        Assumption.ROW_COUNT_IS_PUBLIC: plan.specification.counted,
        Assumption.STATED_UNITS_ARE_PUBLIC: not plan.specification.counted,
        Assumption.RECORDS_ARE_UNITS: not person,
        Assumption.RECORD_IDS_ARE_STABLE: not person and shape.row_id is not None,
        Assumption.PERSON_IDS_ARE_TRUE: person,
        Assumption.EARLIER_ROWS_ARE_BOUNDED: plan.specification.budget.earlier_rows is not None,
        Assumption.REPORTS_ARE_DRAWN_BY_OWNERS: "local_reports" in mechanisms,
        Assumption.SEARCH_TIME_IS_HIDDEN: "repeat_and_select" in mechanisms,
        Assumption.ONE_LEDGER: True,
        Assumption.ENTROPY_IS_SECRET: True,
    }
    return [assumption for assumption in Assumption if holds[assumption]]


def _in_original_units(plan: Plan, weights: Array, shape: Preprocessing) -> dict[str, Any]:
    if plan.specification.of_columns:
        return {"kind": "mean", "mean": dict(zip(shape.features, shape.means_in_original_units(weights).tolist(), strict=True))}
    if weights.ndim > 1:
        return _by_class(plan, weights, shape)
    coef, intercept = shape.in_original_units(weights)
    return {"kind": "linear", "coef": dict(zip(shape.features, coef.tolist(), strict=True)), "intercept": intercept}


def _by_class(plan: Plan, weights: Array, shape: Preprocessing) -> dict[str, Any]:
    """The coefficients and the intercept of each class's score, which sum to zero over the classes."""
    labels = plan.specification.class_names
    found = [shape.in_original_units(column) for column in weights.T]
    return {
        "kind": "multinomial",
        "classes": list(labels),
        "coef": {name: dict(zip(shape.features, coef.tolist(), strict=True)) for name, (coef, _) in zip(labels, found, strict=True)},
        "intercept": {name: intercept for name, (_, intercept) in zip(labels, found, strict=True)},
    }


def _class_intervals(plan: Plan, intervals: tuple[Intervals, ...]) -> dict[str, Any]:
    """The intervals of each class by its label, where the method knows them."""
    features, labels = plan.specification.preprocessing.features, plan.specification.class_names
    named = zip(labels, intervals, strict=False)
    return {"class_intervals": {name: one.as_dict(features) for name, one in named}} if intervals else {}


def _range(loss: Loss) -> dict[str, Any]:
    """The range of predicted means, where the loss has one."""
    if loss.estimand not in LOG_MEANS:
        return {}
    ranged = cast(LogMeanLoss, loss)
    return {"range": [ranged.low, ranged.high]}


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("nightfit", "numpy", "opendp", "dp-accounting")}}
