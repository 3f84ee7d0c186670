"""From a plan, records and a reserved run to a release; an interrupted run resumes from stored answers. Imports every package below."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nightfit.ledger import Reservation, Run, Shared
from nightfit.methods.procedure import Outcome, Progress
from nightfit.planning.plan import Plan
from nightfit.privacy.gate import Gate, Records
from nightfit.privacy.noise import Noise
from nightfit.release import Release, build
from nightfit.types import NightfitError

Asked = tuple[Outcome, dict[str, Any] | None]  # a fit, and how good it is; None where the plan does not ask that


class FitError(NightfitError):
    """The optimiser failed on paid answers: a fact about released numbers."""


def reservation_of(
    plan: Plan, *, window: str, manifest: str, files: tuple[str, ...], private: bool = True, shared_run: str = ""
) -> Reservation:
    """The reservation of a plan's cost for a window, which the manifest identifies.

    Parameters
    ----------
    plan : Plan
        What will be asked.
    window : str
        What identifies the run among runs of the same model.
    manifest : str
        Identity of the data; the ledger keeps it keyed.
    files : tuple of str
        Fingerprints of the files, in the same order as their blocks.
    private : bool
        Whether the noise is that of a private release.
    shared_run : str
        The run that pays for what the plan shares with others.

    Returns
    -------
    Reservation
    """
    specification = plan.specification
    return Reservation(
        model=specification.name,
        data_set=specification.data_set,
        unit=specification.budget.unit,
        plan=plan.digest(),
        events=plan.own_events,
        shared=Shared(run=shared_run, events=plan.shared_events) if plan.shared_events else None,
        window=window,
        manifest=manifest,
        files=files,
        private=private,
    )


def fit(plan: Plan, records: Records, run: Run, noise: Noise, show: Callable[[Progress], None] = lambda _: None) -> Release:
    """Ask every query of the plan through the gate, finish the run and return its release.

    Answers stored by an interrupted attempt are used again, so the iterates are the same and nothing is asked or paid twice.

    Parameters
    ----------
    plan : Plan
        What to ask.
    records : Records
        Where integer sums come from: shards on a cluster, or arrays.
    run : Run
        The reserved run.
    noise : Noise
        The source of noise.
    show : callable
        Called with a `Progress` after each step.

    Returns
    -------
    Release
    """
    return released(plan, asked_of(plan, Gate(account=run, records=records, noise=noise), run.division_key, show), run, noise)


def released(plan: Plan, asked: Asked, run: Run, noise: Noise) -> Release:
    """Finish the run and bind the release of what its queries came to."""
    outcome, evaluation = asked
    return release_of(plan, outcome, run, noise, **({} if evaluation is None else {"evaluation": evaluation}))


def asked_of(plan: Plan, gate: Gate, division_key: bytes, show: Callable[[Progress], None] = lambda _: None) -> Asked:
    """Ask every query of a plan: those of the fit, then of its evaluation, each of its own part of the units under this key.

    Returns
    -------
    tuple of Outcome and dict
        The fit, and how good it is; None where the plan does not ask that.
    """
    if plan.evaluation is None:
        return plan.procedure.run(gate, show), None
    fit_part, held_out_part = plan.evaluation.divisions(division_key)
    outcome = plan.procedure.run(replace(gate, division=fit_part), show)
    check_finite(outcome)
    return outcome, plan.evaluation.run(replace(gate, division=held_out_part), outcome)


def release_of(plan: Plan, outcome: Outcome, run: Run, noise: Noise, **more: Any) -> Release:
    """Finish the run, all of whose queries have answers, and bind its release: the outcome, and `more` content."""
    check_finite(outcome)
    release = build(
        plan,
        outcome.weights,
        outcome.path,
        outcome.preprocessing or plan.specification.preprocessing,
        run=run.run_id,
        manifest=run.manifest_id,
        started=run.started,
        private=noise.private and plan.procedure.private,
        intervals=outcome.intervals,
        class_intervals=outcome.class_intervals,
        loss=outcome.loss,
        used=outcome.used,
        labels=outcome.labels,
    )
    shared = {} if run.shared is None else {"shared": {"run": run.shared.run, "queries": [event.label for event in run.shared.events]}}
    complete = Release(content={**release.content, **shared, **more})
    return complete.paid(run.finish(complete.claim.binding))


def check_finite(outcome: Outcome) -> None:
    """Refuse weights that are not finite.

    Raises
    ------
    FitError
        With the cure.
    """
    if not all(np.isfinite(iterate).all() for iterate in (*outcome.path, outcome.weights)):
        raise FitError(
            "the released iterates grew beyond all numbers: lower method.step_size; what was asked is paid and kept in the ledger"
        )
