"""`nightfit evaluate`: a released model on labelled data of its own, paid for by that data's policy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import r2_score
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import Config
from nightfit.ledger import Ledger, Policy, verify
from nightfit.ledger.history import chain_records
from nightfit.nightly import Published, prepare, run
from nightfit.privacy.accounting import Cost
from nightfit.types import Adjacency, NightfitError
from nightfit.verifier import verify as confirm

Night = Callable[..., Config]
POLICY = Policy(data_set="test", epsilon=4.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    columns = {f"x{j}": rng.uniform(-2, 2, 3000) for j in range(3)}
    return pa.table({**columns, "y": columns["x0"] - columns["x1"] + rng.normal(0, 1, 3000)})


@pytest.fixture
def release(night: Night, write: Callable[..., Path], table: pa.Table) -> Published:
    """A night's release, and other records in `test`, without a policy yet."""
    made = run(prepare(night("1", method={"solver": "proximal_gradient", "steps": 8, "bound": 1.0})))
    write("test", pa.table({name: table[name].to_numpy()[::-1] + 0.0 for name in table.column_names}))
    return made


def asked(made: Published, folder: Path, *options: str) -> Any:
    command = ["evaluate", str(made.release_path), str(folder / "test"), "--ledger", f"sqlite:///{folder / 'ledger.db'}", *options]
    return CliRunner().invoke(app, command)


def test_a_release_is_judged_on_data_that_pay_for_it(release: Published, tmp_path: Path) -> None:
    refused = asked(release, tmp_path, "--epsilon", "2")
    assert "no policy for 'test'" in str(refused.exception)
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.set_policy(POLICY)
    before = ledger.spent("clinic")
    found = json.loads(asked(release, tmp_path, "--epsilon", "2", "--json").stdout)
    assert found["private"]
    assert "exact" not in found["evaluation"]
    assert found["guarantee"]["epsilon"] <= 2.0
    assert found["guarantee"]["assumptions"] == [
        "exact_integers",
        "bounds_are_public",
        "row_count_is_public",
        "records_are_units",
        "one_ledger",
        "entropy_is_secret",
    ]
    assert found["evaluation"]["main"] == "r2"
    assert ledger.spent("clinic") == before
    spent = ledger.spent("test")
    assert spent.amount > 0
    assert json.loads(Path(found["path"]).read_text())["receipt"]["ledger_id"] == ledger.ledger_id
    stranger = confirm(json.loads(Path(found["path"]).read_text()), chain_records(ledger))
    assert (stranger.wrong, len(stranger.found)) == ((), 6)
    assert "--by names a category of data.columns" in str(asked(release, tmp_path, "--epsilon", "2", "--by", "x0").exception)
    again = json.loads(asked(release, tmp_path, "--epsilon", "2", "--json").stdout)
    assert again["evaluation"] == found["evaluation"]
    assert ledger.spent("test") == spent
    assert "does not fit the lifetime budget" in str(asked(release, tmp_path, "--epsilon", "4", "--again").exception)
    assert verify(ledger) == []
    ledger.engine.dispose()


def test_trusted_numbers_are_exact_entered_in_the_chain_and_not_private(release: Published, tmp_path: Path, table: pa.Table) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.set_policy(POLICY)
    assert "add --unsafe" in str(asked(release, tmp_path, "--epsilon", "1", "--trusted").exception)
    assert ledger.runs()[-1]["data_set"] == "clinic"
    found = json.loads(asked(release, tmp_path, "--epsilon", "1", "--trusted", "--unsafe", "--json").stdout)
    assert (found["private"], found["guarantee"]) == (False, None)
    last = ledger.runs()[-1]
    assert (last["data_set"], last["private"], last["state"]) == ("test", False, "finished")
    content = release.release.content
    X = np.column_stack([np.clip(table[name].to_numpy(), -4, 4) for name in content["features"]])
    predicted = X @ [content["coef"][name] for name in content["features"]] + content["intercept"]
    r2 = r2_score(table["y"].to_numpy(), predicted)
    assert found["evaluation"]["metrics"]["r2"]["value"] == pytest.approx(r2, abs=1e-3), "of errors in bins"
    assert found["evaluation"]["exact"]["r2"] == pytest.approx(r2, rel=1e-9)
    shown = asked(release, tmp_path, "--epsilon", "1", "--trusted", "--unsafe")
    assert "NOT PRIVATE" in shown.stdout
    assert f"{r2:.6g}" in shown.stdout
    assert verify(ledger) == []
    ledger.engine.dispose()


def test_what_is_told_of_a_release_that_is_not_private_is_not_either(night: Night, write: Callable[..., Path], tmp_path: Path) -> None:
    made = run(prepare(night("1", unsafe={"noise": "none"}, method={"solver": "proximal_gradient", "steps": 1, "bound": 1.0})), unsafe=True)
    assert "is not private, so what is told of it is not either" in str(asked(made, tmp_path, "--epsilon", "1").exception)
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert [one["model"] for one in ledger.runs()] == [made.release.name]
    ledger.engine.dispose()


@pytest.mark.parametrize("budget", [("--epsilon", "0"), ("--epsilon", "nan"), ("--epsilon", "31"), ("--epsilon", "1", "--delta", "0")])
def test_what_is_no_budget_is_refused_by_name(release: Published, tmp_path: Path, budget: tuple[str, ...]) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.set_policy(POLICY)
    refused = asked(release, tmp_path, *budget).exception
    assert isinstance(refused, NightfitError)
    assert f"{budget[-2].strip('-')} must be a number from" in str(refused)
    assert ledger.spent("test") == Cost()
    ledger.engine.dispose()
