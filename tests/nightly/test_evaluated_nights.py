"""Nights with `evaluate`: paid once, compared with the release in use, promoted by it, found again when nothing changed."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nightfit.config import Config, ConfigError, parse
from nightfit.ledger import Ledger, Policy, verify
from nightfit.ledger.promotions import current
from nightfit.nightly import Published, as_dict, open_ledger, prepare, run
from nightfit.nightly.evaluation import TestData, prepare_evaluation, run_evaluation
from nightfit.planning.plan import PlanError
from nightfit.release import Release
from nightfit.release.comparable import comparable
from nightfit.release.metrics import evaluation_of
from nightfit.release.shifts import shifted
from nightfit.types import Adjacency, NightfitError

Night = Callable[..., Config]
SHARE = {"share": 0.25}
ZERO = {"solver": "proximal_gradient", "steps": 1, "step_size": 1e-9}  # a fit that predicts nothing
GOOD = {"solver": "proximal_gradient", "steps": 8, "bound": 1.0}
PRIVACY = {"epsilon": 4.0, "delta": 1e-6, "lifetime": {"epsilon": 10.0, "delta": 1e-4}}
SAMPLED = {
    "epsilon": 4.0,
    "delta": 1e-6,
    "adjacency": "zero_out",
    "lifetime": {"epsilon": 10.0, "delta": 1e-4, "currency": "zcdp"},
}
GAPS = {"name": "clinic", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4], "missing": "indicator"}}


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


def test_a_fit_is_evaluated_where_nothing_else_is_said_and_the_plan_says_where_not(night: Night) -> None:
    plan = prepare(night("1", privacy=PRIVACY)).plan
    assert plan.evaluation is not None
    assert (plan.evaluation.share, plan.evaluation.checks, plan.evaluation.by) == (0.2, True, None)
    assert plan.digest() == prepare(night("1", privacy=PRIVACY, evaluate={"metrics": "auto"})).plan.digest()
    none = prepare(night("1", privacy=PRIVACY, evaluate="none")).plan
    assert (none.evaluation, none.unevaluated) == (None, "")
    assert "Evaluation" not in none.explain()
    tiny = {**PRIVACY, "epsilon": 0.01}
    noisy = prepare(night("1", privacy=tiny)).plan
    assert noisy.evaluation is None
    assert "Evaluation: none, because of so few units, or with so much noise, the metrics would not be known." in noisy.explain()
    assert prepare(night("1", privacy=tiny, evaluate={})).plan.evaluation is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": {"loss": "hinge"}}, "have no metric"),
        ({"method": {"solver": "proximal_sgd", "batch": 200, "bound": 1.0, "steps": 5}, "privacy": SAMPLED}, "Poisson sample"),
    ],
    ids=["scores", "samples"],
)
def test_what_cannot_be_evaluated_is_not_by_default_and_refused_where_it_is_asked_for(
    night: Night, changes: dict[str, Any], reason: str
) -> None:
    changes = {"privacy": PRIVACY, **changes}
    plan = prepare(night("1", **changes)).plan
    assert plan.evaluation is None
    assert reason in plan.unevaluated
    assert f"Evaluation: none, because {plan.unevaluated}." in plan.explain()
    with pytest.raises(PlanError, match="evaluate: none"):
        prepare(night("1", evaluate=SHARE, **changes))


def test_a_night_whose_export_is_broken_is_told_and_not_promoted(
    night: Night, write: Callable[..., Any], tmp_path: Path, table: pa.Table
) -> None:
    """Half of a column's values are missing: a better fit of such records does not come into use."""

    def nightly(window: str, method: dict[str, Any]) -> Published:
        return run(prepare(night(window, evaluate=SHARE, privacy=PRIVACY, method=method, data=GAPS | {"window": window})))

    first = nightly("1", {**ZERO, "scales": "paid"})
    told = evaluation_of(first.release)
    assert told is not None
    assert told.checks()["missing values of x2"].high < 0.3
    shutil.rmtree(tmp_path / "shards")
    gone = pa.array(np.where(np.random.default_rng(0).random(4000) < 0.7, np.nan, table["x2"].to_numpy()))
    write("shards", table.set_column(table.column_names.index("x2"), "x2", gone))
    broken = nightly("2", {**GOOD, "scales": "paid"})
    found = evaluation_of(broken.release)
    assert found is not None
    assert found.previous is not None
    assert any(change.suspect and change.name == "missing values of x2" for change in shifted(told, found))
    assert broken.night.promotion.startswith(f"not promoted (the export looks poorer than that of {first.release.run_id}: ")
    ledger = Ledger.open(night().ledger_url)
    assert current(ledger, "visits", "clinic") == first.release.run_id
    ledger.engine.dispose()
    assert 0 < found.checks()["drift of predictions"].value < 1


def test_classes_are_judged_by_group_night_after_night(tmp_path: Path, write: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    x, sex = rng.normal(size=6000), rng.integers(0, 2, 6000)
    scores = np.column_stack([-2 * x, np.zeros(6000), 2 * x + sex]) + rng.gumbel(size=(6000, 3))
    rows = {"x": x, "sex": np.array(["F", "M"])[sex], "outcome": np.array(["home", "moved", "died"])[scores.argmax(axis=1)]}
    write("shards", pa.table(rows))
    content = {
        "name": "m",
        "data": {
            "path": "shards",
            "target": {"column": "outcome", "classes": ["home", "moved", "died"]},
            "columns": {"x": {"kind": "number"}, "sex": {"kind": "category", "levels": ["F", "M"]}},
        },
        "privacy": {"epsilon": 6.0, "delta": 1e-6, "lifetime": {"epsilon": 20.0, "delta": 1e-4}},
        "model": {"kind": "multinomial"},
        "cluster": {"kind": "synchronous"},
        "evaluate": {"by": "sex"},
    }
    config = parse(content, tmp_path)
    Ledger.create(config.ledger_url).engine.dispose()
    first = run(prepare(config))
    second = run(prepare(config, again=True), again=True)
    told = evaluation_of(second.release)
    assert told is not None
    assert told.headline.low > 0.1
    assert {"accuracy", "macro_auc", "log_loss"} <= told.metrics.keys()
    assert told.previous is not None
    assert told.previous.run == first.release.run_id
    assert list(told.groups()) == ["F", "M", "other"]
    assert told.groups()["M"]["deviance_explained"].low > 0
    drifts = [told.checks()[f"drift of predictions of {name}"] for name in ("home", "moved", "died")]
    assert sum(one.low - 0.05 <= 0.5 <= one.high + 0.05 for one in drifts) == 3  # the same records: half, but for noise
    page = second.report_path.read_text()
    assert "taken for moved" in page
    assert "By sex" in page
    assert Release.load(second.release_path).content["evaluation"] == second.release.content["evaluation"]
    ledger = Ledger.open(config.ledger_url)
    ledger.set_policy(Policy(data_set="test", epsilon=4.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE))
    write("test", pa.table({name: values[::2] for name, values in rows.items()}))
    planned = prepare_evaluation(second.release, TestData(source=str(tmp_path / "test"), name="test"), ledger, epsilon=3.0)
    elsewhere, _ = run_evaluation(planned, ledger, tmp_path)
    assert elsewhere["evaluation"]["metrics"]["deviance_explained"]["low"] > 0.1
    spent = ledger.spent("test")
    test = TestData(source=str(tmp_path / "test"), name="test", by="sex")
    by_sex, _ = run_evaluation(prepare_evaluation(second.release, test, ledger, epsilon=2.0), ledger, tmp_path)
    assert list(by_sex["evaluation"]["by"]["groups"]) == ["F", "M", "other"]
    assert ledger.spent("test").amount > spent.amount
    with pytest.raises(NightfitError, match=r"--by names a category of data\.columns, sex; got 'x'"):
        prepare_evaluation(second.release, replace(test, by="x"), ledger, epsilon=1.0)
    ledger.engine.dispose()
    moved = pa.table({**rows, "x": x + 1.0})
    write("shards", moved)
    third = evaluation_of(run(prepare(config)).release)
    assert third is not None
    assert third.checks()["drift of predictions of died"].low > 0.5
    assert third.checks()["drift of predictions of home"].high < 0.5
    assert {"drift of predictions of died", "drift of predictions of home"} <= {one.name for one in shifted(told, third)}
    with pytest.raises(PlanError, match=r"names a category of data\.columns, sex"):
        prepare(parse({**content, "evaluate": {"by": "x"}}, tmp_path))
