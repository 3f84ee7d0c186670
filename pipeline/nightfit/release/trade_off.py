"""The trade-off between privacy and accuracy as a page and a table. Imports planning and html."""

from collections.abc import Iterator, Sequence
from html import escape

from nightfit.planning.trade_off import TradeOff
from nightfit.release.html import ACCENT, FAINT, LINE, blank, html_page, svg, table


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
    figure, axes = blank(9, 3.6)
    if drawn:
        axes.plot(*zip(*drawn, strict=True), color=ACCENT)
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.axvline(chosen, color=FAINT, linestyle="--", linewidth=1)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_xlabel("epsilon of one refit")
    axes.set_ylabel(unit_of(points))
    rows = [tuple(cells(point)) for point in points]
    title = f"What epsilon buys: {escape(name)}"
    return html_page(
        title,
        f"<header><h1>{title}</h1></header>\n<p>From public facts alone: no record was read and nothing was charged. "
        f"The dashed line is the configuration's epsilon.</p>{svg(figure, axes)}{table(HEADER, rows)}",
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
