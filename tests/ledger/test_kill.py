"""Real SIGKILL from another process at random, printed moments: one charge and a valid release, or nothing at all."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
import sqlalchemy as sa

from nightfit.config import load
from nightfit.ledger import Ledger, chain, verify
from nightfit.nightly import open_ledger, prepare, reserve, run_fit
from nightfit.privacy.accounting import Cost
from nightfit.release import Release

KILLER = """
import json, os, random, signal, sys, time
from pathlib import Path

import numpy as np

from nightfit.config import load
from nightfit.nightly import open_ledger, prepare, reserve, run_fit

import opendp.prelude


def refit(config):
    job = prepare(config)
    ledger = open_ledger(config)
    release = run_fit(job, ledger, reserve(job, ledger))
    release.save(config.output_folder / release.run_id)  # no report: drawing it would take most of the moments


def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return child


def main():
    settings, kills = load(Path(sys.argv[1])), int(sys.argv[2])
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    print("seed", seed, file=sys.stderr)

    def window(number):
        return settings.model_copy(update={"data": settings.data.model_copy(update={"window": f"night {number}"})})

    refit(window(0))  # warms the process
    start = time.monotonic()
    refit(window(1))
    whole = time.monotonic() - start
    killed, night = 0, 2
    while killed < kills:
        moment = rng.uniform(0, 1.05 * whole)
        child = forked(lambda: refit(window(night)))
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
            print("killed after", round(moment, 4), "in night", night, file=sys.stderr)
        else:
            assert os.WEXITSTATUS(status) == 0, "a refit failed by itself"
            night += 1
    child = forked(lambda: refit(window(night)))
    assert os.waitpid(child, 0)[1] == 0
    print(json.dumps({"killed": killed, "nights": night + 1}))


if __name__ == "__main__":
    main()
"""


def run(place, script, *words):
    (place / "script.py").write_text(script)
    return subprocess.run([sys.executable, "script.py", *words], cwd=place, capture_output=True, text=True)


@pytest.mark.parametrize("kills", [pytest.param(15, marks=pytest.mark.process), pytest.param(100, marks=pytest.mark.sweep)])
def test_a_refit_killed_at_random_moments_is_charged_once_and_ends_with_one_release(place, kills):
    said = run(place, KILLER, "refit.yaml", str(kills))
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert told["killed"] == kills, said.stderr
    print(said.stderr)
    config = load(place / "refit.yaml")
    ledger = Ledger.open(config.ledger_url)
    cost = prepare(config).plan.cost
    assert ledger.spent("d") == Cost(cost.amount * told["nights"], cost.mass * told["nights"]), said.stderr
    assert [run["state"] for run in ledger.runs()] == ["finished"] * told["nights"]
    releases = sorted((place / "releases").glob("*/release.json"))
    assert len(releases) == told["nights"]
    assert verify(ledger, [(path.parent.name, Release.load(path).claim) for path in releases]) == []


def stopped(place, kind, number):
    """A forked driver that is killed just before the commit of the entry `kind` of this number, or before its release is written."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _drive_until(place, kind, number, told)
        finally:
            os._exit(1)
    os.close(told)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _drive_until(place, kind, number, told):
    seen, append, save = [], chain.append, Release.save

    def wait():
        os.write(told, b"!")
        time.sleep(600)

    def appended(connection, what, *given, **more):
        entry = append(connection, what, *given, **more)
        seen.extend([entry] if what == kind else [])
        return entry

    def saved(release, folder):
        return wait() if kind == "release" else save(release, folder)

    chain.append, Release.save = appended, saved
    config = load(place / "refit.yaml")
    job, ledger = prepare(config), open_ledger(config)
    sa.event.listen(ledger.engine, "commit", lambda _: wait() if len(seen) == number and kind != "release" else None)
    release = run_fit(job, ledger, reserve(job, ledger))
    release.save(config.output_folder / release.run_id)


@pytest.mark.process
def test_a_driver_killed_before_its_reservation_commits_is_charged_nothing(place):
    config = load(place / "refit.yaml")
    ledger = Ledger.open(config.ledger_url)
    ledger.set_policy(config.policy())
    stopped(place, "reserved", 1)
    assert ledger.spent("d").amount == 0
    assert ledger.runs() == []
    assert not (place / "releases").exists()


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "number", "kept"),
    [("answered", 1, 0), ("answered", 12, 11), ("finished", 1, 12), ("release", 0, 12)],
    ids=["f2 first answer", "f2 last answer", "f3 after the last step", "f3 before the release"],
)
def test_a_driver_killed_between_an_answer_and_its_commit_resumes_under_one_charge(place, kind, number, kept):
    """F2, F3, F5: what was not committed is gone, what was is used again; and no checkpoint is left that could be torn."""
    config = load(place / "refit.yaml")
    stopped(place, kind, number)
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        before = connection.execute("SELECT packed FROM answer ORDER BY seq").fetchall()
    assert len(before) == kept
    assert {path.name.split(".")[0] for path in place.rglob("*") if path.is_file()} == {"ledger", "part", "refit"}
    job, ledger = prepare(config), open_ledger(config)
    release = run_fit(job, ledger, reserve(job, ledger))
    release.save(config.output_folder / release.run_id)
    with closing(sqlite3.connect(place / "ledger.db")) as connection:
        after = connection.execute("SELECT label, packed FROM entry JOIN answer USING (seq) ORDER BY seq").fetchall()
    assert [body for _, body in after][:kept] == [body for (body,) in before]
    assert len({label for label, _ in after}) == len(after) == 12
    assert ledger.spent("d") == job.plan.cost
    assert [run["state"] for run in ledger.runs()] == ["finished"]
    assert verify(ledger, [("release", release.claim)]) == []


@pytest.mark.process
def test_a_release_that_the_disk_does_not_hold_is_written_when_there_is_room(place):
    """F7: no file but the ledger and the release is ever written; a release is whole or not there, and costs nothing to write again."""
    config = load(place / "refit.yaml")
    job, ledger = prepare(config), open_ledger(config)
    release = run_fit(job, ledger, reserve(job, ledger))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            release.save(config.output_folder / release.run_id)
        except OSError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert [path for path in (place / "releases").rglob("*") if path.is_file()] == []
    again = run_fit(job, ledger, reserve(job, ledger))
    again.save(config.output_folder / again.run_id)
    assert again.content == release.content
    assert ledger.spent("d") == job.plan.cost
