"""The trade-off between privacy and accuracy, from public facts: what each epsilon would buy. Imports plan, sheet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from nightfit.methods.auto.prediction import Prediction
from nightfit.methods.auto.procedure import Recipe
from nightfit.methods.auto.screening import Screened
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Specification
from nightfit.privacy.accounting import Cost

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """What an epsilon buys: the expected error of the automatic method, or the noise of a coefficient by another; and how many such
    refits the whole lifetime budget holds, if it is known.
    """

    epsilon: float
    prediction: Prediction | None
    noise: float | None
    refits: int | None

    @property
    def range(self) -> tuple[float, float] | None:
        if self.prediction is not None:
            return self.prediction.low, self.prediction.high
        return None if self.noise is None else (self.noise, self.noise)


def swept(said: Specification, units: int, limit: Cost | None) -> Iterator[Point]:
    """The plan at each epsilon, its own among them; an epsilon that cannot be planned is left out."""
    for epsilon in sorted({*EPSILONS, said.budget.epsilon}):
        try:
            plan = make(replace(said, budget=replace(said.budget, epsilon=epsilon)), units)
        except PlanError:
            continue
        cost = plan.cost
        yield Point(
            epsilon=epsilon,
            prediction=plan.procedure.prediction if isinstance(plan.procedure, Recipe | Screened) else None,
            noise=plan.procedure.coefficient_noise(),
            refits=None if limit is None or not cost.amount else limit.amount // cost.amount,
        )


def page(name: str, points: Sequence[Point], chosen: float) -> str:
    """The curve and its table, as HTML that loads and runs nothing."""
    from nightfit.release.html import ACCENT, FAINT, LINE, blank, document, svg, table

    drawn = [(point.epsilon, *point.range) for point in points if point.range is not None]
    figure, axes = blank(9, 3.6)
    if drawn:
        epsilons, low, high = zip(*drawn, strict=True)
        axes.fill_between(epsilons, low, high, color=ACCENT, alpha=0.25, linewidth=0)
        axes.plot(epsilons, [(a * b) ** 0.5 for a, b in zip(low, high, strict=True)], color=ACCENT)
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.axvline(chosen, color=FAINT, linestyle="--", linewidth=1)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_xlabel("epsilon of one refit")
    axes.set_ylabel(unit_of(points))
    rows = [tuple(cells(point)) for point in points]
    title = f"What epsilon buys: {escape(name)}"
    return document(
        title,
        f"<header><h1>{title}</h1></header>\n<p>From public facts alone: no record was read and nothing was charged. "
        f"The dashed line is the configuration's epsilon.</p>{svg(figure, axes)}{table(HEADER, rows)}",
    )


HEADER = ("epsilon", "expected error", "features must explain", "refits in all")


def cells(point: Point) -> Iterator[str]:
    """A row of the table."""
    yield f"{point.epsilon:g}"
    yield "unknown" if point.range is None else " to ".join(f"{edge:.2g}" for edge in dict.fromkeys(point.range))
    yield "" if point.prediction is None else f"{point.prediction.lost:.2%} of variance"
    yield "" if point.refits is None else f"{point.refits:,}"


def unit_of(points: Sequence[Point]) -> str:
    first = next((point.prediction for point in points if point.prediction is not None), None)
    return "noise per scaled coefficient" if first is None else f"expected error, {first.unit}"
