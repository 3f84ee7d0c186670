"""Tao, Wu, Cheng, Wang (2022): error against records, epsilon and columns at two moment orders, beside theorems 6 and 7. Imports rates."""

import math
from pathlib import Path

from nightfit.methods.loop.loop import GradientLoop
from nightfit_flows.reproduce import rates
from nightfit_flows.reproduce.experiment import Page, Scale, Show, Verdict
from nightfit_flows.reproduce.fits import Named, Setting, configuration, epsilon_of_rho, with_noise

CITATION = (
    "Tao, Wu, Cheng, Wang (2022), Private Stochastic Convex Optimization and Sparse Learning with Heavy-tailed Data Revisited, IJCAI."
)
STEPS = 50


def printed_multiplier(setting: Setting) -> float:
    """sqrt(2 ln(1.25 / delta)) / epsilon, of every step: in the strongly convex branch each has the whole epsilon, and line 8 gives it
    all records, not a part of its own.
    """
    return math.sqrt(2 * math.log(1.25 / setting.delta)) / setting.epsilon


def _printed(setting: Setting, loop: GradientLoop) -> GradientLoop:
    return with_noise(loop, [printed_multiplier(setting)] * loop.solver.steps)


PRINTED = Named(
    name="alg. 2 as printed, strongly convex",
    method={"mean": "threshold", "steps": STEPS, "bound": 10.0, "batch": "full"},
    kind="printed",
    adjust=_printed,
)
HEAVY, LIGHT = 1.5, 2.0
CLAIMS = (
    rates.Claim(named=rates.by_theory("threshold, order 2", "threshold", LIGHT), theorem="Theorem 6", powers=(-0.5, -0.5, 1.25)),
    rates.Claim(
        named=rates.by_theory("median of means, order 2", "median_of_means", LIGHT), theorem="Theorem 6", powers=(-0.5, -0.5, 1.25)
    ),
    # with moments of order 1 + v: (d^1.5 / (epsilon n))^(v / (1 + v)) times sqrt d
    rates.Claim(named=rates.by_theory("threshold, order 1.5", "threshold", HEAVY), theorem="Theorem 6", powers=(-1 / 3, -1 / 3, 1.0)),
    rates.Claim(
        named=rates.by_theory("median of means, strongly convex", "median_of_means", LIGHT, strong=True),
        theorem="Theorem 7",
        powers=(-1.0, -1.0, 1.5),
    ),
)
DEFAULT = (Named(name="threshold by default", method="threshold"), Named(name="median of means by default", method="median_of_means"))


def _of_order(order: float) -> tuple[Named, ...]:
    return rates.by_theory("threshold", "threshold", order), rates.by_theory("median of means", "median_of_means", order)


def page(scale: Scale, data: Path | None, show: Show) -> Page:
    setting = rates.base(scale.of(64_000, 16_000), 2.1)
    figures, slopes = rates.figures(CLAIMS, (*DEFAULT, PRINTED), setting, scale, show)
    orders, of_orders = rates.over_orders(_of_order, (1.25, 1.5, 1.75, 2.0), scale.of(64_000, 16_000), scale, show)
    truth = epsilon_of_rho(STEPS / (2 * printed_multiplier(setting) ** 2), setting.delta)
    best = {name: figures[0].curve(name).last.mean for name in (CLAIMS[0].named.name, CLAIMS[1].named.name)}
    return Page(
        paper="tao2022",
        citation=CITATION,
        settings=settings(setting, "t(2.1) noise: it has moments of order 2 and none of order 3", scale.of(8, 3)),
        figures=(*figures, orders),
        tables=(rates.table(slopes),),
        verdicts=(
            Verdict(
                claim="Algorithm 2 is (epsilon, delta) private in its strongly convex branch.",
                answer="does not hold",
                why=f"Line 8 reads all of X in each of T steps, and each step has the whole epsilon: with T = {STEPS} it is epsilon "
                f"{truth:.3g} for a nominal {setting.epsilon:g}. On disjoint parts it would hold; so it is done here.",
            ),
            Verdict(
                claim="Algorithm 3 computes a mean of each group.",
                answer="does not hold",
                why="Line 7 sums all records in every group (tests/privacy/test_printed_errors.py). Here a group sums its own.",
            ),
            *rates.verdicts(slopes),
            of_orders,
            Verdict(
                claim="The median of means improves on the mean of thresholded gradients.",
                answer="holds" if best[CLAIMS[1].named.name] < best[CLAIMS[0].named.name] else "does not hold",
                why="Relative errors by their theorems with the most records: "
                + ", ".join(f"{name} {error:.3g}" for name, error in best.items())
                + ". Bounded gradients need no median: its noise grows with the number of groups.",
            ),
        ),
        configuration=configuration(setting, CLAIMS[0].named),
        command="nightfit reproduce tao2022" + (" --fast" if scale.fast else ""),
    )


def settings(setting: Setting, noise: str, repeats: int) -> tuple[str, ...]:
    """What all theorems' experiments share."""
    return (
        f"{setting.rows.rows:,} rows of {setting.rows.columns} columns N(0, 1) at epsilon 1, unless they "
        f"vary; {noise}; slopes of norm one; "
        f"{repeats} repetitions; delta = 1 / (10 rows).",
        f"Stated as public facts: curvature {rates.CURVATURE['curvature']:g} of scaled columns, for strongly convex theorems "
        f"{rates.CURVATURE['strong_convexity']:g}; weights in a ball of radius {rates.RADIUS:g}; a "
        f"moment of the stated order of at most 1. "
        "Scales of columns are paid for.",
        "A theorem bounds the risk, the squared error, from above: it holds if the risk falls at least as steeply.",
        "Zero weights have the error 1.",
    )
