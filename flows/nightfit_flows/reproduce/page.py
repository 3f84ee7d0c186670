"""A page of an experiment as self-contained HTML, and its numbers as JSON. Imports the release's page and matplotlib through it."""

import dataclasses
import json
import math
from html import escape
from pathlib import Path
from typing import Any

import yaml

from nightfit._version import __version__
from nightfit.release.html import ACCENT, FAINT, INK, blank, html_page, svg, table
from nightfit_flows.reproduce.experiment import Curve, Figure, Page

COLOURS = (ACCENT, "#b5541c", "#2e7d4f", "#8a4fa3", "#a08000", "#b03060", "#3a7ca5", "#70543e")
MARKS = "osD^vPX*"
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
    paths[1].write_text(json.dumps(as_dict(page), indent=2) + "\n", encoding="utf-8")
    return paths


def as_dict(page: Page) -> dict[str, Any]:
    """Everything on the page, as plain data; what is not a number is null."""
    return {"version": __version__, **_plain(dataclasses.asdict(page))}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_html(page: Page) -> str:
    """The whole page."""
    verdicts = table(("claim", "here", "why"), ((verdict.claim, verdict.answer, verdict.why) for verdict in page.verdicts))
    settings = "".join(f"<li>{escape(line)}</li>\n" for line in page.settings)
    body = [
        f"<h1>{escape(page.paper)}</h1>\n<p>{escape(page.citation)}</p>\n",
        f"<p class=faint>Made by nightfit {__version__} with <code>{escape(page.command)}</code>. Noise is seeded, errors are on rows in "
        "the clear: an experiment on public or made-up data, no release.</p>\n",
        f"<h2>Claims</h2>\n{verdicts}\n<h2>Settings</h2>\n<ul>\n{settings}</ul>\n",
        *(f"<h2>{escape(figure.title)}</h2>\n{_plot(figure)}\n{_numbers(figure)}\n" for figure in page.figures),
        *(f"<h2>{escape(shown.title)}</h2>\n{table(shown.header, shown.rows)}\n" for shown in page.tables),
        "<h2>A configuration</h2>\n<p>Every curve is a <code>refit.yaml</code> such as this one; printed constants replace its noise.</p>\n"
        f"<pre>{escape(yaml.safe_dump(page.configuration, sort_keys=False))}</pre>\n",
    ]
    return html_page(f"{escape(page.paper)}, reproduced", "".join(body))


def _plot(figure: Figure) -> str:
    drawn, axes = blank(7.6, 4.2)
    coloured = [curve for curve in figure.curves if curve.kind in ("method", "printed", "auto")]
    for curve in figure.curves:
        x, y = [point.x for point in curve.points], [max(point.mean, LEAST) for point in curve.points]
        axes.plot(x, y, label=curve.label, **_style(curve, coloured))
    if figure.logarithmic:
        axes.set_yscale("log")
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
    place = coloured.index(curve) % len(COLOURS)
    return {
        "color": COLOURS[place],
        "marker": MARKS[place],
        "markersize": 4,
        "linestyle": "-." if curve.kind == "printed" else "-",
        "linewidth": 2.2 if curve.kind == "auto" else 1.4,
    }


def _numbers(figure: Figure) -> str:
    places = sorted({point.x for curve in figure.curves for point in curve.points})
    shown = [places[k] for k in sorted({round(i * (len(places) - 1) / 7) for i in range(8)})]  # a path has hundreds

    def cell(curve: Curve, x: float) -> str:
        found = next((point for point in curve.points if point.x == x), None)
        return "" if found is None else f"{found.mean:.3g} ± {found.deviation:.2g}"

    header = (figure.over, *(f"{x:,.4g}" for x in shown))
    return table(header, ((curve.label, *(cell(curve, x) for x in shown)) for curve in figure.curves))
