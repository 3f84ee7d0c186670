"""The commands history, card and site. Imports nightly, lazily."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightfit.cli.console import ConfigPath, Json, here, plain, say, warn
from nightfit.cli.tables import columns_of, show

if TYPE_CHECKING:
    from nightfit.nightly.history import History, PastNight

SHOWN = 30  # nights in a table: a month


def history(
    config: ConfigPath,
    html: Annotated[Path | None, typer.Option(parser=here, metavar="<path>", help="Also write everything to this page.")] = None,
    as_json: Json = False,
) -> None:
    """Every night of a model: state, cost, metric with interval, coefficients that moved beyond noise, and how long the budget lasts."""
    from nightfit.config import load
    from nightfit.ledger import Ledger
    from nightfit.nightly import history_page
    from nightfit.nightly.card import card_of
    from nightfit.nightly.history import history_of
    from nightfit.release import write_atomically

    settings = load(config)
    told = history_of(settings, Ledger.open(settings.ledger_url))
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        reports = history_page.reports_beside(settings.output_folder, told, html.resolve().parent)
        write_atomically(html, history_page.page(told, reports, card=card_of(settings, told).html()))
    if as_json:
        typer.echo(json.dumps(_plain(told), indent=2))
        return
    _show(told)
    if html is not None:
        say(f"Page: {html}")


def site(
    folder: Annotated[Path, typer.Argument(help="Where configurations of refits lie, in it or in its folders.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=here, metavar="<path>", help="The folder of pages to write (default: `site` in FOLDER)."),
    ] = None,
) -> None:
    """Write static pages of all models and nights, with a search box; they load nothing from elsewhere."""
    from nightfit.nightly.site import configurations_in, write_site

    found, passed = configurations_in(folder)
    index, without = write_site(found, output or folder / "site")
    for words in (*passed, *without):
        warn(plain(words))
    say(f"Pages: {index}")


def card(
    config: ConfigPath,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", parser=here, metavar="<path>", help="The Markdown file to write (default: print it).")
    ] = None,
) -> None:
    """The model card: use, data, guarantee, assumptions, budget and metrics by night, as Markdown."""
    from nightfit.config import load
    from nightfit.ledger import Ledger
    from nightfit.nightly.card import card_of
    from nightfit.nightly.history import history_of
    from nightfit.release import write_atomically

    settings = load(config)
    text = card_of(settings, history_of(settings, Ledger.open(settings.ledger_url))).markdown()
    if output is None:
        typer.echo(text)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, text)
    say(f"Card: {output}")


def _show(told: "History") -> None:
    from nightfit.nightly.night import nights_in_words

    older = "" if len(told.nights) <= SHOWN else f" (the {SHOWN} newest of {len(told.nights):,}; --html shows all)"
    headings = ("night", "state", "run", "left", _metric(told), "changed beyond noise")
    columns = columns_of(headings, [_cells(night) for night in told.nights[-SHOWN:]], left=0, right=False)
    columns[2], columns[3], columns[5] = replace(columns[2], spare=True), replace(columns[3], right=True), replace(columns[5], wraps=True)
    show(f"{told.model} on {told.data_set}{older}", columns)
    if any(night.in_use for night in told.nights):
        say("* is in use.")
    for event in told.events:
        say(plain(f"{event.time[:16].replace('T', ' ') or 'first'}: {event.words}"))
    say(plain(told.balance.describe()))
    if told.nights_left is not None:
        until = f", until about {told.last_night} at this pace" if told.last_night else ""
        say(f"{nights_in_words(told.nights_left, told.goes_on)}{until}.")


def _metric(told: "History") -> str:
    """The main metric of the nights, which is one for a kind of target."""
    from nightfit.release.metrics import metric_name

    return " or ".join(dict.fromkeys(metric_name(one.evaluation.main) for one in told.nights if one.evaluation is not None)) or "metric"


def _cells(night: "PastNight") -> tuple[str, ...]:
    found = night.evaluation
    return (
        night.time[:10],
        night.state + (" *" if night.in_use else ""),
        night.run or "",
        "" if night.left is None else f"{night.left:.1%}",
        "" if found is None else found.headline.words(),
        ", ".join([*(one.name for one in night.shifted), *(one.name for one in night.moved)]),  # the page and --json have the numbers
    )


def _plain(told: "History") -> dict[str, Any]:
    """The history as plain data."""
    nights = [
        {
            "time": night.time,
            "state": night.state,
            "run": night.run,
            "epsilon": night.epsilon,
            "share_left": night.left,
            "in_use": night.in_use,
            "evaluation": None if night.evaluation is None else dict(night.evaluation.stored),
            "moved": [{"name": move.name, "before": move.before, "after": move.after} for move in night.moved],
            "shifted": [one.as_dict() for one in night.shifted],
            "note": night.note,
        }
        for night in told.nights
    ]
    return {
        "model": told.model,
        "data_set": told.data_set,
        "nights": nights,
        "events": [{"time": event.time, "kind": event.kind, "words": event.words} for event in told.events],
        "share_left": told.balance.share_left,
        "epsilon_spent": told.balance.epsilon_spent,
        "nights_left": told.nights_left,
        "goes_on": told.goes_on,
        "last_night": told.last_night,
    }
