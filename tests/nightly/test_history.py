"""Every night of a model, from ledger, releases and journal; as text, as data, and as pages that load nothing from elsewhere."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import Config, ConfigError, load
from nightfit.ledger import Ledger
from nightfit.methods.intervals import Intervals
from nightfit.nightly import Published, history_page, journal, open_ledger, prepare, reserve
from nightfit.nightly.card import card_of
from nightfit.nightly.history import History, history_of
from nightfit.nightly.site import configurations_in, write_site
from nightfit.release import Release
from nightfit.release.burndown import block_budgets
from nightfit.release.charts import Point, burn_down, nice, over_time
from nightfit.release.metrics import Evaluation, Range
from nightfit.release.movement import Terms, moved
from nightfit.release.report import page as report_page
from nightfit.release.report import summary
from nightfit.release.shifts import shifted
from nightfit.types import NightfitError

Night = Callable[..., Config]
Refit = Callable[..., Published]
Evaluated = Callable[..., dict[str, Any]]


def test_the_history_has_every_night_with_state_cost_metric_and_what_is_left(told: Callable[[], History], night: Night) -> None:
    found = told()
    assert [one.state for one in found.nights] == ["released", "released", "released", "failed", "missed"]
    first, unsafe, second, *_ = found.nights
    assert first.evaluation is not None
    assert (first.evaluation.headline.value, second.in_use, first.in_use) == (0.4, True, False)
    assert unsafe.release is None
    assert unsafe.evaluation is None
    assert first.epsilon == pytest.approx(second.epsilon)
    (block,) = block_budgets(Ledger.open(night("3").ledger_url), "clinic")
    assert second.left == found.balance.share_left == block.left
    assert found.nights_left == block.refits_left
    assert second.left == pytest.approx(1 - 3 * (first.share or 0))
    assert found.nights_left is not None
    until = datetime.fromisoformat(second.time) + timedelta(days=found.nights_left)  # two refits within a second show no pace
    assert found.last_night == until.date().isoformat()
    assert sorted(event.kind for event in found.events) == ["policy", "policy", "promotion", "promotion"]
    assert any("epsilon 7.5" in event.words for event in found.events)
    assert "complete" in {name for one in found.nights if one.evaluation for name in one.evaluation.checks()}


def test_an_edited_release_is_an_event_and_its_numbers_are_not_shown(told: Callable[[], History], night: Night) -> None:
    for path in night("1").output_folder.glob("*/release.json"):
        content = json.loads(path.read_text())
        if content["private"]:
            path.write_text(json.dumps({**content, "intercept": 99.0}))
    found = told()
    assert sum(event.kind == "edited" for event in found.events) == 2
    assert all(one.release is None for one in found.nights)


def test_an_unfinished_run_is_shown_as_such(night: Night) -> None:
    config = night("1")
    ledger = open_ledger(config)
    reserve(prepare(config), ledger)
    (only,) = history_of(config, ledger).nights
    assert (only.state, only.release) == ("unfinished", None)
    ledger.engine.dispose()


def test_a_history_before_the_first_night_is_refused_with_the_reason(night: Night) -> None:
    ledger = Ledger.open(night().ledger_url)
    with pytest.raises(ConfigError, match="there was no night yet"):
        history_of(night(), ledger)
    ledger.engine.dispose()


def test_a_journal_line_that_is_half_written_is_passed_over(tmp_path: Path) -> None:
    journal.append(tmp_path, journal.Note(time="2027-01-01T02:00:00+00:00", model="m", state="missed", reason="x" * 10_000))
    with (tmp_path / "nights.jsonl").open("a") as file:
        file.write('{"time": "2027')
    (note,) = journal.read(tmp_path, "m")
    assert len(note.reason) == journal.LONGEST
    assert oct((tmp_path / "nights.jsonl").stat().st_mode)[-3:] == "600"


def test_a_journal_that_cannot_be_written_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="the history lacks a night"):
        journal.append(tmp_path / "file", journal.Note(time=journal.now(), model="m", state="failed"))


def with_intervals(release: Release, estimate: list[float], deviation: list[float]) -> Release:
    numbers = {"estimate": np.array(estimate), "deviation": np.array(deviation), "bias": np.zeros(len(estimate))}
    found = Intervals(**numbers, of="the truth", assumed=())
    return Release(content={**release.content, "intervals": found.as_dict(release.content["features"])})


def test_pages_draw_coefficients_that_are_not_known_alone(night: Night, refit: Refit) -> None:
    """Levels of a category have no interval: their released values are drawn, and none is said to have moved."""
    config = night()
    made = with_intervals(refit(config).release, [1.0, math.nan, 3.0, 4.0], [0.1, math.nan, 0.1, 0.1])
    before = with_intervals(made, [1.0, math.nan, 3.0, 9.0], [0.1, math.nan, 0.1, 0.1])
    assert [move.name for move in moved(before, made)] == [Terms.of(made).names[3]]
    assert Terms.of(made).estimate[1] == made.terms[1][1]
    ledger = open_ledger(config)
    history = history_of(config, ledger)
    drawn = history_page.page(replace(history, nights=tuple(replace(one, release=made) for one in history.nights)), {})
    for text in (drawn, made._repr_html_(), summary(made, history.balance), report_page(made, history.balance)):
        assert not re.search(r"\bnan\b", text)
    assert "not known alone" in report_page(made, history.balance)
    ledger.engine.dispose()


def test_a_coefficient_moved_only_if_it_moved_beyond_its_noise(night: Night, refit: Refit) -> None:
    made = refit(night()).release
    before = with_intervals(made, [1.0, 2.0, 3.0, 4.0], [0.1] * 4)
    z = 2.4977  # the normal quantile of 1 - 0.05 / 8
    for step, names in ((0.99, []), (1.01, ["x1"])):
        after = with_intervals(made, [1.0, 2.0 + step * z * 0.1 * 2**0.5, 3.0, 4.0], [0.1] * 4)
        assert [move.name for move in moved(before, after)] == names
    assert moved(made, made) == ()


def test_nights_that_did_not_change_name_a_coefficient_in_few_of_twenty(night: Night, refit: Refit) -> None:
    made, rng = refit(night()).release, np.random.default_rng(4)
    nights = [with_intervals(made, rng.normal(0, 1, 4).tolist(), [1.0] * 4) for _ in range(200)]
    assert sum(bool(moved(before, after)) for before, after in pairwise(nights)) <= 20


def judged(share: float, half: float, **checks: Any) -> Evaluation:
    ranges = {"share_of_positives": {"value": share, "low": share - half, "high": share + half}, **checks}
    found = {"r2": Range(0.4, 0.3, 0.5)}
    return Evaluation(share=0.2, level=0.9, main="r2", metrics=found, constant={}, previous=None, stored={"checks": ranges})


def test_the_outcome_shifted_only_beyond_its_intervals() -> None:
    sd = 0.0164485 / 1.6448536  # of an interval of 90% with this half
    z = 1.9599640  # the normal quantile of 1 - 0.05 / 2
    before = judged(0.2, 0.0164485)
    for step, names in ((0.99, []), (1.01, ["share of positives"])):
        assert [one.name for one in shifted(before, judged(0.2 + step * z * sd * 2**0.5, 0.0164485))] == names
    assert shifted(None, before) == shifted(before, None) == ()
    drifted = judged(
        0.2, 0.0164485, drift={"value": 0.6, "low": 0.58, "high": 0.62}, mean_prediction={"value": 0.9, "low": 0.9, "high": 0.9}
    )
    assert [one.words() for one in shifted(before, drifted)] == ["drift of predictions 0.5 (0.5 to 0.5) to 0.6 (0.58 to 0.62)"]


def test_two_nights_of_the_same_outcome_shift_in_few_of_twenty() -> None:
    rng = np.random.default_rng(5)
    shares = 0.2 + 0.01 * rng.standard_normal(2000)
    nights = [judged(float(share), 0.01 * 1.6448536) for share in shares]
    assert sum(bool(shifted(before, after)) for before, after in pairwise(nights)) <= 140  # 100 are expected, with a deviation of about 11


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [value for name, value in attributes if name in ("href", "src") and value]


def test_the_page_shows_everything_and_names_nothing_outside(told: Callable[[], History], night: Night, tmp_path: Path) -> None:
    found = told()
    reports = history_page.reports_beside(night().output_folder, found, tmp_path)
    text = history_page.page(found, reports)
    read = Links(text)
    assert not re.search(r"https?://|url\(|@import", text)
    assert {"script", "link", "img"}.isdisjoint(read.tags)
    assert read.found
    assert all((tmp_path / link).exists() for link in read.found)
    assert "&lt;b&gt;no&lt;/b&gt; cluster" in text
    assert "0.999" not in text
    for words in ("R2", "until about", "missed", "epsilon 7.5", "complete", "changed beyond noise"):
        assert words in text
    assert text == history_page.page(told(), reports)


def test_charts_say_in_words_what_they_draw() -> None:
    points = [Point(time=f"2026-11-{day:02d}T02:00:00+00:00", value=day, low=day - 1, high=day + 1, words=f"{day}!") for day in (1, 2, 9)]
    drawn = over_time(points, "<metric>", events=[("2026-11-03T00:00:00+00:00", "failed", "fire"), ("2030-01-01", "later", "later")])
    assert 'role="img" aria-label="&lt;metric&gt;: 9!"' in drawn
    assert drawn.count("<circle") == 3
    assert "fire" in drawn
    assert "later" not in drawn
    assert "12.0% left" in burn_down([("2026-11-01", 0.5), ("2026-11-02", 0.12)], "2026-11-04", "budget")
    assert over_time(points[:1], "one").count("<circle") == 1


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.03, 0.021), (1e-9, 2e-9), (12.0, 9e7), (-5.0, -4.9)])
def test_ticks_are_round_numbers_inside(low: float, high: float) -> None:
    ticks = nice(low, high, 5)
    assert 3 <= len(ticks) <= 12
    assert all(low <= tick <= high for tick in ticks)


def test_the_command_prints_data_and_pages(told: Callable[[], History], tmp_path: Path) -> None:
    config = str(tmp_path / "refit.yaml")
    said = CliRunner().invoke(app, ["history", config, "--json"])
    assert [one["state"] for one in json.loads(said.stdout)["nights"]] == [one.state for one in told().nights]
    said = CliRunner().invoke(app, ["history", config, "--html", str(tmp_path / "pages" / "history.html")])
    assert said.exit_code == 0, said.output
    assert "of the budget is left" in said.output
    assert "<!DOCTYPE html>" in (tmp_path / "pages" / "history.html").read_text()


def test_the_site_indexes_every_model_and_night_and_its_links_lead_somewhere(
    told: Callable[[], History], night: Night, refit: Refit, tmp_path: Path
) -> None:
    refit(night("1", name="stays", privacy={"epsilon": 1.0, "delta": 1e-6}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "visits.yaml").write_text((tmp_path / "refit.yaml").read_text().replace("name: stays", "name: visits"))
    moved_up = yaml.safe_load((tmp_path / "other" / "visits.yaml").read_text())
    moved_up |= {"ledger": f"sqlite:///{tmp_path}/ledger.db", "output": "../releases"}
    (tmp_path / "other" / "visits.yaml").write_text(yaml.safe_dump(moved_up))
    (tmp_path / "broken.yaml").write_text("name: x\ndata: 1\nprivacy: 2\n")
    (tmp_path / "notes.yaml").write_text("- buy bread\n")
    said = CliRunner().invoke(app, ["site", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert "broken.yaml is left out" in " ".join(said.output.split())
    folder = tmp_path / "site"
    pages = sorted(folder.rglob("*.html"))
    assert {"index.html", "stays-clinic.html", "visits-clinic.html"} <= {page.name for page in pages}
    for page in pages:
        links = [link for link in Links(page.read_text()).found if not link.startswith("#")]
        assert all((page.parent / link).exists() for link in links)
        assert not re.search(r"https?://", page.read_text())
    index = (folder / "index.html").read_text()
    assert index.count("<script>") == 1
    assert len(re.findall(r"<tr[^>]*><td>\d{4}-", index)) == 7
    with pytest.raises(NightfitError, match="two configurations are of"):
        write_site([load(tmp_path / "refit.yaml")] * 2, folder)
    with pytest.raises(NightfitError, match="there is no model to show"):
        write_site([], folder)
    assert len(configurations_in(tmp_path)[0]) == 2


def test_the_model_card_says_use_data_guarantee_budget_and_metrics_by_night(told: Callable[[], History], night: Night) -> None:
    history = told()
    card = card_of(night("3", card={"use": "Staffing of wards.", "limits": "No decision about <one> person."}), history)
    text = card.markdown()
    release = next(one.release for one in reversed(history.nights) if one.release is not None)
    for words in ("# visits", "Staffing of wards.", "Limits: No decision about &lt;one&gt; person.", release.run_id, "clinic", "700 units"):
        assert words in text
    assert f"({release.content['guarantee']['epsilon']:.4g}, 1e-06)-differentially private for one record" in text
    assert history.balance.describe() in text
    rows = [line for line in text.splitlines() if line.startswith("| 20")]
    assert [re.search(r"0\.\d+ \(", row)[0] for row in rows] == ["0.5 (", "0.4 ("]  # type: ignore[index]
    assert "0.999" not in text
    assert "<one>" not in card.html()
    assert "Nobody has said" in card_of(night("3"), history).markdown()


def test_notebooks_show_releases_plans_and_ledgers_and_no_name_becomes_markup(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    config = night("1")
    made = refit(config, evaluated(0.41)).release
    shown = Release(content={**made.content, "model": "<b>visits</b>"})._repr_html_()
    assert "R2 0.41 (0.38 to 0.44)" in shown
    assert "differentially private" in shown
    assert "<b>visits" not in shown
    epsilon, delta = (made.content["guarantee"][name] for name in ("epsilon", "delta"))
    assert repr(made) == f"Release(model='visits', run={made.run_id!r}, private=True, epsilon={epsilon!r}, delta={delta!r})"
    assert repr(Release(content={**made.content, "private": False})).endswith("private=False)")
    plan = prepare(config).plan
    assert plan._repr_html_().startswith("<pre>Model visits")
    assert repr(plan).startswith("Plan(model='visits', units=")
    ledger = Ledger.open(config.ledger_url)
    left = history_of(config, ledger).balance.share_left
    assert f"<td>{left:.1%}</td>" in ledger._repr_html_()
    ledger.engine.dispose()


def test_the_command_writes_the_card_and_the_page_holds_it(told: Callable[[], History], night: Night, tmp_path: Path) -> None:
    told()
    path = night("3").folder / "refit.yaml"
    assert CliRunner().invoke(app, ["card", str(path), "-o", str(tmp_path / "CARD.md")]).exit_code == 0
    assert (tmp_path / "CARD.md").read_text().startswith("# visits\n")
    assert CliRunner().invoke(app, ["history", str(path), "--html", str(tmp_path / "h.html")]).exit_code == 0
    assert "<summary>Model card</summary><h3>Intended use</h3>" in (tmp_path / "h.html").read_text()
