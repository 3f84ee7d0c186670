"""A night in one line: what was new, what it cost, what is left, how good it is."""

from collections.abc import Callable
from typing import Any

import pytest

from nightfit.config import Config
from nightfit.ledger import Ledger
from nightfit.nightly import Published, as_dict, night_name
from nightfit.privacy.accounting import Cost
from nightfit.release.balance import share_left
from nightfit.release.burndown import block_budgets
from nightfit.release.metrics import evaluation_of

Night = Callable[..., Config]
Refit = Callable[..., Published]
Evaluated = Callable[..., dict[str, Any]]


def test_the_line_says_what_was_new_what_it_cost_and_what_is_left(night: Night, refit: Refit) -> None:
    first = refit(night())
    line, epsilon = first.night.line(), first.release.content["guarantee"]["epsilon"]
    assert "\n" not in line
    assert line.startswith(f"visits: new release {first.release.run_id}; epsilon {epsilon:.4g} spent; ")
    ledger = Ledger.open(night().ledger_url)
    (block,) = block_budgets(ledger, "clinic")
    assert f"{block.left:.1%} of the budget left (epsilon {block.enforced:.4g} of 8 spent); {block.refits_left} nights left; " in line
    parts = line.split("; ")
    assert parts[4:] == ["promoted (it is the first private release)", str(first.release_path)]
    unchanged = [parts[0].replace("new", "unchanged"), "nothing spent", *parts[2:4], parts[5]]
    assert refit(night()).night.line() == "; ".join(unchanged)
    second = refit(night("second"))
    assert second.night.nights_left == first.night.nights_left - 1
    assert second.balance.share_left == pytest.approx(2 * first.balance.share_left - 1)


def test_the_line_has_the_paid_metric_with_its_interval_and_its_change(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    line = refit(night(), evaluated(0.41, "visits-0000")).night.line()
    assert "; R2 0.41 (0.38 to 0.44), R2 +0.02 (+0.01 to +0.03) against visits-0000; " in line
    assert "; R2 0.41 (0.38 to 0.44); " in refit(night("second"), evaluated(0.41)).night.line()


def test_the_numbers_of_a_release_that_is_not_private_are_not_shown(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    made = refit(night(unsafe={"noise": "none"}), evaluated(), unsafe=True)
    assert evaluation_of(made.release) is None
    assert "R2" not in made.night.line()
    assert "no privacy claimed" in made.night.line()


def test_machines_get_the_same_night(night: Night, refit: Refit) -> None:
    made = refit(night())
    told = as_dict(made)["night"]
    assert told["line"] == made.night.line()
    assert (told["state"], told["nights_left"]) == ("new", made.night.nights_left)


def test_a_night_is_named_after_model_and_window_and_never_after_its_files(night: Night) -> None:
    assert night_name(night("2026-W46")) == "visits 2026-W46"
    assert night_name(night(None)) == "visits on clinic"
    assert night_name(night(["day=1", "day=2"])) == "visits day=1 day=2"


def test_what_is_left_is_the_scarcer_of_amount_and_mass() -> None:
    assert share_left(Cost(25, 0), Cost(100, 0)) == 0.75
    assert share_left(Cost(25, 6), Cost(100, 10)) == 0.4
    assert share_left(Cost(101, 0), Cost(100, 0)) == 0.0
