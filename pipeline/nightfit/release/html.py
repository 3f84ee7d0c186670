"""One self-contained page: its style, tables and plots are inside, and its policy forbids the rest. Imports matplotlib."""

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from nightfit.extras import needs

# matplotlib knows no CSS variables: these colours, which nothing else uses, are replaced in the SVG
THEMED = {"#010203": "var(--ink)", "#010204": "var(--faint)", "#010205": "var(--line)", "#010206": "var(--accent)"}
INK, FAINT, LINE, ACCENT = THEMED
SETTINGS = {"svg.hashsalt": "nightfit", "svg.fonttype": "none", "font.family": ["DejaVu Sans"], "font.size": 10}
_NUMBER, _TEXT = " class=n", " class=t"
LONG = 30  # characters from which the column of a cell keeps a width: squeezed between numbers, a sentence would stand one word a line
_ONE = r"[-+]?[\d.,]+(e[-+]?\d+)?%?"
NUMERIC = re.compile(rf"({_ONE}( to {_ONE}| \({_ONE} to {_ONE}\))?)?")  # 0.41, 12%, 0.38 to 0.44, 0.41 (0.38 to 0.44), or nothing
# what matplotlib writes and a page does not need: families that the page's style replaces, turns by nothing, thousandths of a point
LONG_WINDED = (
    (re.compile(r" ?font-family: [^;\"]*;?"), ""),
    (re.compile(r' transform="rotate\(-0 [^)]*\)"'), ""),
    (re.compile(r"(\d\.\d\d)\d+"), r"\1"),
    (re.compile(r"\s*\n\s*"), " "),
)
STYLE = Path(__file__).with_name("report.css").read_text()


def html_page(title: str, body: str, script: str = "") -> str:
    """A whole page from a title and a body, both HTML, and at most one script of ours.

    Its policy allows no other script: the page names the digest of this one.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"; script-src 'sha256-{digest}'" if script else ""
    told = f"<script>{script}</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{allowed}\">\n"
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n{told}</body>\n</html>\n"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of escaped cells."""
    return linked_table(header, ((row, {}) for row in rows))


def linked_table(
    header: Sequence[str], rows: Iterable[tuple[Sequence[str], Mapping[int, str]]], marks: Sequence[str] = (), name: str = "table"
) -> str:
    """A table of escaped cells, some of which lead elsewhere.

    Parameters
    ----------
    header
        Of the columns. A column of numbers stands at its right edge.
    rows
        Each is its cells, and the addresses of those that lead elsewhere.
    marks
        The class of each row; none by default.
    name
        What it is, for those who hear the page and reach it by the keyboard to scroll it.
    """
    listed = list(rows)
    columns = [[row[k] for row, _ in listed] for k in range(len(header))]
    numbers = [k > 0 and any(column) and all(map(NUMERIC.fullmatch, column)) for k, column in enumerate(columns)]
    kinds = [_NUMBER if number else _TEXT * _is_long(column) for number, column in zip(numbers, columns, strict=True)]
    head = "".join(f"<th scope=col{kind}>{escape(cell)}</th>" for cell, kind in zip(header, kinds, strict=True))
    body = "".join(
        f"<tr{f' class={mark}' if mark else ''}>" + "".join(_cell(cell, links.get(k), kinds[k]) for k, cell in enumerate(row)) + "</tr>\n"
        for (row, links), mark in zip(listed, marks or [""] * len(listed), strict=True)
    )
    return (
        f'<div class="wide" tabindex=0 role=region aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


def _is_long(column: Sequence[str]) -> bool:
    return any(len(cell) >= LONG for cell in column)


def _cell(text: str, link: str | None, kind: str) -> str:
    return f"<td{kind}>" + (escape(text) if link is None else f'<a href="{escape(link)}">{escape(text)}</a>') + "</td>"


def short(text: str, most: int = 28) -> str:
    """Text cut to `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def blank(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure of this size in inches, and its axes; matplotlib is imported here, because most commands draw nothing."""
    needs("a plot", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def svg(figure: Any, axes: Any) -> str:
    """The figure as inline SVG that takes the page's colours and names nothing outside it."""
    import matplotlib

    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.tick_params(color=LINE, labelcolor=INK)
    axes.xaxis.label.set_color(FAINT)
    axes.yaxis.label.set_color(FAINT)
    axes.patch.set_visible(False)
    drawn = io.StringIO()
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the text stays text: the reader's fonts have it
        figure.savefig(drawn, format="svg", facecolor="none", metadata={"Date": None})
    text = drawn.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"| id="[a-zA-Z2.]+_\d+"', "", text)
    for colour, themed in THEMED.items():
        text = text.replace(colour, themed)
    for long, short_form in LONG_WINDED:
        text = long.sub(short_form, text)
    named = " against ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel()))) or "chart"
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(named)}" ', 1)
