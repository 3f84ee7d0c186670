"""Several models of a night as one Prefect flow: plan all, then fit and publish one after the other. Imports prefect and nightly.

As in `refit`, no task is retried, cached, persisted or printed. What failed is told when the others are done, and the flow has failed then.
"""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from nightfit import nightly
from nightfit.methods.procedure import Progress
from nightfit.nightly import Published, Result
from nightfit.release import report
from nightfit_flows import lost_server
from nightfit_flows.refit import RefitFailed, artifact_key, shown, strip_causes

told: ContextVar[Callable[[dict[str, Any]], None]] = ContextVar("told", default=lambda _: None)


def _show(at: Progress) -> None:
    shown.get()(at)


def _tell(result: dict[str, Any]) -> None:
    """Plain functions, because Prefect pickles a served flow with the globals that its tasks name, and a ContextVar has no pickle."""
    told.get()(result)


@task(name="fit several", retries=0, cache_policy=NO_CACHE, persist_result=False, log_prints=False)
@strip_causes
def fit_several(configs: list[str], again: bool, unsafe: bool) -> list[dict[str, Any]]:
    """Plan, reserve, fit and publish every model, and show a summary of each as an artifact."""
    results = []
    with lost_server.at_work():
        for result in nightly.run_files([Path(path) for path in configs], again=again, unsafe=unsafe, show=_show):
            lost_server.note_reserved()
            _show_artifact(result)
            results.append(nightly.result_as_dict(result))
            _tell(results[-1])
    return results


def _show_artifact(result: Result) -> None:
    """A lost Prefect server does not undo a paid release, nor stop the next model."""
    if not isinstance(result, Published) or lost_server.lost():
        return
    release = result.release
    try:
        create_markdown_artifact(
            report.summary(release, result.balance), key=artifact_key(release.name), description=f"Refit {release.run_id}"
        )
    except Exception as error:
        get_run_logger().warning("The release is written; its summary could not be shown in Prefect (%s).", type(error).__name__)


class SomeFailed(RefitFailed):
    """Some models of a night failed; each was told when it did."""


def _tell_failure(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook of a night that failed as a whole, before any model did: note it for each, and tell whom its configuration names."""
    error = state.result(raise_on_failure=False)
    if isinstance(error, SomeFailed):
        return
    for config in nightly.readable([Path(path) for path in flow_run.parameters["configs"]]):
        nightly.tell_failure(config, error if isinstance(error, BaseException) else RefitFailed(f"Prefect says {state.name}"))


def _tell_crash(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook of a night that was cut short. What else becomes of a model is told as it ends, each by itself."""
    since = flow_run.start_time.astimezone(UTC).isoformat(timespec="seconds")
    nightly.tell_crash([Path(path) for path in flow_run.parameters["configs"]], since, RefitFailed(f"Prefect says {state.name}"))


@flow(
    name="nightfit-night",
    on_failure=[_tell_failure],
    on_crashed=[_tell_crash],
    retries=0,
    persist_result=False,
    log_prints=False,
    validate_parameters=True,
)
def night(configs: list[str], again: bool = False, unsafe: bool = False) -> list[dict[str, Any]]:
    """One private refit of each configuration in these files and folders; run again, it resumes or returns what it did before."""
    results = fit_several(configs, again, unsafe)
    failed = [result["model"] for result in results if "error" in result]
    if failed:
        raise SomeFailed(f"{len(failed)} of {len(results)} models failed: {', '.join(failed)}; the others are released")
    return results
