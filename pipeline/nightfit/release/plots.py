"""Plots of a report as inline SVG: curves and points between two axes. Imports charts and the standard library.

Drawn by hand and not by matplotlib, as `charts` are: a night of many models draws two or three for each, and matplotlib took a third of
such a model's time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from nightfit.release.charts import nice

INK, FAINT, LINE, ACCENT = (f"var(--{name})" for name in ("ink", "faint", "line", "accent"))
WIDTH, TEXT, LETTER = 680, 12, 6.6  # of a plot, of letters, and of a usual letter's breadth, in units of the plot
ROW = 22  # height of a named row
PADDING = 0.04  # of the range, beyond the first and the last point
TOP, RIGHT, BOTTOM = 8, 12, 40
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A line through points.

    Parameters
    ----------
    points
        Of which those that are no numbers are left out.
    colour, width
        Of the line.
    dashed
        Whether it is drawn in dashes.
    """

    points: Sequence[Point]
    colour: str = ACCENT
    width: float = 1.5
    dashed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """A mark at each point: a filled circle, or an upright stroke."""

    points: Sequence[Point]
    colour: str = ACCENT
    shape: Literal["circle", "stroke"] = "circle"


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A direction of a plot.

    Parameters
    ----------
    label
        What lies along it, in words.
    logarithmic
        Whether equal distances are equal ratios; every number is positive then.
    names
        Of the places 0, 1, 2 ... from the top, in the place of numbers.
    """

    label: str = ""
    logarithmic: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scale:
    """From numbers to places: `low` lies at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def at(self, value: float) -> float:
        """start + (end - start) (v - low) / (high - low), of logarithms if the axis is logarithmic."""
        low, high, v = (math.log10(one) if self.logarithmic else one for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (v - low) / (high - low)

    def ticks(self) -> list[float]:
        """Where numbers stand: powers of ten where there are two, else multiples of a round number."""
        if self.logarithmic:
            powers = [10.0**k for k in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]
            if len(powers) > 1:
                return powers
        return [tick for tick in nice(self.low, self.high, 5) if self.low <= tick <= self.high]


def plot(drawn: Sequence[Curve | Marks], across: Axis, up: Axis, *, height: int = 250, width: int = WIDTH, grid: bool = False) -> str:
    """Curves and marks between two axes, as SVG that takes the page's colours and names nothing outside it.

    Parameters
    ----------
    drawn
        In the order in which they are drawn.
    across, up
        The axes.
    height, width
        Of the plot; one with named rows is as high as they need.
    grid
        Whether lines cross the plot at each number.
    """
    points = [point for one in drawn for point in _finite(one.points)]
    height = ROW * len(up.names) + TOP + BOTTOM if up.names else height
    ends = (-0.5, len(up.names) - 0.5) if up.names else _range([y for _, y in points], up)
    y = _Scale(low=ends[0], high=ends[1], start=height - BOTTOM, end=TOP, logarithmic=up.logarithmic)
    ticks = [(float(k), name) for k, name in enumerate(reversed(up.names))] if up.names else [(tick, f"{tick:.6g}") for tick in y.ticks()]
    left = 14 + (0 if up.names or not up.label else TEXT + 6) + LETTER * max((len(word) for _, word in ticks), default=0)
    ends = _range([x for x, _ in points], across)
    x = _Scale(low=ends[0], high=ends[1], start=left, end=width - RIGHT, logarithmic=across.logarithmic)
    inner = "".join(_drawn(one, x, y, len(up.names)) for one in drawn)
    named = " against ".join(filter(None, (up.label, across.label))) or "chart"
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(named)}" font-size="{TEXT}">'
        f"{_across(x, across, height, grid)}{_up(y, up, ticks, left, width, height, grid)}{inner}</svg>"
    )


def _finite(points: Sequence[Point]) -> list[Point]:
    return [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def _range(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    """The first and the last place of an axis, a little beyond its numbers."""
    if axis.logarithmic:
        low, high = math.log10(min(values, default=1.0)), math.log10(max(values, default=1.0))
        room = PADDING * (high - low) or 0.5
        return 10.0 ** (low - room), 10.0 ** (high + room)
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = PADDING * (high - low) or PADDING * abs(high) or 0.5
    return low - room, high + room


def _drawn(one: Curve | Marks, x: _Scale, y: _Scale, names: int) -> str:
    """A shape. Named rows are counted from the top."""
    places = [(x.at(a), y.at(names - 1 - b if names else b)) for a, b in _finite(one.points)]
    if isinstance(one, Curve):
        dashes = ' stroke-dasharray="5 4"' if one.dashed else ""
        through = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        return f'<polyline points="{through}" fill="none" stroke="{one.colour}" stroke-width="{one.width:g}"{dashes}/>'
    if one.shape == "circle":
        return "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{one.colour}"/>' for a, b in places)
    return "".join(f'<line x1="{a:.1f}" x2="{a:.1f}" y1="{b - 5:.1f}" y2="{b + 5:.1f}" stroke="{one.colour}"/>' for a, b in places)


def _line(x1: float, x2: float, y1: float, y2: float, width: float = 1.0) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{LINE}" stroke-width="{width:g}"/>'


def _across(x: _Scale, axis: Axis, height: int, grid: bool) -> str:
    """The axis below, its numbers and its label."""
    foot = height - BOTTOM
    ticks = "".join(
        f"{_line(x.at(tick), x.at(tick), TOP if grid else foot, foot + 4, 0.7)}"
        f'<text x="{x.at(tick):.1f}" y="{foot + 17}" text-anchor="middle" fill="{INK}">{tick:.6g}</text>'
        for tick in x.ticks()
    )
    label = f'<text x="{(x.start + x.end) / 2:.1f}" y="{height - 6}" text-anchor="middle" fill="{FAINT}">{escape(axis.label)}</text>'
    return _line(x.start, x.end, foot, foot) + ticks + label


def _up(y: _Scale, axis: Axis, ticks: Sequence[tuple[float, str]], left: float, width: int, height: int, grid: bool) -> str:
    """The axis at the left, its numbers or names, and its label."""
    end = width - RIGHT if grid else left
    words = "".join(
        f"{_line(left - 4, end, y.at(tick), y.at(tick), 0.7)}"
        f'<text x="{left - 8:.1f}" y="{y.at(tick) + 4:.1f}" text-anchor="end" fill="{INK}">{escape(word)}</text>'
        for tick, word in ticks
    )
    middle = (TOP + height - BOTTOM) / 2
    turned = f'<text transform="translate({TEXT},{middle:.1f}) rotate(-90)" text-anchor="middle" fill="{FAINT}">{escape(axis.label)}</text>'
    return _line(left, left, TOP, height - BOTTOM) + words + ("" if axis.names or not axis.label else turned)
