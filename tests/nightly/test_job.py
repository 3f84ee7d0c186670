"""The steps of a refit as a flow strings them together, on the synchronous scheduler."""

import shutil

import pytest
import yaml

from nightfit.config import load
from nightfit.ledger import Ledger, LedgerError
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.nightly.witness import place_of


@pytest.fixture
def config(tmp_path, table, write):
    write("shards", table, [300, 400])
    content = {
        "name": "m",
        "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "method": {"steps": 3},
        "cluster": {"kind": "synchronous"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    made = load(tmp_path / "refit.yaml")
    Ledger.create(made.ledger_url)
    return made


def refit(config):
    job, ledger = prepare(config), open_ledger(config)
    return publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))


def test_a_refit_is_refused_on_an_older_copy_of_the_ledger(config, tmp_path):
    open_ledger(config)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "older.db")
    refit(config)
    shutil.copy(tmp_path / "older.db", tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="older copy"):
        open_ledger(config)


def test_f41_every_model_of_a_ledger_notices_an_older_copy_of_it(config, tmp_path):
    """Both models keep their releases apart; only one of them was paid by what the copy lacks."""
    first, second = (config.model_copy(update={"name": name, "output": name}) for name in ("first", "second"))
    refit(first)
    refit(second)
    Ledger.open(config.ledger_url).engine.dispose()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "older.db")
    job, ledger = prepare(first), open_ledger(first)
    reserve(job, ledger, again=True)  # charged, and never asked nor released
    ledger.engine.dispose()
    newest = (tmp_path / "ledger.db").read_bytes()
    shutil.copy(tmp_path / "older.db", tmp_path / "ledger.db")
    for model in (first, second):
        with pytest.raises(LedgerError, match="older copy"):
            open_ledger(model)
    (tmp_path / "ledger.db").write_bytes(newest)
    assert [open_ledger(model).ledger_id for model in (first, second)] == [ledger.ledger_id] * 2
    place_of(ledger).unlink()
    shutil.copy(tmp_path / "older.db", tmp_path / "ledger.db")
    open_ledger(second)  # nothing outside of it remembers more


def test_a_lost_release_is_written_again_without_reading_or_paying(config, tmp_path, monkeypatch):
    first = refit(config)
    spent = Ledger.open(config.ledger_url).spent("d")
    shutil.rmtree(tmp_path / "releases")
    monkeypatch.setattr("nightfit.nightly.execution.ShardedDataset", None)
    again = refit(config)
    assert again.release.content == first.release.content
    assert Ledger.open(config.ledger_url).spent("d") == spent
