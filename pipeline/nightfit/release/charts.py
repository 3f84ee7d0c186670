"""Charts over time as inline SVG: paid numbers with their intervals, and budgets. Imports the standard library only.

Drawn by hand and not by matplotlib: a page has dozens of them, and each must be small, follow the page's colours and be read aloud.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Literal

Mark = Literal["plain", "better", "worse", "current"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A number at a time.

    Parameters
    ----------
    time
        In ISO format.
    value
        The number.
    low, high
        Its interval; the value itself where there is none.
    words
        What is said of it when it is pointed at.
    mark
        `better` is a filled circle, `worse` a cross, `current` a filled diamond, `plain` a hollow circle: shapes tell them apart, too.
    """

    time: str
    value: float
    low: float
    high: float
    words: str
    mark: Mark = "plain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The size of a chart and its margins, in units of its own; `text` is the size of letters, `ticks` how many lines are labelled."""

    width: int
    height: int
    left: int
    bottom: int
    text: int
    ticks: int
    dates: int
    top: int = 10
    right: int = 12


LARGE = Frame(width=760, height=250, left=56, bottom=28, text=13, ticks=5, dates=5)
SMALL = Frame(width=250, height=110, left=46, bottom=20, text=11, ticks=3, dates=2)


def over_time(points: Sequence[Point], label: str, *, frame: Frame = LARGE, events: Sequence[tuple[str, str, str]] = ()) -> str:
    """Numbers with their intervals over time, and dashed lines where something happened.

    Parameters
    ----------
    points
        Oldest first; at least one.
    label
        What is drawn, for those who hear the page.
    frame
        LARGE or SMALL.
    events
        Times, what happened then in a word, and in a sentence.
    """
    axes = _Axes(
        frame,
        [_seconds(point.time) for point in points],
        [edge for point in points for edge in (point.low, point.value, point.high)],
    )
    lines = "".join(_event(axes, time, kind, words) for time, kind, words in events if axes.inside(_seconds(time)))
    path = " ".join(f"{axes.x(_seconds(point.time)):.1f},{axes.y(point.value):.1f}" for point in points)
    drawn = f'<polyline points="{path}" fill="none" stroke="var(--line)" stroke-width="1.5"/>' if len(points) > 1 else ""
    return _svg(axes, f"{label}: {points[-1].words}", lines + drawn + "".join(_point(axes, point) for point in points))


def burn_down(steps: Sequence[tuple[str, float]], until: str | None, label: str, *, frame: Frame = LARGE) -> str:
    """What is left of a budget after each charge, as a staircase, and where it leads.

    Parameters
    ----------
    steps
        Times, and shares that were left after them; at least one.
    until
        The projected last night; it is drawn if it is no farther than four times as long as the nights so far took.
    label
        What is drawn, for those who hear the page.
    frame
        LARGE or SMALL.
    """
    times = [_seconds(time) for time, _ in steps]
    end = None if until is None else _seconds(until)
    near = end is not None and times[-1] <= end <= times[-1] + 4 * max(times[-1] - times[0], 86400.0)
    axes = _Axes(frame, [*times, *([end] if near and end is not None else [])], [0.0, 1.0], share=True)
    path = f"M{axes.x(times[0]):.1f} {axes.y(1.0):.1f}"
    path += "".join(f"H{axes.x(time):.1f}V{axes.y(left):.1f}" for time, (_, left) in zip(times, steps, strict=True))
    drawn = f'<path d="{path}" fill="none" stroke="var(--accent)" stroke-width="2"/>'
    if near and end is not None:
        drawn += (
            f'<line x1="{axes.x(times[-1]):.1f}" y1="{axes.y(steps[-1][1]):.1f}" x2="{axes.x(end):.1f}" y2="{axes.y(0.0):.1f}" '
            f'stroke="var(--faint)" stroke-dasharray="5 4"><title>at this pace until {escape(until or "")[:10]}</title></line>'
        )
    return _svg(axes, f"{label}: {steps[-1][1]:.1%} left", drawn)


class _Axes:
    """From times and values to places in the chart."""

    def __init__(self, frame: Frame, times: Sequence[float], values: Sequence[float], *, share: bool = False) -> None:
        self.frame, self.share = frame, share
        self.first, self.last = min(times), max(times)
        if self.first == self.last:
            self.first, self.last = self.first - 43200, self.last + 43200  # half a day to each side of a single night
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        room = 0.0 if share else 0.06 * (high - low) or 0.06 * abs(high) or 1.0
        self.low, self.high = low - room, high + room

    def inside(self, time: float) -> bool:
        return self.first <= time <= self.last

    def x(self, time: float) -> float:
        inner = self.frame.width - self.frame.left - self.frame.right
        return self.frame.left + inner * (time - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        inner = self.frame.height - self.frame.top - self.frame.bottom
        bounded = min(max(value, self.low), self.high)
        return self.frame.top + inner * (self.high - bounded) / (self.high - self.low)

    def grid(self) -> str:
        """Labelled lines across, and dates below."""
        frame, size = self.frame, f'font-size="{self.frame.text}" fill="var(--faint)"'
        ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if self.share else nice(self.low, self.high, frame.ticks)
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        written = [f"{tick:.0%}" if self.share else f"{tick:,.{digits}f}" if digits <= 4 else f"{tick:.2g}" for tick in ticks]
        across = "".join(
            f'<line x1="{frame.left}" x2="{frame.width - frame.right}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}" '
            f'stroke="var(--line)" stroke-width=".7"/>'
            f'<text x="{frame.left - 6}" y="{self.y(tick) + 4:.1f}" text-anchor="end" {size}>{word}</text>'
            for tick, word in zip(ticks, written, strict=True)
        )
        return across + self._dates(size)

    def _dates(self, size: str) -> str:
        count = self.frame.dates
        places = [self.first + (self.last - self.first) * k / (count - 1) for k in range(count)]
        days = [datetime.fromtimestamp(place, UTC).date().isoformat() for place in places]
        anchors = ["start", *["middle"] * (count - 2), "end"]
        return "".join(
            f'<text x="{self.x(place):.1f}" y="{self.frame.height - 6}" text-anchor="{anchor}" {size}>{day}</text>'
            for k, (place, day, anchor) in enumerate(zip(places, days, anchors, strict=True))
            if day not in days[:k]
        )


def nice(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between low and high, of the largest step that has `most` - 1 of them."""
    power = 10.0 ** math.floor(math.log10(high - low))
    for step in (factor * power for factor in (5, 2, 1, 0.5, 0.2, 0.1)):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first + 1 >= most - 1:
            break
    return [step * k for k in range(first, last + 1)]


def _svg(axes: _Axes, label: str, inner: str) -> str:
    size = f"{axes.frame.width} {axes.frame.height}"
    return f'<svg viewBox="0 0 {size}" role="img" aria-label="{escape(label)}">{axes.grid()}{inner}</svg>'


def _event(axes: _Axes, time: str, kind: str, words: str) -> str:
    x = axes.x(_seconds(time))
    bottom = axes.frame.height - axes.frame.bottom
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{axes.frame.top}" y2="{bottom}" stroke="var(--bad)" stroke-dasharray="3 4">'
        f"<title>{escape(time[:10])}: {escape(words)}</title></line>"
        f'<text x="{x + 4:.1f}" y="{axes.frame.top + 8}" font-size="{axes.frame.text - 2}" fill="var(--bad)">{escape(kind)}</text>'
    )


def _point(axes: _Axes, point: Point) -> str:
    x, y = axes.x(_seconds(point.time)), axes.y(point.value)
    low, high = axes.y(point.low), axes.y(point.high)
    bar = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="var(--faint)" stroke-width="1.4"/>'
    size = 3 if axes.frame is SMALL else 4
    shapes = {
        "plain": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="var(--paper)" stroke="var(--accent)" stroke-width="1.6"/>',
        "better": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="var(--accent)"/>',
        "current": f'<path d="M{x:.1f} {y - size - 2:.1f}l{size + 2} {size + 2}l-{size + 2} {size + 2}l-{size + 2} -{size + 2}z" '
        'fill="var(--good)"/>',
        "worse": f'<path d="M{x - size:.1f} {y - size:.1f}l{2 * size} {2 * size}m0 -{2 * size}l-{2 * size} {2 * size}" fill="none" '
        'stroke="var(--bad)" stroke-width="2.2"/>',
    }
    return f"<g>{bar}{shapes[point.mark]}<title>{escape(point.time[:10])}: {escape(point.words)}</title></g>"


def _seconds(time: str) -> float:
    read = datetime.fromisoformat(time)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
