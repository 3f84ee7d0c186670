"""A page of an experiment as self-contained HTML, and its numbers as JSON. Imports the release's page and matplotlib through it."""

import dataclasses
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import yaml

from nightfit._version import __version__
from nightfit.release.html import FAINT, INK, blank, html_page, linked_table, svg, table
from nightfit_flows.reproduce.experiment import Curve, Figure, Page, Point, Table, Verdict

COLOURS = ("#2f7fd6", "#d2601a", "#2e9e62", "#a368cf", "#b08a00", "#d64a83", "#1f9bb0", "#a5744a", "#7f8c1f", "#cf5454")
MARKS = "osD^vPX*<>"  # with the colours; each colour has a contrast of three on a light and on a dark page
MOST_TICKS = 6  # values that are all named on an axis
LEAST = 1e-9  # of an error on a logarithmic axis


def write(page: Page, folder: Path) -> tuple[Path, Path]:
    """Write `PAPER.html` and `PAPER.json` into a folder.

    Returns
    -------
    tuple of path-like
        The page and the numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{page.paper}.html", folder / f"{page.paper}.json"
    paths[0].write_text(as_html(page), encoding="utf-8")
    paths[1].write_text(json.dumps(as_dict(page)) + "\n", encoding="utf-8")
    return paths


def as_dict(page: Page) -> dict[str, Any]:
    """Everything on the page, as plain data, numbers with six digits; what is not a number is null."""
    return {"version": __version__, **_plain(dataclasses.asdict(page))}


def read(numbers: Path) -> Page:
    """The page of numbers that were written beside it."""
    held = {name: value for name, value in json.loads(numbers.read_text()).items() if name != "version"}
    figures = [
        Figure(**{**figure, "curves": tuple(Curve(**{**one, "points": _points(one["points"])}) for one in figure["curves"])})
        for figure in held.pop("figures")
    ]
    tables = [
        Table(title=shown["title"], header=tuple(shown["header"]), rows=tuple(map(tuple, shown["rows"]))) for shown in held.pop("tables")
    ]
    verdicts = tuple(Verdict(**verdict) for verdict in held.pop("verdicts"))
    return Page(**{**held, "settings": tuple(held["settings"])}, figures=tuple(figures), tables=tuple(tables), verdicts=verdicts)


def _points(held: list[dict[str, Any]]) -> tuple[Point, ...]:
    """Points; an error that is no number was written as null."""
    return tuple(Point(**{**point, "mean": math.nan if point["mean"] is None else point["mean"]}) for point in held)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def as_html(page: Page) -> str:
    """The whole page."""
    marks = ["current" if verdict.answer == "holds" else "bad" if verdict.answer == "does not hold" else "" for verdict in page.verdicts]
    judged: list[tuple[tuple[str, ...], dict[int, str]]] = [
        ((verdict.claim, verdict.answer.replace(" ", "\u00a0"), verdict.why), {}) for verdict in page.verdicts
    ]
    verdicts = linked_table(("claim", "here", "why"), judged, marks, "claims")
    settings = "".join(f"<li>{escape(line)}</li>\n" for line in page.settings)
    body = [
        f"<h1>{escape(page.paper)}</h1>\n<p>{escape(page.citation)}</p>\n",
        f"<p class=faint>Made by nightfit {__version__} with <code>{escape(page.command)}</code>. Noise is seeded, errors are on rows in "
        "the clear: an experiment on public or made-up data, no release.</p>\n",
        f"<h2>Claims</h2>\n{verdicts}\n<h2>Settings</h2>\n<ul>\n{settings}</ul>\n",
        *(
            f"<h2>{escape(figure.title)}</h2>\n{_about(figure)}{_plot(figure)}\n<details><summary>The numbers</summary>\n"
            f"{_numbers(figure)}</details>\n"
            for figure in page.figures
        ),
        *(f"<h2>{escape(shown.title)}</h2>\n{table(shown.header, shown.rows)}\n" for shown in page.tables),
        "<h2>A configuration</h2>\n<p>Every curve is a <code>refit.yaml</code> such as this one; printed constants replace its noise.</p>\n"
        f"<pre>{escape(yaml.safe_dump(page.configuration, sort_keys=False))}</pre>\n",
    ]
    return html_page(f"{escape(page.paper)}, reproduced", "".join(body))


def _about(figure: Figure) -> str:
    return f"<p class=faint>{escape(figure.about)}</p>\n" if figure.about else ""


def _plot(figure: Figure) -> str:
    drawn, axes = blank(8.4, 4.2)
    coloured = [curve for curve in figure.curves if curve.kind in ("method", "printed")]
    for curve in figure.curves:
        x, y = [point.x for point in curve.points], [max(point.mean, LEAST) for point in curve.points]
        axes.plot(x, y, label=curve.label, **_style(curve, coloured))
    if figure.logarithmic:
        axes.set_yscale("log")
    places = sorted({point.x for curve in figure.curves for point in curve.points})
    if len(places) <= MOST_TICKS:
        axes.set_xticks(places, [f"{place:,g}" for place in places])
    axes.set_xlabel(figure.over)
    axes.set_ylabel(figure.error)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, labelcolor=INK, fontsize=9)
    shown: str = svg(drawn, axes)
    return shown


def _style(curve: Curve, coloured: list[Curve]) -> dict[str, Any]:
    if curve.kind == "zero":
        return {"color": FAINT, "linestyle": ":"}
    if curve.kind == "not private":
        return {"color": FAINT, "linestyle": "--"}
    if curve.kind == "auto":
        return {"color": INK, "marker": ".", "linewidth": 2.2}
    place = coloured.index(curve) % len(COLOURS)
    return {
        "color": COLOURS[place],
        "marker": MARKS[place],
        "markersize": 4,
        "linestyle": "-." if curve.kind == "printed" else "-",
        "linewidth": 1.4,
    }


def _numbers(figure: Figure) -> str:
    places = sorted({point.x for curve in figure.curves for point in curve.points})
    shown = [places[k] for k in sorted({round(i * (len(places) - 1) / 7) for i in range(8)})]  # a path has hundreds

    def cell(curve: Curve, x: float) -> str:
        found = next((point for point in curve.points if point.x == x), None)
        return "" if found is None else f"{found.mean:.3g} ± {found.deviation:.2g}"

    header = (figure.over, *(f"{x:,.4g}" for x in shown))
    return table(header, ((curve.label.replace("\n", " "), *(cell(curve, x) for x in shown)) for curve in figure.curves))
