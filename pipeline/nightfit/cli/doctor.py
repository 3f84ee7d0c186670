"""The command doctor. Imports nightly and flows, lazily."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nightfit.cli.console import ConfigPath, Json, plain, say

if TYPE_CHECKING:
    from nightfit.nightly.doctor import Finding

MARKS = {"ok": "[green]ok[/]", "look": "[yellow]look[/]", "wrong": "[bold red]wrong[/]"}


def doctor(
    config: ConfigPath,
    nights: Annotated[int, typer.Option(min=1, help="For how many nights the budget should be enough.")] = 1,
    backup: Annotated[Path | None, typer.Option(help="The newest backup of the ledger (SQLite).")] = None,
    as_json: Json = False,
) -> None:
    """Check everything that a night needs, and say the cure of what is wrong. Reads footers only: no row, no charge."""
    from nightfit.config import load
    from nightfit.nightly.doctor import examine

    findings = [*examine(load(config), nights=nights, backup=backup), of_prefect()]
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            cure = f"\n       cure: {finding.cure}" if finding.cure else ""
            say(f"{MARKS[finding.state]:>5}  {plain(finding.name)}: {plain(finding.found)}{plain(cure)}")
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)


def of_prefect() -> "Finding":
    """Whether the Prefect server that the settings name answers, and whether Prefect tells anyone of its use."""
    from nightfit.nightly.doctor import Finding
    from nightfit_flows.lost_server import answers
    from nightfit_flows.settings import prepare

    prepare()
    url = os.environ.get("PREFECT_API_URL")
    if url is not None and not answers(url):
        return Finding(name="Prefect", state="wrong", found=f"no server answers at {url}", cure="start it, or unset PREFECT_API_URL")
    if os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"].lower() not in ("0", "false"):
        return Finding(
            name="Prefect", state="look", found="its server tells its maker of its use", cure="set PREFECT_SERVER_ANALYTICS_ENABLED=false"
        )
    return Finding(name="Prefect", state="ok", found="started for each refit" if url is None else f"answers at {url}")
