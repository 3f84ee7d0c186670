"""How errors fall with records, epsilon and fewer columns, beside the exponents of theorems. Imports fits and below."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from nightfit.shards.synthetic import Synthetic
from nightfit.types import Array
from nightfit_flows.reproduce.experiment import Curve, Figure, Point, Scale, Show, Table, Verdict, falls, judged
from nightfit_flows.reproduce.fits import AUTO, Named, Setting, curve, level, not_private, relative, zero

CURVATURE = {"curvature": 0.4, "strong_convexity": 0.35}  # of N(0, 1) columns scaled to their 0.9 quantile: 1 / 1.645^2 = 0.37
DIAMETER = 4.0  # twice the norm of the slopes in these columns, 1.645, and a little more
RADIUS = DIAMETER / 2


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A theorem's bound on the excess risk, as powers of records, epsilon and columns; logarithms are left out."""

    named: Named
    theorem: str
    powers: tuple[float, float, float]


def by_theory(name: str, mean: str, order: float, strong: bool = False, **more: Any) -> Named:
    """A method by its theorem, with what it may assume stated as public facts."""
    return Named(
        name=name,
        method={"mean": mean, "schedule": "theory", "moment": {"order": order, "bound": 1.0}, "diameter": DIAMETER, **more},
        model={} if strong else {"strong_convexity": None},
    )


def base(rows: int, tail: float) -> Setting:
    """Linear rows with t(tail) noise, and what is publicly known of them."""
    made = Synthetic(rows=rows, columns=8, shards=1, task="linear", noise="student", noise_tail=tail, noise_scale=0.5, seed=0)
    return Setting(rows=made, model={"penalty": {"l2_ball": RADIUS}, "intercept": False, **CURVATURE})


def sweeps(setting: Setting, scale: Scale) -> dict[str, list[tuple[float, Setting]]]:
    """The settings in which one quantity varies."""
    n = setting.rows.rows
    return {
        "rows": [(float(k), replace(setting, rows=replace(setting.rows, rows=k))) for k in (n // 8, n // 4, n // 2, n)],
        "epsilon": [(value, replace(setting, epsilon=value)) for value in (0.125, 0.25, 0.5, 1.0)],
        "columns": [(float(d), replace(setting, rows=replace(setting.rows, columns=d))) for d in scale.of((4, 8, 16, 32), (4, 8, 16))],
    }


def over_orders(
    methods: Callable[[float], Sequence[Named]], orders: Sequence[float], rows: int, scale: Scale, show: Show
) -> tuple[Figure, Verdict]:
    """Error over the order k of the moment that exists and that the theorem may assume: the noise is t(k + 0.1)."""
    repeats = scale.of(8, 3)
    made: dict[str, list[tuple[Named, Point]]] = {}
    for order in orders:
        setting = base(rows, order + 0.1)
        for named in (*methods(order), AUTO):
            found = curve(named, [(order, setting)], repeats, relative, show)
            made.setdefault(named.name, []).append((named, found.last))
        best = not_private(plain, [(order, setting)], repeats, relative)
        made.setdefault(best.name, []).append((Named(name=best.name, method="", kind="not private"), best.last))
    curves = [Curve(name=name, kind=points[0][0].kind, points=tuple(point for _, point in points)) for name, points in made.items()]
    own = [found for found in curves if found.kind == "method"]
    figure = Figure(
        title="Error over the order of the moment",
        over="order k",
        error="relative error of slopes",
        curves=(*curves, level("zero", "zero", list(orders), [1.0])),
        about=f"{rows:,} rows of 8 columns at epsilon 1; t(k + 0.1) noise, of which the theorem may assume a moment of order k.",
    )
    ends = ", ".join(f"{found.name} {found.points[0].mean:.2g} and {found.last.mean:.2g}" for found in own)
    return figure, judged(
        "Higher moments give smaller errors: the exponent of n is larger.",
        [(found.name, falls(found)) for found in own],
        f"Errors at the least and the largest order: {ends}.",
    )


def plain(X: Array, y: Array) -> Array:
    fitted: Array = LinearRegression(fit_intercept=False).fit(X, y).coef_
    return fitted


def figures(
    claims: Sequence[Claim], others: Sequence[Named], setting: Setting, scale: Scale, show: Show
) -> tuple[list[Figure], list[tuple[Claim, str, float, float, float]]]:
    """A figure for each quantity, and the measured slope of the log risk with its standard error beside each stated power."""
    repeats, shown, slopes = scale.of(8, 3), [], []
    for place, (over, settings) in enumerate(sweeps(setting, scale).items()):
        curves = [curve(claim.named, settings, repeats, relative, show) for claim in claims]
        for claim, found in zip(claims, curves, strict=True):
            slopes.append((claim, over, claim.powers[place], *slope(found)))
        curves += [curve(named, settings, repeats, relative, show) for named in (*others, AUTO)]
        curves += [not_private(plain, settings, repeats, relative), zero(settings)]
        shown.append(Figure(title=f"Error over {over}", over=over, error="relative error of slopes", curves=tuple(curves)))
    return shown, slopes


def slope(found: Curve) -> tuple[float, float]:
    """Least squares of the log risk, twice the log error, over the log of what varies; the error of a point is that of its mean."""
    x, y = np.log([point.x for point in found.points]), 2 * np.log([max(point.mean, 1e-9) for point in found.points])
    x = x - x.mean()
    measured = float(x @ y / (x @ x))
    left = y - y.mean() - measured * x
    return measured, math.sqrt(float(left @ left) / max(1, len(x) - 2) / float(x @ x))


def table(slopes: Sequence[tuple[Claim, str, float, float, float]]) -> Table:
    return Table(
        title="Slopes of the log risk",
        header=("method", "theorem", "over", "stated", "measured", "s.e.", "as steep, within two s.e."),
        rows=tuple(
            (
                c.named.name,
                c.theorem,
                over,
                f"{power:.2f}",
                f"{measured:.2f}",
                f"{error:.2f}",
                "yes" if steep(power, measured, error) else "no",
            )
            for c, over, power, measured, error in slopes
        ),
    )


def steep(power: float, measured: float, error: float) -> bool:
    """Whether the risk changes at least as steeply as stated over records and epsilon, and grows no more steeply over columns."""
    return measured <= power + 2 * error


def verdicts(slopes: Sequence[tuple[Claim, str, float, float, float]]) -> list[Verdict]:
    """One for each theorem."""
    found = []
    for name, claim in {claim.named.name: claim for claim, *_ in slopes}.items():
        own = [(over, power, measured, error) for c, over, power, measured, error in slopes if c.named.name == name]
        missed = [
            f"{over} ({measured:.2f} +- {error:.2f}, stated {power:.2f})"
            for over, power, measured, error in own
            if not steep(power, measured, error)
        ]
        found.append(
            Verdict(
                claim=f"{claim.theorem}, {name}: the risk falls as stated with records and epsilon and grows no faster with columns.",
                answer="holds" if not missed else "does not hold" if len(missed) == len(own) else "holds in part",
                why=(f"The slope of the log risk is not as steep over {', '.join(missed)}." if missed else "All three slopes are as steep.")
                + " Compared within two standard errors; a theorem bounds from above, and constants may hide its slope at these sizes.",
            )
        )
    return found
