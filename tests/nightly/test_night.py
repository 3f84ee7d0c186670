"""A night in one line: what was new, what it cost, what is left, how good it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from nightfit.config import Config, load
from nightfit.ledger import Ledger
from nightfit.nightly import Published, as_dict, night_name, open_ledger, prepare, publish, reserve, run_fit
from nightfit.release import Release
from nightfit.release.balance import share_left
from nightfit.release.burndown import block_budgets
from nightfit.release.metrics import evaluation_of

CONTENT: dict[str, Any] = {
    "name": "visits",
    "data": {"name": "clinic", "path": "shards", "target": "y", "default_bounds": [-4, 4], "window": "first"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
    "method": {"solver": "proximal_gradient", "steps": 3},
    "cluster": {"kind": "synchronous"},
}
EVALUATION: dict[str, Any] = {
    "share": 0.2,
    "level": 0.9,
    "main": "r2",
    "metrics": {"r2": {"value": 0.41, "low": 0.38, "high": 0.44}, "rmse": {"value": 2.0, "low": 1.9, "high": 2.1}},
    "constant": {"r2": {"value": 0.0, "low": -0.01, "high": 0.01}, "rmse": {"value": 2.6, "low": 2.5, "high": 2.7}},
    "previous": {
        "run": "visits-0000",
        "metrics": {"r2": {"value": 0.39, "low": 0.36, "high": 0.42}},
        "change": {"value": 0.02, "low": 0.01, "high": 0.03},
        "better": True,
    },
    "curves": {},
    "by": None,
    "checks": {},
}


@pytest.fixture
def night(tmp_path: Path, table: pa.Table, write: Callable[..., Path]) -> Callable[..., Config]:
    write("shards", table)

    def configured(window: Any = "first", **changes: Any) -> Config:
        content = {**CONTENT, "data": {**CONTENT["data"], "window": window}, **changes}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return load(tmp_path / "refit.yaml")

    Ledger.create(configured().ledger_url).engine.dispose()
    return configured


def refit(config: Config, evaluation: dict[str, Any] | None = None, unsafe: bool = False) -> Published:
    job, ledger = prepare(config), open_ledger(config)
    release = run_fit(job, ledger, reserve(job, ledger, unsafe=unsafe))
    if evaluation is not None:
        release = Release(content={**release.content, "evaluation": evaluation})
    return publish(job, ledger, release)


def test_the_line_says_what_was_new_what_it_cost_and_what_is_left(night: Callable[..., Config]) -> None:
    first = refit(night())
    line = first.night.line()
    assert "\n" not in line
    assert line.startswith(
        f"visits: new release {first.release.run_id}; epsilon {first.release.content['guarantee']['epsilon']:.4g} spent; "
    )
    ledger = Ledger.open(night().ledger_url)
    (block,) = block_budgets(ledger, "clinic")
    assert f"{block.left:.1%} of the budget left (epsilon {block.enforced:.4g} of 8 spent); {block.refits_left} nights left; " in line
    assert line.endswith(str(first.release_path))
    again = refit(night())
    assert again.night.line() == line.replace("new release", "unchanged release").replace(line.split("; ")[1], "nothing spent")
    second = refit(night("second"))
    assert second.night.nights_left == first.night.nights_left - 1
    assert second.balance.share_left == pytest.approx(2 * first.balance.share_left - 1)


def test_the_line_has_the_paid_metric_with_its_interval_and_its_change(night: Callable[..., Config]) -> None:
    line = refit(night(), EVALUATION).night.line()
    assert "; R2 0.41 (0.38 to 0.44), +0.02 (+0.01 to +0.03) against visits-0000; " in line
    alone = refit(night(), {**EVALUATION, "previous": None}).night.line()
    assert "; R2 0.41 (0.38 to 0.44); " in alone


def test_the_numbers_of_a_release_that_is_not_private_are_not_shown(night: Callable[..., Config]) -> None:
    made = refit(night(unsafe={"noise": "none"}), EVALUATION, unsafe=True)
    assert evaluation_of(made.release) is None
    assert "R2" not in made.night.line()
    assert "no privacy claimed" in made.night.line()


def test_machines_get_the_same_night(night: Callable[..., Config]) -> None:
    made = refit(night())
    told = as_dict(made)["night"]
    assert told["line"] == made.night.line()
    assert (told["state"], told["nights_left"]) == ("new", made.night.nights_left)


def test_a_night_is_named_after_model_and_window_and_never_after_its_files(night: Callable[..., Config]) -> None:
    assert night_name(night("2026-W46")) == "visits 2026-W46"
    assert night_name(night(None)) == "visits on clinic"
    assert night_name(night(["day=1", "day=2"])) == "visits day=1 day=2"


def test_what_is_left_is_the_scarcer_of_amount_and_mass() -> None:
    from nightfit.privacy.accounting import Cost

    assert share_left(Cost(25, 0), Cost(100, 0)) == 0.75
    assert share_left(Cost(25, 6), Cost(100, 10)) == 0.4
    assert share_left(Cost(101, 0), Cost(100, 0)) == 0.0
