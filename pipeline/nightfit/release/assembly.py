"""A release from a plan and what its queries led to. Imports planning and below."""

import platform
from importlib.metadata import version
from typing import Any

from nightfit.methods.intervals import Intervals
from nightfit.planning.plan import Plan
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.document import FORMAT, Release
from nightfit.types import Array

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
) -> Release:
    """Assemble a release, complete but for its receipt.

    Parameters
    ----------
    plan
        Of the run.
    weights
        The fitted weights of the scaled columns.
    path
        The solver's iterates. Like weights, intervals and the bounds in `preprocessing` that were not public: post-processing of paid
        answers.
    preprocessing
        How rows become scaled columns.
    run, manifest, started
        Of the run; the manifest's random id.
    private
        Whether the release claims privacy.
    intervals
        Ranges for the coefficients, where the method knows them.
    """
    features, spent, currency = plan.specification.preprocessing.features, plan.cost, str(plan.specification.budget.currency)
    content = {
        "nightfit_release": FORMAT,
        "model": plan.specification.name,
        "run": run,
        "manifest": manifest,
        "time": started,
        "private": private,
        "guarantee": _guarantee(plan) if private else None,
        "features": list(features),
        **_in_original_units(plan, weights, preprocessing),
        "scaled_weights": weights.tolist(),
        "intervals": None if intervals is None else intervals.as_dict(features),
        "coefficient_noise": plan.procedure.coefficient_noise(),
        "preprocessing": preprocessing.as_dict(),
        "plan": plan.as_dict(),
        "plan_digest": plan.digest(),
        "events": [event.as_dict() for event in plan.events],
        "cost": {"amount": str(spent.amount), "mass": str(spent.mass), "unit": "2^-200", "currency": currency},
        "path": [step.tolist() for step in path] if len(path) * len(weights) <= LARGEST_PATH else [],
        "versions": _versions(),
    }
    return Release(content=content)


def _guarantee(plan: Plan) -> dict[str, Any]:
    budget, described = plan.specification.budget, plan.as_dict()
    return {
        "epsilon": plan.epsilon,
        "delta": budget.delta,
        "currency": str(budget.currency),
        "adjacency": str(budget.adjacency),
        "unit": budget.unit,
        **({"trust": "local", "protects": described["local"]["protects"]} if "local" in described else {}),
    }


def _in_original_units(plan: Plan, weights: Array, shape: Preprocessing) -> dict[str, Any]:
    if plan.specification.of_columns:
        return {"kind": "mean", "mean": dict(zip(shape.features, shape.means_in_original_units(weights).tolist(), strict=True))}
    coef, intercept = shape.in_original_units(weights)
    return {"kind": "linear", "coef": dict(zip(shape.features, coef.tolist(), strict=True)), "intercept": intercept}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("nightfit", "numpy", "opendp", "dp-accounting")}}
