"""What a refit would refuse its plan refuses, in the same words; and a refused attempt leaves nothing in the ledger."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import Config, load
from nightfit.ledger import BudgetExceeded, Ledger, Policy
from nightfit.nightly import check_reservable, open_ledger, prepare, reserve, run
from nightfit.types import Adjacency, NightfitError

CONTENT: dict[str, Any] = {
    "name": "m",
    "data": {
        "name": "d",
        "path": "shards",
        "target": {"column": "y", "bounds": [-4, 4]},
        "default": {"kind": "number", "bounds": [-4, 4]},
        "window": "night 1",
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
    "method": {"steps": 3},
    "cluster": {"kind": "synchronous"},
}


@pytest.fixture
def configured(tmp_path, table, write):
    """A function that writes and loads the configuration with other sections; the ledger is empty."""
    write("shards", table, [300, 400])

    def make(**sections: Any) -> Config:
        content = {name: {**inner, **sections.get(name, {})} if isinstance(inner, dict) else inner for name, inner in CONTENT.items()}
        content |= {name: inner for name, inner in sections.items() if name not in CONTENT or not isinstance(CONTENT[name], dict)}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return load(tmp_path / "refit.yaml")

    Ledger.create(make().ledger_url).engine.dispose()
    return make


def everything(config: Config) -> list[str]:
    """The ledger, to the last row."""
    with closing(sqlite3.connect(str(config.ledger_url).removeprefix("sqlite:///"))) as connection:
        return list(connection.iterdump())


def of_another_unit(config: Config) -> None:
    Ledger.open(config.ledger_url).set_policy(Policy(data_set="d", unit="id", adjacency=Adjacency.REPLACE_ONE, epsilon=3.0, delta=1e-5))


def of_another_lifetime(config: Config) -> None:
    Ledger.open(config.ledger_url).set_policy(Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, delta=1e-5))


def of_another_name(config: Config) -> None:
    other = config.model_copy(update={"data": config.data.model_copy(update={"name": "e"})})
    run(prepare(other))


def used_up(config: Config) -> None:
    ledger = Ledger.open(config.ledger_url)
    ledger.set_policy(config.policy())
    for number in range(20):
        try:
            later = config.model_copy(update={"data": config.data.model_copy(update={"window": f"earlier {number}"})})
            reserve(prepare(later), ledger)
        except BudgetExceeded:
            return


def planned_otherwise(config: Config) -> None:
    reserve(prepare(config.model_copy(update={"method": config.method.model_copy(update={"steps": 5})})), open_ledger(config))


def restored(config: Config) -> None:
    path = Path(str(config.ledger_url).removeprefix("sqlite:///"))
    shutil.copy(path, path.with_suffix(".older"))
    run(prepare(config))
    shutil.copy(path.with_suffix(".older"), path)


def no_folder(config: Config) -> None:
    config.output_folder.write_text("a file")


BEFORE = [of_another_unit, of_another_lifetime, of_another_name, used_up, planned_otherwise, restored, no_folder]


@pytest.mark.parametrize("before", BEFORE, ids=lambda before: before.__name__)
def test_the_plan_refuses_what_a_refit_refuses_and_neither_leaves_anything(configured, before):
    config = configured()
    before(config)
    kept = everything(config)
    with pytest.raises(NightfitError) as refused:
        run(prepare(config))
    assert everything(config) == kept
    with pytest.raises(NightfitError) as planned:
        check_reservable(prepare(config))
    assert str(planned.value) == str(refused.value)
    assert everything(config) == kept
    said = CliRunner().invoke(app, ["plan", str(config.folder / "refit.yaml")])
    assert said.exit_code != 0


@pytest.mark.parametrize("epsilon", [4.0, 1.0])
def test_a_refused_first_refit_leaves_no_policy_and_a_granted_one_does(configured, epsilon):
    config = configured(privacy={"epsilon": epsilon})
    if epsilon == 1.0:
        run(prepare(config))
        assert Ledger.open(config.ledger_url).policies() == {"d": config.policy()}
        return
    kept = everything(config)
    with pytest.raises(BudgetExceeded):
        run(prepare(config))
    assert everything(config) == kept


def test_a_seeded_refit_that_is_not_allowed_leaves_no_policy(configured):
    config = configured(unsafe={"noise": "none"})
    with pytest.raises(NightfitError, match="--unsafe"):
        run(prepare(config))
    assert Ledger.open(config.ledger_url).policies() == {}


def test_a_plan_leaves_nothing_and_needs_no_ledger(configured):
    config = configured()
    kept = everything(config)
    check_reservable(prepare(config))
    assert everything(config) == kept
    Path(str(config.ledger_url).removeprefix("sqlite:///")).unlink()
    check_reservable(prepare(config))


def test_a_finished_window_can_be_planned_anew(configured):
    run(prepare(configured()))
    check_reservable(prepare(configured(privacy={"epsilon": 0.5})))
