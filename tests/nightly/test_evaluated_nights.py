"""Nights with `evaluate`: paid once, compared with the release in use, promoted by it, found again when nothing changed."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger, verify
from nightfit.ledger.promotions import current
from nightfit.nightly import Published, as_dict, open_ledger, prepare, run
from nightfit.release.comparable import comparable
from nightfit.release.metrics import evaluation_of

Night = Callable[..., Config]
SHARE = {"share": 0.25}
ZERO = {"solver": "proximal_gradient", "steps": 1, "step_size": 1e-9}  # a fit that predicts nothing
GOOD = {"solver": "proximal_gradient", "steps": 8, "bound": 1.0}
PRIVACY = {"epsilon": 4.0, "delta": 1e-6, "lifetime": {"epsilon": 10.0, "delta": 1e-4}}


@pytest.fixture
def table() -> pa.Table:
    """4,000 rows, of which two columns explain two thirds of the target."""
    rng = np.random.default_rng(3)
    columns = {f"x{j}": rng.uniform(-2, 2, 4000) for j in range(3)}
    return pa.table({**columns, "y": columns["x0"] - columns["x1"] + rng.normal(0, 1.15, 4000)})


@pytest.fixture
def evaluated_night(night: Night) -> Callable[..., Published]:
    """A function that runs a whole night of a window."""

    def made(window: str, again: bool = False, **changes: Any) -> Published:
        return run(prepare(night(window, **{"evaluate": SHARE, "privacy": PRIVACY, **changes}), again=again), again=again)

    return made


def test_a_better_night_comes_into_use_by_its_paid_comparison(evaluated_night: Callable[..., Published], night: Night) -> None:
    first = evaluated_night("1", method=ZERO)
    found = evaluation_of(first.release)
    assert found is not None
    assert (found.share, found.level, found.main, found.previous) == (0.25, 0.9, "r2", None)
    assert found.headline.low <= found.headline.value <= found.headline.high
    better = evaluated_night("2", method=GOOD)
    compared = evaluation_of(better.release)
    assert compared is not None
    assert compared.previous is not None
    assert compared.previous.run == first.release.run_id
    assert compared.previous.better is True
    assert better.night.promotion.startswith("promoted (better: R2 +")
    again = evaluated_night("3", method=ZERO)
    worse = evaluation_of(again.release)
    assert worse is not None
    assert worse.previous is not None
    assert (worse.previous.run, worse.previous.better) == (better.release.run_id, False)
    ledger = Ledger.open(night().ledger_url)
    assert current(ledger, "visits", "clinic") == better.release.run_id
    assert verify(ledger) == []
    ledger.engine.dispose()
    page = better.report_path.read_text()
    assert page.index("How good it is") < page.index("Coefficients")
    assert "Better than visits-" in page
    told = as_dict(better)["evaluation"]
    assert told["main"] == "r2"
    assert told["rows"][0][0] == "R2"


def test_a_night_that_is_run_again_finds_its_release_and_its_comparison(evaluated_night: Callable[..., Published], night: Night) -> None:
    """The comparison is part of the plan: with another one a finished window would be charged again, or refused."""
    nights = [evaluated_night(window) for window in ("1", "2")]
    repeated = [evaluated_night(window) for window in ("1", "2")]
    assert [one.release.content for one in repeated] == [one.release.content for one in nights]
    assert not any(one.night.new for one in repeated)
    ledger = Ledger.open(night().ledger_url)
    assert [one["state"] for one in ledger.runs()] == ["finished", "finished"]
    ledger.engine.dispose()


def test_an_edited_release_is_not_compared(evaluated_night: Callable[..., Published], night: Night) -> None:
    first = evaluated_night("1")
    config = night("2", evaluate=SHARE, privacy=PRIVACY)
    ledger = open_ledger(config)

    def candidates() -> list[str]:
        specification = prepare(config).plan.specification
        return [one.run for one in comparable(specification, config.output_folder, ledger)]

    assert candidates() == [first.release.run_id]
    content = json.loads(first.release_path.read_text())
    content["scaled_weights"][0] += 0.5
    first.release_path.write_text(json.dumps(content))
    assert candidates() == []
    ledger.engine.dispose()


def test_a_night_pays_for_its_evaluation_what_its_fit_may_cost(evaluated_night: Callable[..., Published], night: Night) -> None:
    with_it, without = (prepare(night("1", evaluate=evaluate, privacy=PRIVACY)).plan for evaluate in (SHARE, "none"))
    assert len(with_it.events) == len(without.events) + 4
    assert float(with_it.cost.amount) == pytest.approx(float(without.cost.amount), rel=1e-6)
    made = evaluated_night("1")
    assert made.release.content["events"] == [event.as_dict() for event in with_it.events]
    assert made.release.content["plan"]["evaluation"] == {"share": 0.25, "main": "r2"}


def test_numbers_without_privacy_are_shown_nowhere(evaluated_night: Callable[..., Published], night: Night) -> None:
    config = night("1", evaluate=SHARE, privacy=PRIVACY, unsafe={"noise": "none"})
    made = run(prepare(config), unsafe=True)
    assert not made.release.private
    assert evaluation_of(made.release) is None
    assert "R2" not in made.night.line()
    assert "evaluation" not in as_dict(made)


@pytest.mark.parametrize("share", [0.0, 0.6, -0.2])
def test_a_share_that_leaves_too_few_units_is_refused(night: Night, share: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        night("1", evaluate={"share": share})
