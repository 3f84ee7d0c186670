"""A night that cannot work spends nothing: what is checked before the reservation, and what is given back after it."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import sqlalchemy as sa
import yaml
from distributed import LocalCluster

from nightfit.config import ConfigError, load
from nightfit.ledger import BudgetExceeded, Ledger, LedgerError
from nightfit.ledger.verify import verify
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.shards.failures import ClusterError
from nightfit.types import NightfitError

CONTENT = {
    "name": "m",
    "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}, "window": "night 1"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
    "method": {"steps": 3},
    "cluster": {"kind": "synchronous"},
}


@pytest.fixture
def configured(tmp_path, table, write):
    """A function that writes the configuration with other sections, and loads it; the ledger exists."""
    write("shards", table, [300, 400])

    def make(window="night 1", **sections):
        content = {**CONTENT, **sections, "data": {**CONTENT["data"], "window": window}}
        path = tmp_path / f"{window.replace(' ', '-')}.yaml"
        path.write_text(yaml.safe_dump(content))
        return load(path)

    Ledger.create(make().ledger_url)
    return make


def spent(config):
    return Ledger.open(config.ledger_url).spent("d")


def states(config):
    return [run["state"] for run in Ledger.open(config.ledger_url).runs()]


def reserved(config):
    job, ledger = prepare(config), open_ledger(config)
    return job, ledger, reserve(job, ledger)


def broken(*_, **__):
    raise ClusterError("no worker can be had")


def test_f32_nights_without_a_scheduler_reserve_nothing(configured):
    address = {"address": "tcp://127.0.0.1:9"}
    for night in range(2):
        with pytest.raises(ClusterError, match="no Dask scheduler answers"):
            reserved(configured(f"night {night}", cluster=address))
    assert states(configured()) == []
    assert spent(configured()).amount == 0


def test_f32_an_output_that_cannot_be_written_is_told_before_anything_is_reserved(configured, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ConfigError, match="taken cannot be written"):
        reserved(configured(output="taken"))
    assert states(configured()) == []


@pytest.mark.parametrize("content", ["", "[]", "{", "3", '{"model": 7}', '{"model": "m", "receipt": []}', "\0"])
def test_f32_a_release_that_cannot_be_read_is_named_before_anything_is_reserved(configured, tmp_path, content):
    folder = tmp_path / "releases" / "m-0a1b2c3d"
    folder.mkdir(parents=True)
    (folder / "release.json").write_text(content)
    with pytest.raises(NightfitError, match=r"m-0a1b2c3d"):
        reserved(configured())
    assert states(configured()) == []


def test_f32_a_full_disk_is_told_before_anything_is_reserved(configured, monkeypatch):
    monkeypatch.setattr("nightfit.nightly.readiness.SPARE_BYTES", 2**80)
    with pytest.raises(ConfigError, match="free some space"):
        reserved(configured())
    assert states(configured()) == []


def test_f33_a_run_that_fails_before_its_first_query_gives_everything_back(configured, monkeypatch):
    config = configured()
    with monkeypatch.context() as patch:
        patch.setattr("nightfit.nightly.execution.connected", broken)
        job, ledger, run = reserved(config)
        with pytest.raises(ClusterError, match="no worker can be had"):
            run_fit(job, ledger, run)
    assert states(config) == ["abandoned"]
    assert spent(config).amount == 0
    job, ledger, run = reserved(config)
    publish(job, ledger, run_fit(job, ledger, run))
    assert states(config) == ["abandoned", "finished"]
    assert verify(Ledger.open(config.ledger_url)) == []


def test_f33_a_run_that_fails_after_a_query_was_asked_keeps_its_reservation(configured, monkeypatch):
    config = configured()
    job, ledger, run = reserved(config)
    before = spent(config)
    with monkeypatch.context() as patch:
        patch.setattr("nightfit.shards.dataset.ShardedDataset.aggregate", broken)
        with pytest.raises(ClusterError):
            run_fit(job, ledger, run)
    assert states(config) == ["reserved"]
    assert spent(config) == before


def test_a_query_is_refused_after_the_refund_and_a_refund_after_the_query(configured):
    _, ledger, run = reserved(configured())
    first, *_ = run.events.values()
    assert ledger.abandon_unasked(run.run_id)
    with pytest.raises(LedgerError, match="is abandoned: no more queries"):
        run.asked(first)
    _, ledger, run = reserved(configured())
    run.asked(first)
    assert not ledger.abandon_unasked(run.run_id)
    assert states(configured()) == ["abandoned", "reserved"]


RESERVE = """
import sys, time
from pathlib import Path
from nightfit.config import load
from nightfit.nightly import open_ledger, prepare, reserve
config = load(Path(sys.argv[1]))
job, ledger = prepare(config), open_ledger(config)
run = reserve(job, ledger)
with ledger.hold(run.run_id):
    print("reserved", flush=True)
    time.sleep(600)
"""


@pytest.mark.process
def test_f33_what_a_killed_night_reserved_is_given_back_by_the_next(configured, tmp_path):
    configured("night 1")
    process = subprocess.Popen([sys.executable, "-c", RESERVE, str(tmp_path / "night-1.yaml")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"reserved\n"
    one = spent(configured())
    assert one.amount > 0
    reserved(configured("night 2"))  # the first night is alive: it is left alone
    assert states(configured()) == ["reserved", "reserved"]
    moment = int.from_bytes(os.urandom(1), "big") / 1000
    print(f"killed after {moment} s")
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    reserved(configured("night 3"))
    assert states(configured()) == ["abandoned", "abandoned", "reserved"]
    assert spent(configured()).amount == one.amount


def test_a_refusal_names_unfinished_runs_and_what_they_would_give_back(configured):
    config = configured()
    job, ledger, run = reserved(config)
    run.asked(next(iter(run.events.values())))

    def fill():
        for night in range(40):
            more = reserve(replace(job, window=f"{night}"), ledger)
            more.asked(next(iter(more.events.values())))

    with pytest.raises(BudgetExceeded, match=rf"Unfinished runs .*{run.run_id} \(epsilon 0\.\d+\)"):
        fill()


def test_a_locked_ledger_is_waited_for_once(configured, monkeypatch):
    """LOCK_SECONDS is for one wait: what follows a refusal does not wait again."""
    job, ledger, run = reserved(configured())
    ledger.engine.dispose()
    monkeypatch.setattr("nightfit.ledger.database.LOCK_SECONDS", 0.2)
    waiting = Ledger.open(ledger.url)
    waits = []
    sa.event.listen(waiting.engine, "handle_error", waits.append)
    with ledger.engine.begin(), pytest.raises(LedgerError, match="another process holds it"):
        run_fit(job, waiting, replace(run, engine=waiting.engine))
    assert len(waits) == 1
    waiting.engine.dispose()


@pytest.mark.process
def test_f32_a_worker_without_the_package_s_version_is_told_before_anything_is_reserved(configured, monkeypatch):
    """A real scheduler and worker, whose version is another one than that of this process."""
    quiet = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, **quiet) as cluster, monkeypatch.context() as patch:
        patch.setattr("nightfit.shards.cluster.__version__", "0.0.1")
        with pytest.raises(ClusterError, match=r"has nightfit .* \(here 0.0.1\)"):
            reserved(configured(cluster={"address": cluster.scheduler_address}))
    assert states(configured()) == []
    assert spent(configured()).amount == 0
