"""The whole command killed from outside: one charge and one release, beside the run's Prefect server."""

import random
import signal
import sqlite3
from contextlib import closing

import pytest

from nightfit.config import load
from nightfit.ledger import Ledger, verify
from nightfit.nightly import prepare
from nightfit.release import Release

pytestmark = pytest.mark.process


def test_the_whole_command_killed_three_times_is_charged_once_and_ends_with_one_release(place, forked):
    """At random numbers of entries in the ledger, so that every kill falls into the work and not into the imports."""
    config = load(place / "refit.yaml")
    Ledger.open(config.ledger_url).set_policy(config.policy())
    moments = sorted(random.SystemRandom().sample(range(2, 26), 3))
    print("killed at entries", moments)
    for moment in moments:
        said = forked(place, "refit", "refit.yaml", killed_when=lambda moment=moment: entries(place) >= moment)
        assert said.returncode == -signal.SIGKILL, (moments, said.stderr)
    said = forked(place, "refit", "refit.yaml")
    assert said.returncode == 0, said.stderr
    ledger = Ledger.open(config.ledger_url)
    assert ledger.spent("d") == prepare(config).plan.cost, moments
    assert [run["state"] for run in ledger.runs()] == ["finished"]
    (release,) = (place / "releases").glob("*/release.json")
    assert verify(ledger, [("release", Release.load(release).claim)]) == []


def entries(place):
    """How many entries the chain has, seen from outside without taking the write lock."""
    with closing(sqlite3.connect(f"file:{place / 'ledger.db'}?mode=ro", uri=True, timeout=60)) as connection:
        return connection.execute("SELECT count(*) FROM entry").fetchone()[0]
