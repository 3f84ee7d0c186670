"""The papers' experiments: what printed noise is worth, how claims are judged, and the pages."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from nightfit.privacy.accounting import tight_epsilon
from nightfit.shards.synthetic import Synthetic
from nightfit_flows.reproduce import kamath2021, page, rates, tao2022, wang2020, xie2023
from nightfit_flows.reproduce.experiment import Curve, Figure, Page, Point, Table, Verdict, falls, judged
from nightfit_flows.reproduce.fits import (
    AUTO,
    Named,
    Setting,
    configuration,
    curve,
    epsilon_of_rho,
    not_private,
    of_direction,
    planned,
    relative,
    true_epsilon,
    zero,
)

ROWS = Synthetic(rows=4_000, columns=3, shards=1, task="linear", noise="student", noise_tail=3.0, noise_scale=0.3, seed=0)
SETTING = Setting(rows=ROWS, epsilon=2.0)


def test_the_noise_of_wang_et_al_is_less_private_than_it_says():
    """The ratio of what it costs to what it may is ln(1 / zeta) / ln(1 / (zeta T))."""
    setting = Setting(rows=replace(ROWS, rows=100_000), epsilon=1.0)
    _, z = wang2020.printed_noise(setting, wang2020.STEPS)
    rho = wang2020.STEPS / (2 * z**2)
    stated = (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2
    assert rho / stated == pytest.approx(math.log(1e3) / math.log(1e3 / wang2020.STEPS), rel=1e-9)
    assert epsilon_of_rho(rho, setting.delta) > 1.05


def test_the_noise_of_tao_et_al_in_the_strongly_convex_branch_is_that_of_every_step():
    setting = Setting(rows=replace(ROWS, rows=10_000), epsilon=1.0)
    z = tao2022.printed_multiplier(setting)
    assert epsilon_of_rho(50 / (2 * z**2), setting.delta) > 6


@pytest.mark.parametrize(("nominal", "low", "high"), [(0.5, 1.0, 1.6), (3.0, 8.0, 16.0)])
def test_the_noise_of_xie_et_al_is_less_private_than_it_says(nominal, low, high):
    setting = Setting(rows=replace(ROWS, rows=10_000), epsilon=nominal)
    plan = planned(setting, xie2023.PRINTED)
    steps = [event for event in plan.events if event.sampled]
    assert len(steps) == 5 * 36
    assert low < tight_epsilon(steps, setting.delta) < high
    assert true_epsilon(plan) >= tight_epsilon(steps, setting.delta)


@pytest.mark.parametrize(("named", "epsilon"), [(AUTO, None), (Named(name="clipped", method="clipped"), None), (wang2020.PRINTED, 1.0)])
def test_a_curve_has_the_errors_of_fits_and_a_printed_one_its_true_epsilon(named, epsilon):
    made = curve(named, [(1.0, SETTING)], 2, relative, lambda _: None)
    assert made.last.mean < 0.6
    assert (made.epsilon is None) == (epsilon is None)
    plan = planned(SETTING, named)
    assert true_epsilon(plan) > SETTING.epsilon if epsilon else true_epsilon(plan) <= SETTING.epsilon


def test_the_baselines_are_what_they_say():
    assert not_private(rates.plain, [(1.0, SETTING)], 2, relative).last.mean < 0.05
    assert zero([(1.0, SETTING)]).last.mean == relative(np.zeros(3), np.ones(3)) == 1.0
    assert of_direction(np.array([0.0, 2.0]), np.array([0.0, 1.0])) == 0.0
    assert of_direction(np.zeros(2), np.ones(2)) == 1.0
    plan = planned(SETTING, wang2020.RGD)
    assert true_epsilon(plan) is None


def points(*means):
    return Curve(name="c", kind="method", points=tuple(Point(x=float(x), mean=mean, deviation=0.01) for x, mean in enumerate(means, 1)))


def test_claims_are_judged_by_every_place_in_which_they_were_tested():
    assert judged("c", [("a", True), ("b", True)]).answer == "holds"
    assert judged("c", [("a", True), ("b", False)]) == Verdict(claim="c", answer="holds in part", why="Not for b.")
    assert judged("c", [("a", False)]).answer == "does not hold"
    assert falls(points(3.0, 2.0, 2.001, 1.0))
    assert not falls(points(3.0, 2.0, 2.2))


def test_a_slope_is_that_of_the_log_risk():
    measured, error = rates.slope(points(1.0, 2**-0.5, 3**-0.5))
    assert measured == pytest.approx(-1.0)
    assert error == pytest.approx(0.0, abs=1e-9)
    assert rates.steep(-1.0, -1.1, 0.0)
    assert not rates.steep(-1.0, -0.9, 0.04)


def test_a_page_is_self_contained_and_has_every_number(tmp_path):
    made = Page(
        paper="tao2022",
        citation="Somebody <1>",
        settings=("a",),
        figures=(Figure(title="f", over="rows", error="e", curves=(points(0.5, 0.25), zero([(1.0, SETTING), (2.0, SETTING)]))),),
        tables=(Table(title="t", header=("a", "b"), rows=(("1", "2"),)),),
        verdicts=(judged("c", [("a", False)]),),
        configuration=configuration(SETTING, AUTO),
        command="nightfit reproduce tao2022",
    )
    html, numbers = page.write(made, tmp_path)
    text, held = html.read_text(), json.loads(numbers.read_text())
    assert not re.search(r'(src|href)="?https?:|url\(https?:|@import', text)
    assert "Somebody &lt;1&gt;" in text
    assert "<svg" in text
    assert held["figures"][0]["curves"][0]["points"][1]["mean"] == 0.25
    assert held["verdicts"] == [{"claim": "c", "answer": "does not hold", "why": "Not for a."}]
    assert "default_bounds" not in text


@pytest.mark.parametrize("paper", [tao2022, kamath2021])
def test_every_theorem_has_a_verdict_of_its_own(paper):
    stated = [(claim, "rows", claim.powers[0], claim.powers[0], 0.1) for claim in paper.CLAIMS]
    missed = [(paper.CLAIMS[0], "epsilon", -1.0, 0.0, 0.1)]
    found = rates.verdicts(stated + missed)
    assert len({verdict.claim for verdict in found}) == len(found) == len(paper.CLAIMS)
    assert [verdict.answer for verdict in found] == ["holds in part"] + ["holds"] * (len(found) - 1)
