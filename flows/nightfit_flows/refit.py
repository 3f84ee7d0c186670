"""The nightly refit as a Prefect flow: validate, plan, reserve, fit, publish. Imports prefect and the job.

The fit is one task that owns its Dask client. No task is retried, cached, persisted or printed: Prefect would keep results as
plain pickles and hash inputs for its cache, and a repeated task must find its run through the ledger, not through Prefect.
"""

import functools
import re
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar, cast

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.utilities import annotations

from nightfit import nightly
from nightfit.config import Config, load
from nightfit.ledger import Ledger, Run
from nightfit.methods.procedure import Progress
from nightfit.nightly import Job, Published
from nightfit.release import Release, report
from nightfit.types import NightfitError

quote: Any = annotations.quote
F = TypeVar("F", bound=Callable[..., Any])
shown: ContextVar[Callable[[Progress], None]] = ContextVar("shown", default=lambda _: None)


def _show(at: Progress) -> None:
    """A plain function, because Prefect pickles a served flow with the globals that its tasks name, and a ContextVar has no pickle."""
    shown.get()(at)


def _key(planned: Job) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", f"nightfit-{planned.config.name}".lower()).strip("-")


def _told(planned: Job) -> Callable[[Progress], None]:
    """Shows a step here and, every twentieth of the way, in Prefect: steps, rows per second and time left, which are public or released.

    A Prefect server that is lost on the way is not told any more, and the fit goes on.
    """
    began, rows = time.monotonic(), planned.plan.units
    artifact: list[Any] = []
    last = 0

    def told(at: Progress) -> None:
        nonlocal last
        _show(at)
        percent = 100 * at.step // at.steps
        if last < 0 or percent < min(100, last + 5):
            return
        taken = time.monotonic() - began
        left = taken / at.step * (at.steps - at.step)
        words = f"step {at.step} of {at.steps}, {rows * at.step / max(taken, 1e-9):,.0f} rows per second, {left:.0f} s left"
        try:
            if artifact:
                update_progress_artifact(artifact[0], progress=float(percent), description=words)
            else:
                artifact.append(create_progress_artifact(float(percent), key=f"{_key(planned)}-progress", description=words))
            last = percent
        except Exception:
            last = -1

    return told


class RefitFailed(NightfitError):
    """An unforeseen error inside a refit, named by its kind and place: its text might hold a value."""


def _discreet(step: F) -> F:
    """A step whose failure has no causes: Prefect logs and pickles them with their text, which may hold a value or an unpaid answer.

    Broken by test_the_cause_of_a_failure_is_never_told_to_prefect.
    """

    @functools.wraps(step)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            return step(*args, **kwargs)
        except NightfitError as error:
            failure = error
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)
            ours = [place for place in places if "/nightfit/" in place.filename] or places
            where = " and ".join(dict.fromkeys(f"{Path(place.filename).name} line {place.lineno}" for place in (ours[-1], places[-1])))
            failure = RefitFailed(f"the refit stopped on an unforeseen {type(error).__name__} at {where}; run it again to resume")
        failure.__cause__ = failure.__context__ = None
        raise failure

    return cast(F, told)


@task(name="validate", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@_discreet
def validate(path: str) -> Config:
    """The configuration, or one message that names every fault."""
    return load(Path(path))


@task(name="plan", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@_discreet
def plan(config: Config, again: bool, resume: str | None) -> Job:
    """Every question, its noise and its cost, from footers, configuration and ledger."""
    return nightly.prepare(config, again=again, resume=resume)


@task(name="reserve", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@_discreet
def reserve(planned: Job, again: bool, unsafe: bool) -> tuple[Ledger, Run]:
    """The plan's whole cost set aside in the ledger, or the run that did so before."""
    ledger = nightly.open_ledger(planned.config)
    return ledger, nightly.reserve(planned, ledger, again=again, unsafe=unsafe)


@task(name="fit", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@_discreet
def fit(planned: Job, ledger: Ledger, run: Run) -> Release:
    """Every question asked through the gate, on the configured Dask cluster."""
    return nightly.run_fit(planned, ledger, run, _told(planned))


@task(name="publish", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@_discreet
def publish(planned: Job, ledger: Ledger, release: Release) -> Published:
    """Release and report on disk, and a summary as an artifact; a lost Prefect server does not undo a paid release."""
    published = nightly.publish(planned, ledger, release)
    try:
        create_markdown_artifact(report.summary(release, published.balance), key=_key(planned), description=f"Refit {release.run_id}")
    except Exception as error:
        get_run_logger().warning("The release is written; its summary could not be shown in Prefect (%s).", type(error).__name__)
    return published


@flow(name="nightfit-refit", retries=0, persist_result=False, log_prints=False, validate_parameters=True)
def refit(config: str, again: bool = False, unsafe: bool = False, resume: str | None = None) -> dict[str, Any]:
    """One private refit of the configuration at this path; run again, it resumes or returns what it did before."""
    settings = validate(config)
    planned = plan(quote(settings), again, resume)
    ledger, run = reserve(quote(planned), again, unsafe)
    release = fit(quote(planned), quote(ledger), quote(run))
    return nightly.as_dict(publish(quote(planned), quote(ledger), quote(release)))
