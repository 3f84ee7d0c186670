"""Real SIGKILL from another process at random, printed moments: one charge and a valid release, or nothing at all."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.config import load
from pipeline.job import prepare
from pipeline.privacy.ledger import Ledger, verify
from pipeline.release import Release

KILLER = """
import json, os, random, signal, sys, time
from pathlib import Path

import numpy as np

from pipeline.config import load
from pipeline.job import open_ledger, prepare, publish, reserve, run_fit
from pipeline.privacy.ledger import tables

import opendp.prelude


def refit(path):
    config = load(path)
    job = prepare(config)
    ledger = open_ledger(config)
    publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))


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
    path, kills = Path(sys.argv[1]), int(sys.argv[2])
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    print("seed", seed, file=sys.stderr)
    # one undisturbed refit of another window warms the process and measures how long a refit takes
    warm = path.with_name("warm.yaml")
    start = time.monotonic()
    refit(warm)
    whole = time.monotonic() - start
    killed, finished = 0, 0
    for _ in range(50 * kills):
        moment = rng.uniform(0, 1.05 * whole)
        child = forked(lambda: refit(path))
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
            print("killed after", round(moment, 4), file=sys.stderr)
        else:
            assert os.WEXITSTATUS(status) == 0, "a refit failed by itself"
            finished += 1
        if killed >= kills:
            break
    child = forked(lambda: refit(path))
    assert os.waitpid(child, 0)[1] == 0
    print(json.dumps({"killed": killed, "finished": finished}))


if __name__ == "__main__":
    main()
"""

BEFORE_COMMIT = """
import sys, time
from pathlib import Path

import sqlalchemy as sa

from pipeline.config import load
from pipeline.job import open_ledger, prepare, reserve

config = load(Path(sys.argv[1]))
job = prepare(config)
ledger = open_ledger(config)


@sa.event.listens_for(ledger.engine, "commit")
def wait(connection):
    print("written", flush=True)
    time.sleep(600)


reserve(job, ledger)
"""


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "shards").mkdir()
    X = rng.uniform(-1, 1, (500, 2))
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": X[:, 0]}), tmp_path / "shards" / "part.parquet")
    content = {
        "name": "m",
        "data": {"name": "d", "path": "shards", "target": "y", "default_bounds": [-1, 1]},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "method": {"steps": 12},
        "cluster": {"kind": "synchronous"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    content["data"]["window"] = "warm"
    (tmp_path / "warm.yaml").write_text(yaml.safe_dump(content))
    Ledger.create(load(tmp_path / "refit.yaml").ledger_url)
    return tmp_path


def run(place, script, *words):
    (place / "script.py").write_text(script)
    return subprocess.run([sys.executable, "script.py", *words], cwd=place, capture_output=True, text=True)


def test_a_refit_killed_at_random_moments_is_charged_once_and_ends_with_one_release(place):
    said = run(place, KILLER, "refit.yaml", "25")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["killed"] == 25, said.stderr
    config = load(place / "refit.yaml")
    ledger = Ledger.open(config.ledger_url)
    cost = prepare(config).plan.cost
    assert ledger.spent("d") == cost + cost, said.stderr  # the warming run and the killed one
    assert [run["state"] for run in ledger.runs()] == ["finished", "finished"]
    releases = sorted((place / "releases").glob("*/release.json"))
    assert len(releases) == 2
    assert verify(ledger, [(path.parent.name, Release.load(path).receipt) for path in releases]) == []


def test_a_driver_killed_before_its_reservation_commits_is_charged_nothing(place):
    (place / "script.py").write_text(BEFORE_COMMIT)
    (place / "warm.yaml").unlink()
    config = load(place / "refit.yaml")
    ledger = Ledger.open(config.ledger_url)
    ledger.set_policy(config.policy())
    with subprocess.Popen([sys.executable, "script.py", "refit.yaml"], cwd=place, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "written\n"
        os.kill(child.pid, 9)
    assert ledger.spent("d").amount == 0
    assert ledger.runs() == []
    assert not (place / "releases").exists()
