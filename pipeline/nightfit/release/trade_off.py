"""The trade-off between privacy and accuracy as a page and a table. Imports planning, plots and html."""

from collections.abc import Iterator, Sequence
from html import escape

from nightfit.planning.trade_off import TradeOff
from nightfit.release.html import html_page, table
from nightfit.release.plots import FAINT, Axis, Curve, plot


def page(name: str, points: Sequence[TradeOff], chosen: float) -> str:
    """The curve and its table, as HTML that loads and runs nothing.

    Parameters
    ----------
    name
        Of the model.
    points
        What each epsilon buys.
    chosen
        The configuration's epsilon.
    """
    drawn = [(point.epsilon, point.expected) for point in points if point.expected is not None]
    noise = [error for _, error in drawn] or [1.0]
    shown = plot(
        [Curve(points=drawn), Curve(points=[(chosen, min(noise)), (chosen, max(noise))], colour=FAINT, width=1, dashed=True)],
        Axis(label="epsilon of one refit", logarithmic=True),
        Axis(label=unit_of(points), logarithmic=True),
        grid=True,
    )
    rows = [tuple(cells(point)) for point in points]
    title = f"What epsilon buys: {escape(name)}"
    return html_page(
        title,
        f"<header><h1>{title}</h1></header>\n<p>From public facts alone: no record was read and nothing was charged. "
        f"The dashed line is the configuration's epsilon.</p>{shown}{table(HEADER, rows)}",
    )


HEADER = ("epsilon", "expected noise", "as large as effects of", "refits in all")


def cells(point: TradeOff) -> Iterator[str]:
    """A row of the table."""
    yield f"{point.epsilon:g}"
    yield "unknown" if point.expected is None else f"{point.expected:.2g}"
    yield "" if point.prediction is None else f"{point.prediction.lost:.2%} of variance"
    yield "" if point.refits is None else f"{point.refits:,}"


def unit_of(points: Sequence[TradeOff]) -> str:
    """In which the expected noise is measured."""
    first = next((point.prediction for point in points if point.prediction is not None), None)
    return "noise per scaled coefficient" if first is None else f"expected noise, {first.unit}"
