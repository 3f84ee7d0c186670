"""The nightly refit as a Prefect flow: validate, plan, reserve, fit, publish. Imports prefect and the job.

The fit is one task that owns its Dask client. No task is retried, cached, persisted or printed: Prefect would keep results as
plain pickles and hash inputs for its cache, and a repeated task must find its run through the ledger, not through Prefect.
"""

import contextlib
import re
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.utilities import annotations

from pipeline import job, report
from pipeline.config import Config, load
from pipeline.fit import Progress
from pipeline.job import Job, Published
from pipeline.privacy.ledger import Ledger, Run
from pipeline.release import Release
from pipeline.types import NightfitError

quote: Any = annotations.quote
shown: ContextVar[Callable[[Progress], None]] = ContextVar("shown", default=lambda _: None)


def _show(at: Progress) -> None:
    """A plain function, because Prefect pickles a served flow with the globals that its tasks name, and a ContextVar has no pickle."""
    shown.get()(at)


class RefitFailed(NightfitError):
    """An unforeseen error inside a refit, named by its kind alone: its text might hold a value."""


@contextlib.contextmanager
def _discreet() -> Iterator[None]:
    """Cut an exception's causes off: Prefect logs and stores them with their text, which may hold a value or an unpaid answer.

    Broken by test_the_cause_of_a_failure_is_never_told_to_prefect.
    """
    try:
        yield
    except NightfitError as error:
        raise error from None
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        what, where = type(error).__name__, f"{Path(at.filename).name}, line {at.lineno}"
        raise RefitFailed(f"the refit stopped on an unforeseen {what} ({where}); run it again to resume") from None


@task(name="validate", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
def validate(path: str) -> Config:
    """The configuration, or one message that names every fault."""
    return load(Path(path))


@task(name="plan", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
def plan(config: Config) -> Job:
    """Every question, its noise and its cost, from footers and configuration."""
    with _discreet():
        return job.prepare(config)


@task(name="reserve", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
def reserve(planned: Job, again: bool, unsafe: bool) -> tuple[Ledger, Run]:
    """The plan's whole cost set aside in the ledger, or the run that did so before."""
    with _discreet():
        ledger = job.open_ledger(planned.config)
        return ledger, job.reserve(planned, ledger, again=again, unsafe=unsafe)


@task(name="fit", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
def fit(planned: Job, ledger: Ledger, run: Run) -> Release:
    """Every question asked through the gate, on the configured Dask cluster."""
    with _discreet():
        return job.run_fit(planned, ledger, run, _show)


@task(name="publish", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
def publish(planned: Job, ledger: Ledger, release: Release) -> Published:
    """Release and report on disk, and a summary as an artifact; a lost Prefect server does not undo a paid release."""
    with _discreet():
        published = job.publish(planned, ledger, release)
    key = re.sub(r"[^a-z0-9-]+", "-", f"nightfit-{planned.config.name}".lower()).strip("-")
    try:
        create_markdown_artifact(report.summary(release, published.balance), key=key, description=f"Refit {release.run_id}")
    except Exception as error:
        get_run_logger().warning("The release is written; its summary could not be shown in Prefect (%s).", type(error).__name__)
    return published


@flow(name="nightfit-refit", retries=0, persist_result=False, log_prints=False, validate_parameters=True)
def refit(config: str, again: bool = False, unsafe: bool = False) -> dict[str, Any]:
    """One private refit of the configuration at this path; run again, it resumes or returns what it did before."""
    settings = validate(config)
    planned = plan(quote(settings))
    ledger, run = reserve(quote(planned), again, unsafe)
    release = fit(quote(planned), quote(ledger), quote(run))
    return job.as_dict(publish(quote(planned), quote(ledger), quote(release)))
