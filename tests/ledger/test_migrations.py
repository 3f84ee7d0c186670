"""A ledger of format 1, as the first release of nightfit made it, is upgraded when it is asked to be, whole and spendable."""

import json
import re
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.ledger import Binding, Claim, Ledger, LedgerError, Reservation, chain, database, migrate, tables, unbound, verify
from nightfit.ledger.identity import Identity
from nightfit.privacy.accounting import UNIT, Currency, cost, limit
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency

ROOT = Path(__file__).parents[2]

# what format 1 was: its tables as SQLAlchemy wrote them, and a chain that begins with zeros
FORMAT_1 = """
CREATE TABLE identity (ledger_id TEXT NOT NULL, version INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (ledger_id));
CREATE TABLE entry (seq INTEGER NOT NULL, kind TEXT NOT NULL, data_set TEXT NOT NULL, run TEXT, label TEXT, body TEXT NOT NULL,
    previous TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (seq));
CREATE INDEX entry_by_question ON entry (run, kind, label);
CREATE TABLE policy (data_set TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (data_set));
CREATE TABLE balance (data_set TEXT NOT NULL, block TEXT NOT NULL, amount TEXT NOT NULL, mass TEXT NOT NULL, PRIMARY KEY (data_set, block));
CREATE TABLE run (run TEXT NOT NULL, seq INTEGER NOT NULL, key TEXT NOT NULL, counter INTEGER NOT NULL, secret TEXT NOT NULL,
    model TEXT NOT NULL, data_set TEXT NOT NULL, plan TEXT NOT NULL, manifest TEXT NOT NULL, manifest_id TEXT NOT NULL,
    private BOOLEAN NOT NULL, state TEXT NOT NULL, started TEXT NOT NULL, PRIMARY KEY (run), UNIQUE (key, counter));
CREATE TABLE file (fingerprint TEXT NOT NULL, data_set TEXT NOT NULL, PRIMARY KEY (fingerprint));
"""
KEY = "5a" * 32
POLICY = {
    "data_set": "clinic", "unit": "record", "adjacency": "zero_out", "epsilon": 1.0, "delta": 1e-6, "currency": "gaussian", "blocks": "all",
}  # fmt: skip
LIMIT = limit(1.0, 1e-6, Currency.GAUSSIAN)
EVENTS = tuple(
    GaussianEvent(
        label=f"step {number}",
        sensitivity=2.0**30,
        sigma=2.0**30 / (0.1 * float(LIMIT.amount * UNIT)) ** 0.5,
        coordinates=3,
        adjacency=Adjacency.ZERO_OUT,
    )
    for number in (1, 2)
)
ORDER = Reservation(
    model="visits", data_set="clinic", unit="record", plan="plan", events=EVENTS, window="w", manifest="m", files=("1000:aaaa",)
)
RUN = "visits-0badcafe"


def old(connection: sa.Connection) -> None:
    """Fill an empty database with a ledger of format 1 that has an unfinished run with one answer."""
    for statement in FORMAT_1.split(";"):
        if statement.strip():
            connection.execute(sa.text(statement))
    keyed = Identity("", bytes.fromhex(KEY)).keyed
    price = cost(EVENTS, Currency.GAUSSIAN)
    events = [event.as_dict() for event in EVENTS]
    paid = [str(price.amount), str(price.mass)]
    bodies = [
        ("policy", None, None, POLICY),
        ("reserved", RUN, None, {"cost": paid, "currency": "gaussian", "blocks": ["all"], "plan": "plan", "private": True,
                                 "started": "2026-11-14T02:00:00+00:00", "events": events}),
        ("asked", RUN, "step 1", {"event": events[0]}),
        ("answered", RUN, "step 1", {"answer": [7, 8, 9]}),
    ]  # fmt: skip
    previous = "0" * 64
    for seq, (kind, run, label, body) in enumerate(bodies, start=1):
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        digest = chain.digest_of(seq, kind, "clinic", run, label, text, previous)
        row = {
            "seq": seq,
            "kind": kind,
            "data_set": "clinic",
            "run": run,
            "label": label,
            "body": text,
            "previous": previous,
            "digest": digest,
        }
        connection.execute(tables.entry.insert().values(**row))
        previous = digest
    connection.execute(tables.identity.insert().values(ledger_id="0123456789abcdef", version=1, key=KEY))
    connection.execute(tables.policy.insert().values(data_set="clinic", body=json.dumps(POLICY)))
    connection.execute(tables.balance.insert().values(data_set="clinic", block="all", amount=price.amount, mass=price.mass))
    connection.execute(sa.text("INSERT INTO file VALUES (:print, 'clinic')"), {"print": keyed("file", "1000:aaaa")})
    connection.execute(
        tables.run.insert().values(
            run=RUN, seq=2, key=keyed("run", "visits", "clinic", "w"), counter=0, secret="00" * 16, model="visits", data_set="clinic",
            plan="plan", manifest=keyed("manifest", "m"), manifest_id="feed", private=True, state="reserved",
            started="2026-11-14T02:00:00+00:00",
        )
    )  # fmt: skip


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.process)])
def url(request, tmp_path):
    if request.param == "sqlite":
        (tmp_path / "ledger.db").touch()
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("postgresql_url")


def test_an_old_ledger_is_refused_then_upgraded_and_goes_on_where_it_was(url):
    engine = database.connect(url)
    database.durable(engine, old)
    with pytest.raises(
        LedgerError, match=rf"format 1, this nightfit reads format {tables.VERSION}: bring it up with `nightfit ledger upgrade"
    ):
        Ledger.open(url)
    said = CliRunner().invoke(app, ["ledger", "upgrade", "--ledger", url])
    assert said.exit_code == 0, said.output
    assert f"format {tables.VERSION}, brought up from format 1" in " ".join(said.output.split())
    assert Ledger.upgrade(url) == (tables.VERSION, tables.VERSION)
    ledger = Ledger.open(url)
    assert verify(ledger) == []
    run = ledger.reserve(ORDER)
    assert run.run_id == RUN
    assert run.asked(EVENTS[0]).tolist() == [7, 8, 9]
    assert run.asked(EVENTS[1]) is None
    run.answered(EVENTS[1], np.array([1, 2, 3]))
    content = {"run": RUN, "private": True, "plan_digest": "plan", "events": [event.as_dict() for event in EVENTS]}
    claim = Claim.of({**content, "receipt": run.finish(Binding.of(content)).as_dict()})
    assert ledger.spent("clinic") == cost(EVENTS, Currency.GAUSSIAN)
    assert verify(ledger, [("release", claim)]) == unbound(ledger, [("release", claim)]) == []
    ledger.set_policy(replace(ledger.policies()["clinic"], data_set="copy"))
    with pytest.raises(LedgerError, match="data: name: clinic"):
        ledger.reserve(replace(ORDER, data_set="copy"))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE identity SET key = '00'"))
        connection.execute(sa.text("UPDATE file SET data_set = 'other'"))
        connection.execute(sa.text("UPDATE run SET plan = 'another'"))
    identity, changed, listed = verify(ledger)
    assert identity == "the identity of the ledger is not the one recorded"
    assert changed == f"run {RUN} is not the one recorded"
    assert listed.startswith("the file ")
    ledger.engine.dispose()
    engine.dispose()


def test_a_new_ledger_has_the_tables_that_the_code_names(tmp_path):
    Ledger.create(f"sqlite:///{tmp_path / 'new.db'}").engine.dispose()
    bare = sa.create_engine(f"sqlite:///{tmp_path / 'bare.db'}")
    tables.metadata.create_all(bare)

    def columns(path):
        with closing(sqlite3.connect(path)) as connection:
            names = [
                name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'alembic_version'")
            ]
            return {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}

    assert columns(tmp_path / "new.db") == columns(tmp_path / "bare.db")
    bare.dispose()


@pytest.mark.process
def test_every_migration_is_in_the_wheel(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    if "No module named hatchling" in built.stderr:
        included = re.search(r'packages = \["pipeline/nightfit", "flows/nightfit_flows"\]', (ROOT / "pyproject.toml").read_text())
        assert included, "hatch packs every file of these folders"
        return
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    packed = zipfile.ZipFile(wheel).namelist()
    there = [str(path.relative_to(ROOT / "pipeline")) for path in migrate.MIGRATIONS.rglob("*.py")]
    assert len(there) >= 4
    assert set(there) <= set(packed)
