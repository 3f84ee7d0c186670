"""Kamath, Liu, Zhang (2021): error against records, epsilon and columns, beside theorems 4.7 and 4.8. Imports rates."""

import math
from pathlib import Path

from nightfit.methods.loop.theory.kamath2021 import MIN_TAU
from nightfit.privacy.accounting import UNIT, Currency, limit
from nightfit_flows.reproduce import rates
from nightfit_flows.reproduce.experiment import Page, Scale, Show, Verdict
from nightfit_flows.reproduce.fits import Named, configuration
from nightfit_flows.reproduce.tao2022 import settings

CITATION = "Kamath, Liu, Zhang (2021), Improved Rates for Differentially Private Stochastic Convex Optimization with Heavy-Tailed Data."
PRINTED = Named(
    name="alg. 3 as printed, tau = 60",
    method={"mean": "range_ball", "steps": 10, "bound": MIN_TAU * math.sqrt(8)},
    kind="printed",
)
CLAIMS = (
    rates.Claim(named=rates.by_theory("alg. 3 (range_ball), order 2", "range_ball", 2.0), theorem="Theorem 4.7", powers=(-0.5, -0.5, 1.0)),
    rates.Claim(named=rates.by_theory("ball, order 2", "ball", 2.0), theorem="Theorem 4.7", powers=(-0.5, -0.5, 1.0)),
    rates.Claim(named=rates.by_theory("ball, order 4", "ball", 4.0), theorem="Theorem 4.7", powers=(-0.75, -0.75, 1.25)),
    rates.Claim(named=rates.by_theory("ball, strongly convex", "ball", 2.0, strong=True), theorem="Theorem 4.8", powers=(-1.0, -1.0, 1.0)),
    rates.Claim(named=rates.by_theory("coordinate", "coordinate", 2.0), theorem="Appendix B", powers=(-0.5, -0.5, 0.75)),
)
DEFAULT = (Named(name="ball by default", method="ball"), Named(name="alg. 3 by default", method="range_ball"))


def _of_order(order: float) -> tuple[Named, ...]:
    return rates.by_theory("alg. 3 (range_ball)", "range_ball", order), rates.by_theory("ball", "ball", order)


def page(scale: Scale, data: Path | None, show: Show) -> Page:
    setting = rates.base(scale.of(64_000, 16_000), 4.1)
    figures, slopes = rates.figures(CLAIMS, (*DEFAULT, PRINTED), setting, scale, show)
    orders, of_orders = rates.over_orders(_of_order, (2.0, 3.0, 4.0), scale.of(64_000, 16_000), scale, show)
    rho = float(limit(setting.epsilon, setting.delta, Currency.GAUSSIAN).amount * UNIT) / 2
    strength = math.sqrt(rho) * setting.rows.rows / setting.rows.columns
    sixty, ours = figures[0].curve(PRINTED.name).last, figures[0].curve(DEFAULT[1].name).last
    return Page(
        paper="kamath2021",
        citation=CITATION,
        settings=settings(setting, "t(4.1) noise: it has moments of order 4", scale.of(8, 3)),
        figures=(*figures, orders),
        tables=(rates.table(slopes),),
        verdicts=(
            Verdict(
                claim="Algorithms 2 and 3 are rho-zCDP with the printed noise.",
                answer="holds",
                why="The sensitivities 8 tau sqrt(d) / (3 n_0) and sqrt(2) of the counts are right and tight; halves do not overlap.",
            ),
            Verdict(
                claim="Theorem 4.7's tau = (sqrt(rho) n / d)^(1 / k) is one that algorithm 3 accepts (tau >= 60).",
                answer="holds" if strength >= MIN_TAU**2 else "does not hold",
                why=f"sqrt(rho) n / d is {strength:,.0f} here, so tau is {math.sqrt(strength):.3g} for k = 2; 60 "
                f"needs {MIN_TAU**2:,}. With "
                f"tau = 60 the error is {sixty.mean:.3g}, by default {ours.mean:.3g}.",
            ),
            *rates.verdicts(slopes),
            of_orders,
        ),
        configuration=configuration(setting, CLAIMS[0].named),
        command="nightfit reproduce kamath2021" + (" --fast" if scale.fast else ""),
    )
