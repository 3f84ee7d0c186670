"""The table and plot of `nightfit plan --sweep`. Imports the sweep, lazily."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.bar import Bar
from rich.table import Table

from nightfit.cli.console import out

if TYPE_CHECKING:
    from nightfit.nightly import Job

WIDTH = 30


def show(job: "Job", html: Path | None, as_json: bool) -> None:
    """What each epsilon would buy, from public facts: as a table with the curve beside it, as JSON, and as a page."""
    from nightfit.nightly import ledger_and_policy
    from nightfit.planning.trade_off import swept
    from nightfit.release.trade_off import HEADER, cells, page, unit_of

    policy = ledger_and_policy(job.config)[1]
    points = list(swept(job.plan.specification, job.plan.units, policy.limit() if policy else None))
    chosen = job.plan.specification.budget.epsilon
    if html is not None:
        html.write_text(page(job.config.name, points, chosen))
    if as_json:
        sweep = [{"epsilon": point.epsilon, "noise": point.expected, "refits": point.refits} for point in points]
        typer.echo(json.dumps({"unit": unit_of(points), "sweep": sweep}, indent=2))
        return
    known = [point.expected for point in points if point.expected]
    table = Table(title=f"What epsilon buys ({unit_of(points)}; the bars' scale is logarithmic)", title_justify="left")
    for name in (*HEADER, "noise"):
        table.add_column(name, justify="left" if name == "noise" else "right")
    for point in points:
        style = "bold" if point.epsilon == chosen else None
        table.add_row(*cells(point), _bar(point.expected, min(known), max(known)) if point.expected else "", style=style)
    out.print(table)
    out.print("From public facts alone: no record was read and nothing was charged." + (f" Page: {html}" if html else ""))


def _bar(value: float, least: float, most: float) -> Bar:
    return Bar(1.0, 0.0, max(math.log(value / least) / max(math.log(most / least), 1e-9), 1 / WIDTH), width=WIDTH)
