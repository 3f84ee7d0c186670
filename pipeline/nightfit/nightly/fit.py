"""One refit: from a plan, shards and a ledger to a release; a crashed one resumes from stored answers. Imports every room below."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nightfit.ledger import Reservation, Run
from nightfit.methods.procedure import Outcome, Progress
from nightfit.planning.plan import Plan
from nightfit.privacy.gate import Gate, Records
from nightfit.privacy.noise import Noise
from nightfit.release import Release, build
from nightfit.types import NightfitError


class FitError(NightfitError):
    """The optimiser failed on paid answers: a fact about released numbers."""


def order_of(plan: Plan, *, window: str, manifest: str, files: tuple[str, ...], private: bool = True) -> Reservation:
    """What the plan asks the ledger to set aside for a window that now is what the manifest says."""
    said = plan.specification
    return Reservation(
        model=said.name,
        data_set=said.data_set,
        unit=said.budget.unit,
        plan=plan.digest(),
        events=plan.events,
        window=window,
        manifest=manifest,
        files=files,
        private=private,
    )


def fit(plan: Plan, records: Records, run: Run, noise: Noise, show: Callable[[Progress], None] = lambda _: None) -> Release:
    """Ask every question of the plan through the gate, step by step, and close the run.

    Answers stored by an earlier attempt are used again, so the iterates are the same and nothing is asked or paid twice.
    """
    return closed(plan, plan.procedure.run(Gate(account=run, records=records, noise=noise), show), run, noise)


def closed(plan: Plan, outcome: Outcome, run: Run, noise: Noise, **more: Any) -> Release:
    """Close the run, once every query of it has its answer, and bind its release: the outcome, and `more` that it says."""
    if not np.isfinite([*outcome.path, outcome.weights]).all():
        raise FitError(
            "the released iterates grew beyond all numbers: lower method.step_size; what was asked is paid and kept in the ledger"
        )
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
    )
    complete = Release(content={**release.content, **more})
    return complete.paid(run.finish(complete.claim.binding))
