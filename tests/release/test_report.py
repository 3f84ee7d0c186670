"""The report shows what a release says, loads nothing from elsewhere, and lets no name become markup."""

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from nightfit.ledger import Receipt
from nightfit.methods.intervals import Intervals
from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.number import Number
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import treatment
from nightfit.release import Release, build, figures, html
from nightfit.release.balance import Balance
from nightfit.release.report import page, summary

NASTY = ("<script>alert(1)</script>", "$\\frac{a}$", "_hidden", "\"quoted\" & 'single'", "年齢", "x" * 200, "a|b`c")


def release(
    names: tuple[str, ...] = ("age", "bmi"), *, name: str = "visits", private: bool = True, path: bool = True, classification: bool = False
) -> Release:
    loss: Loss = Logistic() if classification else Squared()
    shape = Preprocessing(
        features=names,
        target="visits",
        centre=(50.0,) * len(names),
        scale=(25.0,) * len(names),
        intercept=True,
        target_domain=loss.target,
        **treatment(loss.target, loss.scalable, (0.0, 10.0)),
    )
    said = Specification(
        name=name,
        data_set="cohort",
        preprocessing=shape,
        budget=Budget(epsilon=1.0, delta=1e-6),
        loss=loss,
        penalty=penalty_of({"l1": 0.01}),
        method=Method(steps=20),
    )
    rng = np.random.default_rng(3)
    weights = rng.normal(0, 0.2, shape.columns)
    steps = [weights * t / 20 for t in range(21)] if path else []
    about = {"run": "visits-01", "manifest": "m1", "started": "2026-11-14T02:00:00+00:00"}
    made = build(make(said, 10_000), weights, steps, said.preprocessing, private=private, **about)  # type: ignore[arg-type]
    return made.paid(Receipt("ledger-1", 7, "d" * 64, "c" * 64))


def balance(**changes: Any) -> Balance:
    spent: dict[str, Any] = {
        "epsilon_spent": 2.5,
        "epsilon_lifetime": 8.0,
        "delta": 1e-5,
        "epsilon_left": 6.5,
        "share_left": 0.75,
        "runs": 3,
    }
    return Balance(**({"data_set": "cohort"} | spent | changes))


class Parsed(HTMLParser):
    """The tags and the visible text of a page; unbalanced tags fail."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("classification", [False, True])
def test_the_page_names_nothing_outside_itself(classification: bool) -> None:
    text = page(release(classification=classification), balance())
    parsed = Parsed(text)
    assert not parsed.open
    assert not re.search(r"https?://|url\((?!#)|@import|//\w+\.", text)
    assert {tag for tag, _ in parsed.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "image", "form"})
    links = [value for _, attributes in parsed.tags for name, value in attributes.items() if name in ("href", "src", "xlink:href")]
    assert not links


def test_no_name_becomes_markup_or_mathematics() -> None:
    text = page(release(NASTY, name="<b>bold</b>"), balance(data_set="<i>set</i>"))
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.tags}.isdisjoint({"script", "b"})
    assert "<i>set" not in text
    for name in NASTY[:5]:
        assert parsed.text.count(name) >= 3  # plot, table and preprocessing
    assert not any(attribute.startswith("on") for _, attributes in parsed.tags for attribute in attributes)


def test_the_summary_is_markdown_that_no_name_breaks() -> None:
    text = summary(release(NASTY, name="<b>bold</b>"), balance(data_set="a|b"))
    assert "<script>" not in text
    assert "<b>" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(NASTY) + 2
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_a_release_that_is_not_private_says_so_everywhere() -> None:
    for write in (page, summary):
        assert "NOT PRIVATE" in write(release(private=False), balance())
        assert "NOT PRIVATE" not in write(release(), balance())


def test_the_same_release_and_balance_give_the_same_bytes() -> None:
    assert page(release(), balance()) == page(release(), balance())
    assert summary(release(), balance()) == summary(release(), balance())


def test_the_page_states_guarantee_coefficients_noise_budget_plan_and_receipt() -> None:
    said = release()
    text = " ".join(Parsed(page(said, balance(runs_left=12, share_of_run=0.02))).text.split())
    noise = said.content["coefficient_noise"] * 5.0 / 25.0
    event = said.content["events"][0]
    for expected in (
        said.statement(),
        *(f"{value:.5g}" for value in said.content["coef"].values()),
        f"{said.content['intercept']:.5g}",
        f"{noise:.2g}",
        "75.0% of the budget is left: epsilon 2.5 of 8 is spent at delta 1e-05, by 3 runs",
        "12 more refits like this one fit.",
        f"This refit cost epsilon {said.content['guarantee']['epsilon']:.4g} at delta 1e-06, 2.0% of the whole budget.",
        f"{len(said.content['events'])} queries",
        f"{event['sigma']:.6g}",
        f"{event['sensitivity'] / event['sigma']:.4g}",
        "25 to 75",
        "0 to 10",
        "ledger-1",
        said.content["plan_digest"],
        said.content["versions"]["numpy"],
    ):
        assert expected in text


def test_the_path_is_left_out_when_it_was_not_released() -> None:
    assert "Path of the released iterates" in page(release(), balance())
    assert "Path of the released iterates" not in page(release(path=False), balance())


def test_many_features_are_all_in_the_table_and_few_in_the_plots() -> None:
    text = page(release(tuple(f"feature{j:03d}" for j in range(100))), balance())
    assert len(set(re.findall(r"<td>(feature\d+)</td>", text))) == 100
    assert "30 largest of 100" in text
    assert "89 others in grey" in text
    assert len(text) < 400_000


@pytest.mark.parametrize(("left", "width"), [(0.0, "0.00%"), (0.25, "25.00%"), (0.9812, "98.12%"), (1.0, "100.00%")])
def test_the_bar_is_as_long_as_the_share_left(left: float, width: str) -> None:
    assert f'style="width: {width}"' in page(release(), balance(share_left=left))


def test_page_and_summary_show_intervals_and_what_they_assume() -> None:
    numbers = {"estimate": np.array([1.0, -2.0, 3.0]), "deviation": np.array([0.5, 1.0, 2.0]), "bias": np.array([0.0, 0.0, 1.0])}
    found = Intervals(**numbers, of="the truth", assumed=("the sky is blue",))
    said = Release(content={**release().content, "coefficient_noise": None, "intervals": found.as_dict(("age", "bmi"))})
    text = page(said, balance())
    assert all("{:.4g} to {:.4g}".format(*pair) in text for pair in found.at(0.95))
    assert "of the truth. They hold if the sky is blue." in text
    assert "<th scope=col class=n>before shrinkage and penalty</th>" in text
    assert all(f"<td class=n>{estimate:.4g}</td>" in text for estimate in found.estimate)
    assert "{:.4g} to {:.4g}".format(*found.at(0.95)[0]) in summary(said, balance())
    assert "95% interval" not in page(release(), balance())
    assert "why they differ" in text
    assert re.search(r"shrunk by \d+%: its estimate lies 2.0 standard errors from zero|moved because others were shrunk", text)


def test_evaluation_comes_first_then_the_guarantee_then_the_budget_and_mechanics_are_folded() -> None:
    text = page(release(), balance())
    places = [text.index(f"<h2>{title}</h2>") for title in ("For whom it is private", "Budget of cohort")]
    places.append(text.index("<summary>What was asked</summary>"))
    assert places == sorted(places)
    for title in (
        "Path of the released iterates",
        "What was asked",
        "Preprocessing",
        "Where this comes from",
        "What the guarantee assumes",
    ):
        assert f"<details><summary>{title}</summary>" in text
        assert f"<h2>{title}</h2>" not in text


def test_effects_are_per_stated_unit_and_never_per_learned_clamp() -> None:
    """A learned clamp of age at 401 years, eight scales out, is drawn per 10 years, and an indicator per change from 0 to 1."""
    encoding = Encoding.in_order({"age": Number(), "bmi": Number(bounds=(10.0, 60.0)), "emergency": Boolean()})
    shape = Preprocessing(
        features=encoding.names,
        encoding=encoding,
        target="visits",
        centre=(0.0, 35.0, 0.5),
        scale=(401.0, 25.0, 0.5),
        intercept=True,
    )
    assert figures._steps(shape).tolist() == [10.0, 10.0, 1.0]
    text = page(release(("age", "bmi")), balance())
    assert "age, per 1<" not in text
    assert "upper bound" not in text


def luminance(colour: str) -> float:
    """WCAG 2.2: of a colour such as #1c2430."""
    digits = "".join(2 * digit for digit in colour[1:]) if len(colour) == 4 else colour[1:]
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_can_be_read_in_light_in_dark_and_on_paper() -> None:
    """A contrast of at least 4.5, WCAG 2.2 level AA, of every colour that text has on every ground that it stands on."""
    themes = [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in re.findall(r":root \{([^}]*)\}", html.STYLE)]
    assert len(themes) == 3
    pairs = [(ink, ground) for ink in ("ink", "faint", "accent", "good", "bad") for ground in ("paper", "panel")]
    for theme in themes:
        for ink, ground in [*pairs, ("on", "good"), ("on", "bad")]:
            dark, light = sorted((luminance(theme[ink]), luminance(theme[ground])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground, theme)
