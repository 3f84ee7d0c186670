"""The history of a model as one self-contained page: metric, coefficients, budget, events, nights. Imports history and release.

The page loads nothing and runs nothing. What it shows is paid for or public; releases that are not private are not in it.
"""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from nightfit.nightly.history import History, PastNight
from nightfit.nightly.night import nights_in_words
from nightfit.release.charts import SMALL, Mark, Point, burn_down, over_time
from nightfit.release.html import html_page, linked_table, short
from nightfit.release.metrics import metric_name
from nightfit.release.movement import Terms

LONG = 14  # characters of a card's text, beyond which it is set smaller
SHOWN = 24  # coefficients that are drawn: those that moved most often first, then the largest
TROUBLES = {"failed", "refused", "missed", "overlapped", "abandoned", "unfinished"}


def page(history: History, reports: dict[str, str], home: str | None = None, card: str = "") -> str:
    """The page as HTML.

    Parameters
    ----------
    history : History
        Of a model.
    reports : dict
        Where the report of each run is, relative to the page.
    home : str, optional
        Where the index of all models is, relative to the page.

    card : str
        The model card, as HTML.

    Returns
    -------
    str
    """
    name, data_set = escape(history.model), escape(history.data_set)
    titled = [
        ("How good it is", _metric(history)),
        ("Coefficients", _coefficients(history)),
        ("Checks", _checks(history)),
        ("Budget", _budget(history)),
        ("What happened", _events(history)),
        ("Nights", _nights(history, reports)),
    ]
    body = "".join(f"<section><h2>{title}</h2>{inner}</section>\n" for title, inner in titled if inner)
    body += f"<details><summary>Model card</summary>{card}</details>\n" if card else ""
    up = f'<p><a href="{escape(home)}">All models</a></p>' if home else ""
    count = f"{len(history.nights):,} night{'' if len(history.nights) == 1 else 's'}"
    return html_page(
        f"{name}: every night",
        f'{up}<header><h1>{name}</h1></header>\n<p class="faint">{count} on the data set {data_set}</p>\n{_cards(history)}{body}',
    )


def reports_beside(folder: Path, history: History, place: Path) -> dict[str, str]:
    """Where each report in the output folder is, as seen from a page in the folder `place`."""
    runs = [night.run for night in history.nights if night.run is not None]
    return {run: os.path.relpath(folder / run / "report.html", place) for run in runs if (folder / run / "report.html").exists()}


def _cards(history: History) -> str:
    """What is looked for first: the last night, the metric, what is left, and what is in use."""
    judged = next((night for night in reversed(history.nights) if night.evaluation is not None), None)
    used, balance = history.current, history.balance
    cards = [_last_night(history)] if history.nights else []
    if judged is not None and judged.evaluation is not None:
        found = judged.evaluation
        low, high = found.headline.low, found.headline.high
        cards.append((metric_name(found.main), f"{found.headline.value:.3g}", f"{low:.3g} to {high:.3g} at {found.level:.0%}", ""))
    spent = f"epsilon {balance.epsilon_spent:.3g} of {balance.epsilon_lifetime:g} spent, delta {balance.delta:g}"
    cards.append(("budget left", f"{balance.share_left:.1%}", spent, ""))
    if history.nights_left is not None:
        until = history.last_night
        words = "without end while new blocks come" if history.goes_on else f"until about {until}" if until else "at this cost"
        cards.append(("nights left", "∞" if history.goes_on else f"{history.nights_left:,}", words, ""))
    cards.append(("in use", "none" if used is None else str(used.run), "" if used is None else f"of {used.time[:10]}", ""))
    inner = "".join(
        f"<div{mark}><dt>{escape(title)}</dt><dd{' class=long' if len(shown) > LONG else ''}>{escape(shown)}</dd>"
        f"<dd class=faint>{escape(more)}</dd></div>"
        for title, shown, more, mark in cards
    )
    return f'<dl class="cards">{inner}</dl>\n'


def _last_night(history: History) -> tuple[str, str, str, str]:
    """What became of the newest night, and how it looks."""
    last = history.nights[-1]
    bad = last.state in TROUBLES or last.suspect
    return "last night", last.state, f"{last.time[:10]}{': its data are poorer' if last.suspect else ''}", " class=bad" if bad else ""


def _metric(history: History) -> str:
    """The main metric of the latest evaluation, over all nights that have it."""
    judged = [(night, found) for night in history.nights if (found := night.evaluation) is not None]
    if not judged:
        return "<p>No night was evaluated: <code>evaluate</code> in the configuration pays for it.</p>"
    main = judged[-1][1].main
    points = [
        Point(
            time=night.time,
            value=found.metrics[main].value,
            low=found.metrics[main].low,
            high=found.metrics[main].high,
            words=f"{found.words()}{', in use' if night.in_use else ''}",
            mark="current" if night.in_use else _mark(None if found.previous is None else found.previous.better),
        )
        for night, found in judged
        if main in found.metrics
    ]
    level, name = judged[-1][1].level, metric_name(main)
    return (
        f'<div class="chart">{over_time(points, f"{name} by night", events=_troubles(history))}</div>'
        f"<p class=faint>{escape(name)} on units that were never fitted on, with {level:.0%} intervals that count the privacy noise and "
        "the sampling of units in. Filled: better than the release it was compared with; hollow: no difference beyond the interval; cross: "
        "worse; diamond: in use. Dashed lines: nights that failed, were refused or missed, or whose export was poorer.</p>"
    )


def _mark(better: bool | None) -> Mark:
    return {True: "better", False: "worse", None: "plain"}[better]  # type: ignore[return-value]


def _troubles(history: History) -> list[tuple[str, str, str]]:
    poorer = [(night.time, "poorer data", night.note) for night in history.nights if night.suspect]
    return [*poorer, *((night.time, night.state, night.note) for night in history.nights if night.state in TROUBLES)]


def _coefficients(history: History) -> str:
    """One small chart for each coefficient, all of a page alike."""
    released = [(night, Terms.of(night.release)) for night in history.nights if night.release is not None]
    if not released:
        return ""
    latest = released[-1][1]
    times_moved = {name: sum(move.name == name for night, _ in released for move in night.moved) for name in latest.names}
    size = {
        name: abs(value) / sd if sd > 0 else 0.0 for name, value, sd in zip(latest.names, latest.estimate, latest.deviation, strict=True)
    }
    shown = sorted(latest.names, key=lambda name: (-times_moved[name], -size[name]))[:SHOWN]
    figures = "".join(_small(name, released, times_moved[name]) for name in latest.names if name in shown)
    others = len(latest.names) - len(shown)
    told = (
        "Bars: two standard deviations. Filled: moved beyond its noise since the release that was in use"
        if np.isfinite(latest.deviation).any()
        else "No bars: the size of the noise follows the data and was not paid for, so that no coefficient is said to have moved"
    )
    return (
        f'<div class="multiples">{figures}</div><p class=faint>In the units of the data, before shrinkage and penalty where the method '
        f"tells intervals. {told}"
        f"{f'; {others:,} others are in the releases' if others else ''}.</p>"
    )


def _small(name: str, released: Sequence[tuple[PastNight, Terms]], times: int) -> str:
    points = []
    for night, terms in released:
        if name not in terms.names:
            continue
        k = terms.names.index(name)
        value, half = float(terms.estimate[k]), 2 * float(terms.deviation[k]) + float(terms.bias[k])
        half = half if half == half else 0.0
        beyond = any(move.name == name for move in night.moved)
        words = f"{value:.4g}{' (moved beyond its noise)' if beyond else ''}"
        mark: Mark = "better" if beyond else "plain"
        points.append(Point(time=night.time, value=value, low=value - half, high=value + half, words=words, mark=mark))
    moves = f" <b>moved {times}x</b>" if times else ""
    return f"<figure><figcaption>{escape(short(name))}{moves}</figcaption>{over_time(points, name, frame=SMALL)}</figure>"


def _checks(history: History) -> str:
    """The paid checks of the data, such as the share of complete rows, one small chart each."""
    judged = [(night, found.checks()) for night in history.nights if (found := night.evaluation) is not None]
    names = dict.fromkeys(name for _, checks in judged for name in checks)
    figures = []
    for name in names:
        points = [
            Point(
                time=night.time,
                value=check.value,
                low=check.low,
                high=check.high,
                words=check.words(),
                mark="better" if name in {one.name for one in night.shifted} else "plain",
            )
            for night, checks in judged
            if (check := checks.get(name)) is not None
        ]
        figures.append(f"<figure><figcaption>{escape(name)}</figcaption>{over_time(points, name, frame=SMALL)}</figure>")
    return f'<div class="multiples">{"".join(figures)}</div>' if figures else ""


def _budget(history: History) -> str:
    paid = [(night.time, night.left) for night in history.nights if night.left is not None]
    words = f"<p>{escape(history.balance.describe())}</p>"
    if not paid:
        return words
    left = "" if history.nights_left is None else nights_in_words(history.nights_left, history.goes_on)
    until = f", until about {history.last_night} at this pace" if history.last_night else ""
    drawn = burn_down(paid, history.last_night, f"budget of {history.data_set}")
    return f'<div class="chart">{drawn}</div><p>{escape(left)}{escape(until)}.</p>{words}'


def _events(history: History) -> str:
    told = [(event.time, event.kind, event.words) for event in history.events]
    told += [(night.time, night.state, night.note) for night in history.nights if night.state in TROUBLES]
    told += [(night.time, "data", f"{night.run}: {words}") for night in history.nights for words in night.changes_of_data]
    if not told:
        return ""
    items = "".join(
        f"<li><time>{escape(time[:16].replace('T', ' ')) or 'before the first night'}</time> <b>{escape(kind)}</b> {escape(words)}</li>"
        for time, kind, words in sorted(told, reverse=True)
    )
    return f'<ol class="events">{items}</ol>'


def _nights(history: History, reports: dict[str, str]) -> str:
    """A table of all nights, the newest first."""
    mains = {found.main for night in history.nights if (found := night.evaluation) is not None}
    metric = metric_name(next(iter(mains))) if len(mains) == 1 else "metric"
    header = ("night (UTC)", "state", "run", "epsilon", "of the budget", "left", metric, "changed beyond noise", "note")
    rows = []
    for night in reversed(history.nights):
        found = night.evaluation
        cells = (
            night.time[:16].replace("T", " "),
            night.state + (", in use" if night.in_use else "") + (", poorer data" if night.suspect else ""),
            night.run or "",
            "" if night.epsilon is None else f"{night.epsilon:.3g}",
            "" if night.share is None else f"{night.share:.2%}",
            "" if night.left is None else f"{night.left:.1%}",
            "" if found is None else f"{'' if len(mains) == 1 else f'{metric_name(found.main)} '}{found.headline.words()}",
            ", ".join(night.changes),
            short(night.note, 200),
        )
        rows.append((cells, {2: reports[night.run]} if night.run in reports else {}))
    return f'<div class="nights">{linked_table(header, rows, [mark(night) for night in reversed(history.nights)], "nights")}</div>'


def mark(night: PastNight) -> str:
    """The class of a night's row: `bad`, `current` or none; its words say the same."""
    return "bad" if night.state in TROUBLES or night.suspect else "current" if night.in_use else ""
