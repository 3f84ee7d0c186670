"""The commands demo, init, plan, refit and serve. Imports nightly and flows, lazily."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nightfit.cli.console import ConfigPaths, Json, err, here, plain, say, warn
from nightfit.cli.flow_runs import server_for_flows, watched_flow
from nightfit.cli.nights import check_several, is_several, plan_several, refit_several
from nightfit.cli.results import progress, show_plan, show_result
from nightfit.extras import NIGHTLY, needs
from nightfit.types import NightfitError

if TYPE_CHECKING:
    from nightfit.config.template import Start
    from nightfit.nightly import Job


def demo(
    folder: Annotated[
        Path, typer.Option(parser=here, metavar="<path>", help="Where the demo keeps its configuration, ledger and releases.")
    ] = Path("nightfit-demo"),
    again: Annotated[bool, typer.Option("--again", help="Refit once more: the cost is added on the same ledger.")] = False,
) -> None:
    """Run the whole job on a simulated hospital's export, of patients who return over days, through a Prefect flow."""
    from nightfit.bundled import bundled
    from nightfit.config import load
    from nightfit.config.template import configuration, hospital_start
    from nightfit.ledger import Ledger

    needs("nightfit demo", *NIGHTLY)
    config = folder / "refit.yaml"
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        config.write_text(configuration("refit.yaml", hospital_start(str(bundled("hospital")))))
        Ledger.create(load(config).ledger_url)
        say(f"Wrote {config} and a new ledger beside it.")
    _by_flow(config, again=again, planned=show_plan, told=show_result)
    say(
        f"\nNext: `nightfit demo --again` spends once more on the same ledger; `nightfit ledger show --config {config}`; "
        f"`nightfit init refit.yaml` for your own data."
    )


def init(
    path: Annotated[Path, typer.Argument(parser=here, metavar="<path>", help="The file to write.")] = Path("refit.yaml"),
    data: Annotated[str | None, typer.Option(help="Your Parquet shards: a file, glob, folder or URL; only their schema is read.")] = None,
    target: Annotated[str | None, typer.Option(help="With --data: the column to be predicted.")] = None,
    loss: Annotated[
        str | None, typer.Option(help="With --data: squared, huber, or for labels logistic or hinge (default: by the type of the target).")
    ] = None,
    bundled: Annotated[
        Literal["hospital", "randhie"], typer.Option(help="Without --data: which bundled data set, in the folder data.")
    ] = "hospital",
    schema: Annotated[bool, typer.Option("--schema", help="Also write refit.schema.json beside it, for editors.")] = False,
) -> None:
    """Write a commented configuration with every choice explained: of the bundled data, or of yours (--data, --target)."""
    from nightfit.config.template import BUNDLED, configuration

    if path.exists():
        raise NightfitError(f"{path} exists already: name another file, or edit it")
    if (data is None) != (target is None):
        raise NightfitError("--data names your shards and --target the column to be predicted: give both, or neither for the bundled data")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = configuration(path.name, _own_start(path, data, target, loss) if data and target else BUNDLED[bundled](f"data/{bundled}"))
    if schema:
        from nightfit.config import schema as described

        beside = path.with_suffix(".schema.json")
        beside.write_text(json.dumps(described(), indent=2) + "\n")
        text = f"# yaml-language-server: $schema={beside.name}\n{text}"
    path.write_text(text)
    say(f"Wrote {path}. Fill in what is left open under data, edit privacy, then run `nightfit check {path}` and `nightfit plan {path}`.")


def _own_start(path: Path, data: str, target: str, loss: str | None) -> "Start":
    """From the shards' footers: names, types and the number of rows."""
    from nightfit.config import folder_name
    from nightfit.config.from_schema import Schema, schema_start
    from nightfit.plugins import member
    from nightfit.problem import losses
    from nightfit.shards.manifest import hive_keys, scan
    from nightfit.shards.schema import check_there

    try:
        member(losses, loss or "squared")
    except ValueError as error:
        raise NightfitError(f"--loss: {error}") from None
    manifest = scan(data)
    check_there(manifest, target)
    placed = data if "://" in data or os.path.isabs(data) else os.path.relpath(data, path.parent)
    return schema_start(placed, folder_name(data), target, loss, Schema(types=manifest.types, rows=manifest.rows, keys=hive_keys(manifest)))


def plan(
    configs: ConfigPaths,
    sweep: Annotated[Literal["epsilon"] | None, typer.Option(help="Instead: what each epsilon would buy, as a table and a curve.")] = None,
    html: Annotated[
        Path | None, typer.Option(parser=here, metavar="<path>", help="With --sweep: also write the curve to this page.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What would be spent and released, and how accurate it can be. Reads footers only: no row, no charge."""
    if html is not None and sweep is None:
        raise NightfitError("--html is for the curve of --sweep epsilon: give both")
    if is_several(configs):
        if sweep is not None:
            raise NightfitError("--sweep is of one configuration: name one")
        plan_several(configs, as_json)
        return
    (config,) = configs
    job = _prepared(config)
    if sweep is not None:
        from nightfit.cli.trade_off import show

        show(job, html, as_json)
        return
    if not as_json:
        show_plan(job)
    searching = None if job.config.search is None else _plan_of_search(config)
    _check_reservable(job if searching is None else searching)
    if as_json:
        predicted = {"coefficient_noise": job.plan.procedure.coefficient_noise(), "noise": job.plan.expected_noise}
        content = {
            **job.plan.as_dict(),
            "digest": job.plan.digest(),
            "epsilon": job.plan.epsilon,
            "predicted": predicted,
            "warnings": job.plan.warnings(),
            "blocks": list(job.blocks),
            "nights_left": job.nights,
            **({} if searching is None else {"search": {**searching.plan.as_dict(), "epsilon": searching.plan.epsilon}}),
        }
        typer.echo(json.dumps(content, indent=2))
    elif searching is not None:
        show_plan(searching, "Plan of `nightfit search`")


def refit(
    configs: ConfigPaths,
    again: Annotated[bool, typer.Option("--again", help="Refit a finished window once more; this spends again.")] = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Continue this run, on the blocks that it reserved.")] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Allow the configuration's `unsafe` section; the release is not private.")
    ] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="The same steps as plain calls, without Prefect: for cron and scripts; it starts sooner.")
    ] = False,
    as_json: Json = False,
) -> None:
    """One refit through the Prefect flow, or one of each configuration: what needs no target is then asked and paid once for models of the
    same columns. An interrupted refit is resumed; a finished one is returned and not paid twice.
    """
    if again and resume is not None:
        raise NightfitError("--resume continues a run, --again starts a new one: give one of them")
    if is_several(configs):
        if resume is not None:
            raise NightfitError("--resume continues one run: name its configuration alone")
        refit_several(configs, again=again, unsafe=unsafe, direct=direct, as_json=as_json)
        return
    (config,) = configs
    run = _by_calls if direct else _by_flow
    run(config, again=again, unsafe=unsafe, resume=resume, quiet=as_json, told=_echo if as_json else show_result)


def serve(
    configs: ConfigPaths,
    cron: Annotated[str, typer.Option(help="When to refit, as a cron line.")] = "0 2 * * *",
    timezone: Annotated[str, typer.Option(help="The schedule's time zone, such as Europe/Berlin.")] = "UTC",
) -> None:
    """Refit every night, in one process with Prefect inside; stop with Ctrl-C. Of a folder, the models that are in it each night."""
    needs("nightfit serve", *NIGHTLY)
    from nightfit_flows.nightly import serve as nightly

    if is_several(configs):
        check_several(configs)
    else:
        _prepared(configs[0])
    say(f"Refitting {', '.join(map(str, configs))} at '{cron}' {timezone}; Ctrl-C stops.")
    nightly(configs, cron, timezone)


def _prepared(config: Path, *, again: bool = False, resume: str | None = None) -> "Job":
    from nightfit.config import load
    from nightfit.nightly import prepare

    return prepare(load(config), again=again, resume=resume)


def _check_reservable(job: "Job") -> None:
    from nightfit.nightly import check_reservable

    check_reservable(job)


def _plan_of_search(config: Path) -> "Job":
    from nightfit.config import load
    from nightfit.nightly import prepare_search

    return prepare_search(load(config))


Told = Callable[[dict[str, Any]], None]


def _echo(result: dict[str, Any]) -> None:
    """Print a published refit as JSON."""
    typer.echo(json.dumps(result, indent=2))


def _by_calls(config: Path, *, again: bool, unsafe: bool, resume: str | None = None, quiet: bool = False, told: Told) -> None:
    """The steps of the flow as plain calls, with a progress bar of public numbers; the result is `told`."""
    from nightfit import nightly
    from nightfit.config import load

    with nightly.watched(load(config)):
        job = _prepared(config, again=again, resume=resume)
        with progress(quiet, job.plan.units, "starting") as show:
            result = nightly.as_dict(nightly.run(job, again=again, unsafe=unsafe, show=show))
    nightly.tell_completion(job.config, result)
    told(result)


def _by_flow(
    config: Path,
    *,
    again: bool,
    unsafe: bool = False,
    resume: str | None = None,
    quiet: bool = False,
    planned: Callable[["Job"], None] = lambda _: None,
    told: Told,
) -> None:
    """The flow, in this process, with a progress bar of public numbers. Its server starts while this process imports and plans.

    `planned` is called with the plan, before the flow, and `told` with the result. If the server is lost, the same job is finished by
    plain calls, and the process ends.
    """
    with server_for_flows() as wait_for_server:
        from nightfit import nightly
        from nightfit.config import load
        from nightfit.ledger import Ledger

        with nightly.watched(load(config)):  # what fails inside the flow, the flow tells
            job = _prepared(config, again=again, resume=resume)
            Ledger.open(job.config.ledger_url)
        planned(job)

        def finish(reserved: bool) -> int:
            return _finished_alone(job, again=again and not reserved, unsafe=unsafe, told=told)

        with progress(quiet, job.plan.units, "starting Prefect") as show:
            from nightfit_flows.refit import prepared, shown
            from nightfit_flows.refit import refit as flow
            from nightfit_flows.tags import tagged

            wait_for_server()
            with watched_flow(finish, {shown: show, prepared: job}), tagged([job.config.name]):
                result: dict[str, Any] = flow(str(config.resolve()), again=again, unsafe=unsafe, resume=resume)
    told(result)


def _finished_alone(job: "Job", *, again: bool, unsafe: bool, told: Told) -> int:
    """Finish a planned refit without Prefect, with one warning; the command's exit code."""
    from nightfit import nightly

    err.show_cursor()
    try:
        with nightly.watched(job.config):
            result = nightly.as_dict(nightly.run(job, again=again, unsafe=unsafe))
    except NightfitError as error:
        warn(f"[bold red]error:[/] {plain(str(error))}")
        return 1
    warn("[bold yellow]warning:[/] the Prefect server was lost: the refit was finished without it, and is paid once")
    nightly.tell_completion(job.config, result)
    told(result)
    return 0
