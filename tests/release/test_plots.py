"""Plots of reports: places of numbers, ticks, and nothing that a page may not hold."""

import math
import re
import xml.etree.ElementTree as ET

import pytest

from nightfit.release.plots import Axis, Curve, Marks, plot

pytestmark = pytest.mark.unit


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)


def circles(drawn: str) -> list[tuple[float, float]]:
    return [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in parsed(drawn).iter("circle")]


def words(drawn: str) -> list[str]:
    return [str(one.text) for one in parsed(drawn).iter("text")]


def test_equal_steps_lie_at_equal_distances_and_larger_numbers_to_the_right_and_above() -> None:
    at = circles(plot([Marks(points=[(0.0, 0.0), (1.0, 10.0), (2.0, 20.0)])], Axis(label="query"), Axis(label="coefficient")))
    (x0, y0), (x1, y1), (x2, y2) = at
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert x0 < x1
    assert y0 > y1
    drawn = plot([Marks(points=[(0.1, 1.0), (1.0, 1.0), (10.0, 1.0)])], Axis(logarithmic=True), Axis())
    (x0, _), (x1, _), (x2, _) = circles(drawn)
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert {"0.1", "1", "10"} <= set(words(drawn))


def test_named_rows_are_counted_from_the_top() -> None:
    drawn = plot([Marks(points=[(1.0, 0), (2.0, 1), (3.0, 2)])], Axis(label="effect"), Axis(names=("first", "a < b", "last")))
    heights = [y for _, y in circles(drawn)]
    assert heights == sorted(heights)
    texts = {one.text: float(one.attrib["y"]) for one in parsed(drawn).iter("text")}
    assert [texts[name] for name in ("first", "a < b", "last")] == pytest.approx([height + 4 for height in heights], abs=0.11)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(3.0, 7.0)],
        [(0.0, 0.0)],
        [(math.nan, 1.0), (1.0, math.inf), (2.0, 3.0)],
        [(1e300, -1e300), (-1e300, 1e300)],
        [(1e-300, 5e-324)],
    ],
    ids=["none", "one", "zero", "some no numbers", "huge", "tiny"],
)
def test_whatever_was_released_can_be_drawn(points: list[tuple[float, float]]) -> None:
    drawn = plot([Curve(points=points), Marks(points=points, shape="stroke")], Axis(label="x"), Axis(label="y"))
    assert "nan" not in drawn
    assert not re.search(r"\binf\b", drawn)
    parsed(drawn)


def test_a_plot_is_read_aloud_and_takes_the_colours_of_its_page() -> None:
    drawn = plot([Curve(points=[(0, 0), (1, 1)], dashed=True)], Axis(label='a "quoted" & <b>'), Axis(label="share"), grid=True)
    assert parsed(drawn).attrib["aria-label"] == 'share against a "quoted" & <b>'
    assert "stroke-dasharray" in drawn
    assert set(re.findall(r'(?:stroke|fill)="([^"]*)"', drawn)) <= {
        "none",
        *(f"var(--{name})" for name in ("ink", "faint", "line", "accent")),
    }
