"""The table and plot of `nightfit plan --sweep`. Imports the sweep, lazily."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nightfit.cli.console import say
from nightfit.cli.tables import columns_of
from nightfit.cli.tables import show as show_table

if TYPE_CHECKING:
    from nightfit.nightly import Job

WIDTH = 24


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
    bars = [_bar(point.expected, min(known), max(known)) if point.expected else "" for point in points]
    marks = ["* " if point.epsilon == chosen else "" for point in points]
    rows = [(mark + epsilon, *others, drawn) for (epsilon, *others), mark, drawn in zip(map(cells, points), marks, bars, strict=True)]
    columns = columns_of((*HEADER, "noise"), rows, left=0)
    columns[-1] = replace(columns[-1], right=False, spare=True)
    show_table(f"What epsilon buys ({unit_of(points)}; the bars' scale is logarithmic)", columns)
    say("* is the configuration's epsilon.")
    say("From public facts alone: no record was read and nothing was charged." + (f" Page: {html}" if html else ""))


def _bar(value: float, least: float, most: float) -> str:
    return "█" * max(round(WIDTH * math.log(value / least) / max(math.log(most / least), 1e-9)), 1)
