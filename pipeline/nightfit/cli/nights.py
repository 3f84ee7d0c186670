"""`nightfit refit` and `plan` of several configurations. Imports nightly and flows, lazily."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nightfit.cli.console import plain, say, warn
from nightfit.cli.flow_runs import server_for_flows, watched_flow
from nightfit.cli.results import progress, show_plan
from nightfit.types import NightfitError

if TYPE_CHECKING:
    from nightfit.nightly import Failed, Group


def is_several(paths: Sequence[Path]) -> bool:
    """Whether these are several configurations, or a folder of them."""
    return len(paths) > 1 or any(path.is_dir() for path in paths)


def refit_several(paths: Sequence[Path], *, again: bool, unsafe: bool, direct: bool, as_json: bool) -> None:
    """Refit the models of several configurations; each is told in one line, and a failure of one ends the command with an error at last."""
    from nightfit.config import configurations

    configurations(paths)  # a folder without any is told before a server starts
    results = (_by_calls if direct else _by_flow)(paths, again, unsafe, as_json)
    if as_json:
        typer.echo(json.dumps(results, indent=2))
    failed = [result["model"] for result in results if "error" in result]
    if failed:
        raise NightfitError(f"{len(failed)} of {len(results)} models failed: {', '.join(failed)}; run the same command again to resume")


def plan_several(paths: Sequence[Path], as_json: bool) -> None:
    """Show the plans of several models, and what they cost together and separately."""
    from nightfit.nightly import check_together, compared, prepare_files

    groups, failed = prepare_files(paths)
    comparisons = compared(groups)
    if as_json:
        models = [{**job.plan.as_dict(), "digest": job.plan.digest(), "epsilon": job.plan.epsilon} for one in groups for job in one.jobs]
        night = [
            {"data_set": one.data_set, "models": list(one.models), "epsilon_together": one.together, "epsilon_separately": one.separately}
            for one in comparisons
        ]
        typer.echo(json.dumps({"models": models, "night": night, "failed": [_words(one) for one in failed]}, indent=2))
    else:
        for job in (job for group in groups for job in group.jobs):
            show_plan(job, f"Plan of {job.config.name}")
        _show_night(groups)
    for group in groups:
        check_together(group.rows, group.jobs)
    _refuse(failed, sum(len(group.jobs) for group in groups))


def check_several(paths: Sequence[Path]) -> None:
    """Refuse configurations of which one cannot be planned."""
    from nightfit.nightly import prepare_files

    groups, failed = prepare_files(paths)
    _refuse(failed, sum(len(group.jobs) for group in groups))


def _refuse(failed: "Sequence[Failed]", planned: int) -> None:
    for one in failed:
        warn(f"[bold red]error:[/] {plain(f'{one.model}: {one.error}')}")
    if failed:
        raise NightfitError(f"{len(failed)} of {len(failed) + planned} models cannot be planned")


def _show_night(groups: "Sequence[Group]") -> None:
    from nightfit.nightly import compared

    say("[bold]Night[/]")
    for group in groups:
        names = ", ".join(job.config.name for job in group.jobs)
        shared = "asks by itself" if group.rows is None else f"share {', '.join(event.label for event in group.rows.plan.events)}"
        say(plain(f"{names}: {shared}."))
    for one in compared(groups):
        say(plain(one.words()))


def _words(failed: "Failed") -> dict[str, str]:
    return {"model": failed.model, "error": str(failed.error)}


def _tell(result: dict[str, Any], quiet: bool) -> None:
    """One line for each model, as soon as it is done."""
    if "error" in result:
        warn(f"[bold red]error:[/] {plain(result['model'])}: {plain(result['error'])}")
    elif not quiet:
        say(plain(result["night"]["line"]))


def _by_calls(paths: Sequence[Path], again: bool, unsafe: bool, quiet: bool) -> list[dict[str, Any]]:
    from nightfit import nightly

    results = []
    with progress(quiet, 1, "starting") as show:
        for result in nightly.run_files(paths, again=again, unsafe=unsafe, show=show):
            results.append(nightly.result_as_dict(result))
            _tell(results[-1], quiet)
    return results


def _by_flow(paths: Sequence[Path], again: bool, unsafe: bool, quiet: bool) -> list[dict[str, Any]]:
    """The flow of a night, in this process. If its server is lost, the night is finished by plain calls, and the process ends."""
    results: list[dict[str, Any]] = []

    def told(result: dict[str, Any]) -> None:
        results.append(result)
        _tell(result, quiet)

    def finish(reserved: bool) -> int:
        warn("[bold yellow]warning:[/] the Prefect server was lost: the night is finished without it, and is paid once")
        again_by_calls = _by_calls(paths, again and not reserved, unsafe, quiet)
        if quiet:
            typer.echo(json.dumps(again_by_calls, indent=2))
        return int(any("error" in result for result in again_by_calls))

    with server_for_flows() as wait_for_server, progress(quiet, 1, "starting Prefect") as show:
        from nightfit_flows.night import night as flow
        from nightfit_flows.night import told as listener
        from nightfit_flows.refit import shown
        from nightfit_flows.tags import tagged

        wait_for_server()
        with watched_flow(finish, {shown: show, listener: told}), tagged([]):
            try:
                flow([str(path.resolve()) for path in paths], again=again, unsafe=unsafe)
            except NightfitError:
                if not any("error" in result for result in results):  # else it says what was told already
                    raise
    return results
