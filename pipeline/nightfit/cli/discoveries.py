"""The command discover. Imports nightly, lazily."""

import json
from typing import Annotated

import typer

from nightfit.cli.console import ConfigPath, Json, plain, say


def discover(
    config: ConfigPath,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what it would cost and tell; read no row, charge nothing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Discover on a finished window once more; this spends again.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Allow the configuration's `unsafe` section; the release is not private.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ask for the levels of every category with `levels: discover`, and pay for it once; later refits use what was told, free."""
    from nightfit import nightly
    from nightfit.config import load
    from nightfit.nightly.discovery import explain

    job = nightly.prepare_discovery(load(config), again=again)
    if not as_json:
        say(plain(explain(job)))
    if plan_only:
        if as_json:
            typer.echo(json.dumps({**job.plan.as_dict(), "epsilon": job.plan.epsilon}, indent=2))
        return
    found, path = nightly.discover(job, again=again, unsafe=unsafe)
    if as_json:
        typer.echo(json.dumps({"run": found.run_id, "release": str(path), "levels": found.content["levels"]}, indent=2))
        return
    for column, levels in found.levels.items():
        say(plain(f"{column}: {len(levels)} levels: {', '.join(levels)}" if levels else f"{column}: no level is had by enough units"))
    say(plain(f"Release: {path}"))
