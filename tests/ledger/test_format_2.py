"""A ledger and releases of format 2, made before the packages were rebuilt: they open, verify, upgrade and can be used (tests/data)."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import Config, load
from nightfit.ledger import Claim, Ledger, LedgerError, tables, unbound, verify
from nightfit.ledger.history import charges, exported
from nightfit.nightly import balance_of, open_ledger, prepare, publish, reserve, run_fit
from nightfit.privacy.accounting import Currency, tight_epsilon
from nightfit.privacy.events import event_from_dict
from nightfit.release import Release, releases_in
from nightfit.release.burndown import page as burndown_page
from nightfit.release.report import page, summary

DATA = Path(__file__).parents[1] / "data" / "format_2"
RELEASES = [(name, release) for name, release in releases_in(DATA / "releases")]
every_release = pytest.mark.parametrize(("name", "release"), RELEASES, ids=[release.name for _, release in RELEASES])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of the old files, and records of the same kind for new refits."""
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    (tmp_path / "clinic").mkdir()
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2000, 2))
    rows = {"x0": x[:, 0], "x1": x[:, 1], "y": x @ np.array([1.0, -0.5]) + 0.3 * rng.normal(size=2000)}
    pq.write_table(pa.table(rows), tmp_path / "clinic" / "part.parquet")
    return tmp_path


@pytest.fixture
def ledger(place: Path) -> Iterator[Ledger]:
    """The old ledger, upgraded."""
    url = f"sqlite:///{place / 'ledger.db'}"
    assert Ledger.upgrade(url) == (2, tables.VERSION)
    opened = Ledger.open(url)
    yield opened
    opened.engine.dispose()


def claims() -> list[tuple[str, Claim]]:
    return [(name, release.claim) for name, release in RELEASES]


def visits(place: Path, window: str) -> Config:
    """The configuration of the model visits, as it was when the old releases were made."""
    content: dict[str, Any] = {
        "name": "visits",
        "data": {
            "name": "clinic",
            "path": "clinic",
            "target": "y",
            "columns": {name: {"kind": "number", "bounds": [-4, 4]} for name in ("x0", "x1")},
            "window": window,
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace_one", "lifetime": {"epsilon": 20.0, "delta": 1e-5}},
        "model": {"start": "previous"},
        "cluster": {"kind": "synchronous"},
        "output": "releases/clinic",
    }
    (place / "refit.yaml").write_text(yaml.safe_dump(content))
    return load(place / "refit.yaml")


def test_an_old_ledger_is_refused_until_it_is_upgraded(place: Path) -> None:
    url = f"sqlite:///{place / 'ledger.db'}"
    with pytest.raises(LedgerError, match=f"format 2, this nightfit reads format {tables.VERSION}: bring it up"):
        Ledger.open(url)
    said = CliRunner().invoke(app, ["ledger", "upgrade", "--ledger", url])
    assert f"format {tables.VERSION}, brought up from format 2" in " ".join(said.output.split())
    said = CliRunner().invoke(app, ["ledger", "verify", "--ledger", url, "--releases", str(place / "releases")])
    assert said.exit_code == 0, said.output
    assert f"paid for every release ({len(RELEASES)})" in said.output
    assert said.output.count("is unbound") == len(RELEASES)


def test_an_upgraded_ledger_is_whole_and_its_releases_are_unbound(ledger: Ledger) -> None:
    assert verify(ledger, claims()) == []
    assert unbound(ledger, claims()) == [name for name, _ in RELEASES]
    known = set(Currency) - {Currency.APPROXIMATE}  # which that format did not have
    assert {policy.currency for policy in ledger.policies().values()} == known
    assert {run["state"] for run in ledger.runs()} == {"finished", "reserved", "abandoned"}
    assert {name: ledger.single_order(name) for name in ledger.policies()} == {
        "clinic": False,
        "cohort": False,
        "registry": True,  # Poisson samples
        "survey": False,
        "trial": True,  # a repeated search
        "ward": False,
    }


def test_the_old_history_is_read_and_shown(ledger: Ledger) -> None:
    assert {record["state"] for record in exported(ledger)} == {"answered", "reserved", "refunded"}
    for data_set in ledger.policies():
        added = sum(charge.cost.amount for charge in charges(ledger, data_set) for _ in charge.accounts)
        assert added == sum(cost.amount for cost in ledger.accounts(data_set).values())
        assert 0 < balance_of(ledger, data_set).epsilon_spent <= 20
    assert burndown_page(ledger).count("<section>") == len(ledger.policies())


def test_an_unfinished_run_of_format_2_can_be_abandoned(ledger: Ledger) -> None:
    (unfinished,) = (run["run"] for run in ledger.runs() if run["state"] == "reserved")
    before = ledger.spent("clinic")
    refund = ledger.abandon(unfinished)
    assert refund.amount > 0
    assert ledger.spent("clinic") == before - refund
    assert verify(ledger, claims()) == []


@every_release
def test_an_old_release_is_loaded_and_its_report_drawn(ledger: Ledger, name: str, release: Release) -> None:
    events = [event_from_dict(stored) for stored in release.content["events"]]
    assert [event.as_dict() for event in events] == release.content["events"]
    if release.private:
        assert tight_epsilon(events, release.content["guarantee"]["delta"]) == pytest.approx(release.content["guarantee"]["epsilon"])
    balance = balance_of(ledger, release.content["plan"]["data_set"])
    assert release.statement() in " ".join(summary(release, balance).split()).replace("\\", "")
    assert release.content["plan_digest"] in page(release, balance)


def test_an_old_release_predicts_and_is_said_to_be_unbound(place: Path) -> None:
    (release, *_) = sorted((place / "releases" / "clinic").glob("visits-*/release.json"))
    said = CliRunner().invoke(app, ["predict", str(release), str(place / "clinic"), "-o", str(place / "predicted.parquet")])
    assert said.exit_code == 0, said.output
    assert "does not cover its content" in said.output
    predicted = pq.read_table(place / "predicted.parquet").to_pandas()
    coef = json.loads(release.read_text())["coef"]
    assert np.corrcoef(predicted.iloc[:, -1], pq.read_table(place / "clinic")["y"].to_numpy())[0, 1] > 0.9
    assert coef["x0"] == pytest.approx(1.0, abs=0.2)


def test_an_old_release_is_not_started_from_and_the_next_one_is(place: Path, ledger: Ledger) -> None:
    def refit(config: Config) -> Release:
        job, opened = prepare(config), open_ledger(config)
        return publish(job, opened, run_fit(job, opened, reserve(job, opened))).release

    third = refit(visits(place, "night 3"))
    assert third.content["plan"]["start"]["run"] is None, "the releases of nights 1 and 2 are unbound"
    fourth = refit(visits(place, "night 4"))
    assert fourth.content["plan"]["start"]["run"] == third.run_id
    released = [(name, release.claim) for name, release in releases_in(place / "releases")]
    assert verify(ledger, released) == []
    assert len(unbound(ledger, released)) == len(RELEASES) == len(released) - 2


@pytest.mark.parametrize("edit", ["private flag", "events", "plan"])
def test_an_old_release_that_claims_more_than_was_reserved_is_named(ledger: Ledger, edit: str) -> None:
    name, release = next((name, release) for name, release in RELEASES if not release.private)
    changes: dict[str, dict[str, Any]] = {"private flag": {"private": True}, "events": {"events": []}, "plan": {"plan_digest": "0" * 64}}
    (problem,) = verify(ledger, [(name, Claim.of(release.content | changes[edit]))])
    assert f"the {edit} changed since" in problem


def test_a_balance_that_was_edited_before_the_upgrade_is_found_by_the_next_refit(place: Path) -> None:
    with closing(sqlite3.connect(place / "ledger.db")) as connection, connection:
        connection.execute("UPDATE balance SET amount = '0' WHERE data_set = 'clinic'")
    Ledger.upgrade(f"sqlite:///{place / 'ledger.db'}")
    config = visits(place, "night 3")
    job, ledger = prepare(config), open_ledger(config)
    with pytest.raises(LedgerError, match=r"balance of 'clinic' \(block all\) is not what its entries add to"):
        reserve(job, ledger)
