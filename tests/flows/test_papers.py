"""The papers' experiments: what printed noise is worth, how claims are judged, and the pages."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.privacy.accounting import tight_epsilon
from nightfit.shards.synthetic import Synthetic
from nightfit.types import NightfitError
from nightfit_flows.reproduce import adult, blogfeedback, kamath2021, page, rates, tao2022, wang2020, xie2023
from nightfit_flows.reproduce.experiment import Curve, Figure, Page, Point, Scale, Table, Verdict, falls, judged
from nightfit_flows.reproduce.fits import (
    AUTO,
    Named,
    Setting,
    configuration,
    curve,
    descent,
    drawn,
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
    assert (made.epsilons == ()) == (epsilon is None)
    plan = planned(SETTING, named)
    assert true_epsilon(plan) > SETTING.epsilon if epsilon else true_epsilon(plan) <= SETTING.epsilon
    assert epsilon is None or f"{true_epsilon(plan):.2g}" in made.label


def test_a_descent_goes_from_zero_to_what_is_released():
    X, y, truth = drawn(ROWS, 0)
    made = descent(Named(name="clipped", method="clipped"), SETTING, 2, lambda _: (X, y), lambda w, b, seed: relative(w, truth))
    released = curve(Named(name="clipped", method="clipped"), [(1.0, SETTING)], 1, relative, lambda _: None)
    assert made.points[0].mean == 1.0
    assert made.last.mean == pytest.approx(released.last.mean, abs=0.1)
    assert len(made.points) <= 21
    assert [point.x for point in made.points] == sorted({point.x for point in made.points})


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
    assert judged("c", [("a", True), ("b", False)]) == Verdict(claim="c", answer="holds in part", why="In 1 of 2 places; not in: b.")
    assert judged("c", [("a", False)], "So.") == Verdict(claim="c", answer="does not hold", why="In 0 of 1 places. So.")
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
    assert "does\u00a0not\u00a0hold" in text
    assert "<svg" in text
    assert held["figures"][0]["curves"][0]["points"][1]["mean"] == 0.25
    assert held["verdicts"] == [{"claim": "c", "answer": "does not hold", "why": "In 0 of 1 places."}]
    assert "default_bounds" not in text
    assert page.read(numbers) == made
    assert page.as_html(page.read(numbers)) == text


@pytest.mark.parametrize("numbers", sorted((Path(__file__).parents[2] / "docs" / "papers").glob("*.json")), ids=lambda path: path.stem)
def test_the_pages_of_the_documentation_can_be_drawn_from_their_numbers(numbers):
    """docs/hooks/papers.py draws them; every figure has a line for zero and one without privacy, and every claim a reason."""
    made = page.read(numbers)
    assert made.paper == numbers.stem
    for figure in made.figures:
        assert {"zero", "not private"} <= {drawn.kind for drawn in figure.curves}
    assert all(verdict.why for verdict in made.verdicts)
    assert page.as_dict(made)["figures"] == json.loads(numbers.read_text())["figures"]


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("ground", ["#ffffff", "#12161c"])
def test_every_curve_can_be_seen_on_a_light_and_on_a_dark_page(ground):
    for colour in page.COLOURS:
        low, high = sorted((luminance(colour), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3
    assert len(page.COLOURS) == len(page.MARKS) == len(set(page.MARKS))


def test_real_data_are_drawn_over_iterations(tmp_path):
    """BlogFeedback and Adult in small: the columns that the readers ask for."""
    X, y, _ = drawn(replace(ROWS, rows=6_000), 0)
    columns = {f"x{j}": X[:, j] for j in range(3)}
    pq.write_table(pa.table({**columns, blogfeedback.TARGET: y, "_split": np.arange(6_000) // 5_900}), tmp_path / blogfeedback.FILE)
    methods = (Named(name="a", method="clipped"), Named(name="b", method="soft"), AUTO)
    shown = blogfeedback.figures(tmp_path, methods, Scale(fast=True), lambda _: None)
    assert [figure.curve("a").last.mean < figure.curve("zero").last.mean for figure in shown] == [True, True]
    assert blogfeedback.table(shown).header[1:] == ("epsilon 0.5", "epsilon 2")
    assert {verdict.answer for verdict in blogfeedback.verdicts(shown, *methods)} <= {"holds", "holds in part", "does not hold"}
    assert {verdict.answer for verdict in blogfeedback.verdicts([], *methods)} == {"not tested"}
    assert len(blogfeedback.read(tmp_path)[1]) == 5_900
    pq.write_table(pa.table({**columns, "y_rich": (y > 0).astype(int)}), tmp_path / "adult.parquet")
    drawn_adult = adult.figures(tmp_path, [(methods[0], 1.0), (methods[1], 0.5)], Scale(fast=True), lambda _: None)
    assert [figure.curve("a").last.mean < figure.curve("zero").last.mean for figure in drawn_adult] == [True, True]
    assert adult.verdicts(drawn_adult, "a", "b, epsilon 0.5")[0].answer != "not tested"
    with pytest.raises(NightfitError, match="cannot be read"):
        blogfeedback.read(tmp_path / "none")


@pytest.mark.parametrize("paper", [tao2022, kamath2021])
def test_every_theorem_has_a_verdict_of_its_own(paper):
    stated = [(claim, "rows", claim.powers[0], claim.powers[0], 0.1) for claim in paper.CLAIMS]
    missed = [(paper.CLAIMS[0], "epsilon", -1.0, 0.0, 0.1)]
    found = rates.verdicts(stated + missed)
    assert len({verdict.claim for verdict in found}) == len(found) == len(paper.CLAIMS)
    assert [verdict.answer for verdict in found] == ["holds in part"] + ["holds"] * (len(found) - 1)
