"""The nightly refit as a Prefect flow: validate, plan, reserve, fit, publish. Imports prefect and nightly.

The fit is one task that owns its Dask client. No task is retried, cached, persisted or printed: Prefect would keep results as
plain pickles and hash inputs for its cache, and a repeated task must find its run through the ledger, not through Prefect.
"""

import contextlib
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
from prefect.runtime import flow_run
from prefect.utilities import annotations

from nightfit import nightly
from nightfit.config import Config, load
from nightfit.ledger import Ledger, Run
from nightfit.methods.procedure import Progress
from nightfit.nightly import Job, Published
from nightfit.release import Release, report
from nightfit.types import NightfitError
from nightfit_flows import lost_server

quote: Any = annotations.quote
F = TypeVar("F", bound=Callable[..., Any])
shown: ContextVar[Callable[[Progress], None]] = ContextVar("shown", default=lambda _: None)
prepared: ContextVar[Job | None] = ContextVar("prepared", default=None)


def _prepared() -> Job | None:
    """The job that the command has planned already, so that a refit is planned once; a plain function like `_show`."""
    return prepared.get()


def _show(at: Progress) -> None:
    """A plain function, because Prefect pickles a served flow with the globals that its tasks name, and a ContextVar has no pickle."""
    shown.get()(at)


def artifact_key(model: str) -> str:
    """The name of a model's artifacts, in the letters that Prefect allows."""
    return re.sub(r"[^a-z0-9-]+", "-", f"nightfit-{model}".lower()).strip("-")


def _progress(planned: Job) -> Callable[[Progress], None]:
    """A function that shows each step here, and every twentieth of the steps in Prefect: steps, rows per second and time left.

    These numbers are public or released. If the Prefect server is lost, nothing more is sent to it, and the fit continues.
    """
    began, rows = time.monotonic(), planned.plan.units
    artifact: list[Any] = []
    last = 0

    def show(at: Progress) -> None:
        nonlocal last
        _show(at)
        percent = 100 * at.step // at.steps
        if last < 0 or lost_server.lost() or percent < min(100, last + 5):
            return
        elapsed = time.monotonic() - began
        left = elapsed / at.step * (at.steps - at.step)
        words = f"step {at.step} of {at.steps}, {rows * at.step / max(elapsed, 1e-9):,.0f} rows per second, {left:.0f} s left"
        try:
            if artifact:
                update_progress_artifact(artifact[0], progress=float(percent), description=words)
            else:
                artifact.append(
                    create_progress_artifact(float(percent), key=f"{artifact_key(planned.config.name)}-progress", description=words)
                )
            last = percent
        except Exception:
            last = -1

    return show


class RefitFailed(NightfitError):
    """An unexpected error inside a refit, named by its kind and place: its text might hold a value."""


def strip_causes(step: F) -> F:
    """Strip exception causes before Prefect logs and pickles them: their text may hold raw values or unpaid answers.

    Broken by test_the_cause_of_a_failure_is_never_told_to_prefect.
    """

    @functools.wraps(step)
    def without_causes(*args: Any, **kwargs: Any) -> Any:
        try:
            return step(*args, **kwargs)
        except NightfitError as error:
            failure = error
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)
            ours = [place for place in places if "/nightfit/" in place.filename] or places
            where = " and ".join(dict.fromkeys(f"{Path(place.filename).name} line {place.lineno}" for place in (ours[-1], places[-1])))
            failure = RefitFailed(f"the refit stopped on an unexpected {type(error).__name__} at {where}; run it again to resume")
        failure.__cause__ = failure.__context__ = None
        raise failure

    return cast(F, without_causes)


@task(name="validate", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@strip_causes
def validate(path: str) -> Config:
    """Load the configuration, or raise one message that names every fault."""
    return load(Path(path))


@task(name="plan", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@strip_causes
def plan(config: Config, again: bool, resume: str | None) -> Job:
    """Plan the refit: every query, its noise and its cost, from footers, configuration and ledger."""
    return _prepared() or nightly.prepare(config, again=again, resume=resume)


@task(name="reserve", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@strip_causes
def reserve(planned: Job, again: bool, unsafe: bool) -> tuple[Ledger, Run]:
    """Reserve the plan's whole cost in the ledger, or find the run that reserved it before."""
    with lost_server.at_work():
        ledger = nightly.open_ledger(planned.config)
        run = nightly.reserve(planned, ledger, again=again, unsafe=unsafe)
        lost_server.note_reserved()
    return ledger, run


@task(name="fit", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@strip_causes
def fit(planned: Job, ledger: Ledger, run: Run) -> Release:
    """Ask every query through the gate, on the configured Dask cluster."""
    with lost_server.at_work():
        return nightly.run_fit(planned, ledger, run, _progress(planned))


@task(name="publish", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@strip_causes
def publish(planned: Job, ledger: Ledger, release: Release) -> Published:
    """Write release and report, and show a summary as an artifact; a lost Prefect server does not undo a paid release."""
    with lost_server.at_work():
        published = nightly.publish(planned, ledger, release)
    try:
        create_markdown_artifact(
            report.summary(release, published.balance), key=artifact_key(planned.config.name), description=f"Refit {release.run_id}"
        )
    except Exception as error:
        get_run_logger().warning("The release is written; its summary could not be shown in Prefect (%s).", type(error).__name__)
    return published


def _name() -> str:
    """Of a flow run: its model and window, or its file where that is no configuration; the task `validate` then says why."""
    path = Path(str(flow_run.parameters["config"]))
    try:
        return nightly.night_name(load(path))
    except NightfitError:
        return path.name


def _tell_failure(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook of a failed or crashed refit: note it in the journal, and tell whom the configuration names."""
    with contextlib.suppress(NightfitError):  # the configuration cannot be read: it names nobody
        settings = load(Path(str(flow_run.parameters["config"])))
        error = state.result(raise_on_failure=False)
        nightly.tell_failure(settings, error if isinstance(error, BaseException) else RefitFailed(f"Prefect says {state.name}"))


def _tell_completion(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook of a refit that ended well: tell whom the configuration names. What is wrong with a release is told as it is written:
    that must not hang on Prefect.
    """
    nightly.tell_completion(load(Path(str(flow_run.parameters["config"]))), state.result())


@flow(
    name="nightfit-refit",
    flow_run_name=_name,
    on_completion=[_tell_completion],
    on_failure=[_tell_failure],
    on_crashed=[_tell_failure],
    retries=0,
    persist_result=False,
    log_prints=False,
    validate_parameters=True,
)
def refit(config: str, again: bool = False, unsafe: bool = False, resume: str | None = None) -> dict[str, Any]:
    """One private refit of the configuration at this path; run again, it resumes or returns what it did before."""
    settings = validate(config)
    planned = plan(quote(settings), again, resume)
    ledger, run = reserve(quote(planned), again, unsafe)
    release = fit(quote(planned), quote(ledger), quote(run))
    published = publish(quote(planned), quote(ledger), quote(release))
    get_run_logger().info(published.night.line())
    return nightly.as_dict(published)
