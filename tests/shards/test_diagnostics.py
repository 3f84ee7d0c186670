"""What Dask tells about a refit, on request: its dashboard on loopback, and a page that loads nothing and shows no row."""

import re
import socket
import stat
import urllib.request

import psutil
import pytest
import yaml

from nightfit.config import ConfigError, load
from nightfit.ledger import Ledger
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.shards.cluster import Local, connected
from nightfit.shards.diagnostics import dashboard_address, performance_report
from nightfit.shards.failures import ClusterError


@pytest.fixture
def configured(tmp_path, table, write):
    """A function that loads a small refit with this cluster; the ledger exists."""
    write("shards", table, [300, 400])

    def make(**cluster):
        content = {
            "name": "m",
            "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
            "method": {"steps": 2},
            "cluster": cluster,
        }
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return load(tmp_path / "refit.yaml")

    Ledger.create(make().ledger_url).engine.dispose()
    return make


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_page_of_tasks_is_for_its_owner_and_loads_nothing(client, tmp_path):
    with performance_report(client, tmp_path / "tasks.html"):
        assert client.submit(sum, (1, 2)).result() == 3
    page = tmp_path / "tasks.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert "Performance Report" in text
    assert "sum" in text
    assert not re.search(r"<link rel=|<script[^>]* src=", text)


@pytest.mark.sweep
def test_a_refit_writes_the_page_of_its_tasks(configured, tmp_path):
    config = configured(kind="local", workers=1, performance_report="tasks.html")
    job, ledger = prepare(config), open_ledger(config)
    publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))
    assert "stage_in_memory" in (tmp_path / "tasks.html").read_text()


@pytest.mark.process
def test_f47_workers_scheduler_and_dashboard_listen_on_loopback_alone():
    port, us = free_port(), psutil.Process()
    before = {one.laddr for one in us.net_connections() if one.status == psutil.CONN_LISTEN}
    with connected(Local(workers=2, dashboard=port)) as client:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
            assert answer.status == 200
        found = {
            one.laddr
            for process in (us, *us.children(recursive=True))
            for one in process.net_connections()
            if one.status == psutil.CONN_LISTEN
        } - before
        assert len(found) >= 1 + 2 + 1, "a scheduler, two workers and the dashboard"
        assert {place.ip for place in found} == {"127.0.0.1"}
        assert all(worker.startswith("tcp://127.0.0.1:") for worker in client.scheduler_info()["workers"])


@pytest.mark.process
def test_a_port_that_is_taken_and_a_file_that_cannot_be_written_are_told(client, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ClusterError, match=r"cluster.dashboard: port .* cannot be used"):
            dashboard_address(taken.getsockname()[1])
    assert dashboard_address(None) is None
    with pytest.raises(ClusterError, match=r"tasks.html cannot be written"), performance_report(client, tmp_path / "no" / "tasks.html"):
        raise AssertionError("nothing is asked")


@pytest.mark.parametrize("kind", ["auto", "synchronous"])
@pytest.mark.parametrize("asked", [{"performance_report": "tasks.html"}, {"dashboard": 8787}])
def test_where_there_may_be_no_workers_neither_is_promised(configured, kind, asked):
    with pytest.raises(ConfigError, match="say `kind: local`"):
        configured(kind=kind, **asked)
