"""Clusters by name: classes, functions, living clients; scaled, waited for, and closed if they were opened here. Real ones."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from distributed import Client, LocalCluster

from nightfit import refit
from nightfit.cli.results import progress, told_of_workers
from nightfit.config import ConfigError, load
from nightfit.ledger import Ledger
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.cluster import Named, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.failures import ClusterError
from nightfit.shards.manifest import Manifest, scan
from nightfit.shards.waiting import wait_for_workers
from nightfit.shards.watchdog import workers_of

BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
QUERY = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40)
QUIET = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
SITE = """
from distributed import Client, LocalCluster

made = []

def cluster(nodes):
    made.append(LocalCluster(n_workers=nodes, threads_per_worker=1, processes=False, dashboard_address=None,
                             scheduler_kwargs={"dashboard_address": "127.0.0.1:0"}))
    return made[-1]

def client(nodes):
    return Client(cluster(nodes), set_as_default=False)
"""


@pytest.fixture
def manifest(table: pa.Table, write: Callable[..., Path]) -> Manifest:
    return scan(str(write("flat", table, [100] * 7)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of this site's clusters."""
    (tmp_path / "site_functions.py").write_text(SITE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for cluster in sys.modules.pop("site_functions").made:  # type: ignore[attr-defined]
        cluster.close()


def same_integers(manifest: Manifest, cluster: Named, workers: int) -> None:
    """A query over the cluster, which has so many workers, gives what it gives in this process."""
    with connected(cluster) as client:
        assert len(workers_of(client)) == workers
        with ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
            assert (shards.aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()


@pytest.mark.process
def test_a_script_that_each_worker_would_run_again_is_told_where_its_work_belongs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from nightfit.shards.cluster import Local, connected\nwith connected(Local(workers=1)):\n    print('worked')\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if line.startswith(("nightfit.", "RuntimeError"))]
    assert (done.returncode, done.stdout, len(errors)) == (1, "", 2), "one of the worker, one of the script"
    assert all('put what your script does under `if __name__ == "__main__":`' in line for line in errors)


@pytest.mark.process
def test_what_is_no_scheduler_is_told_by_our_message_alone() -> None:
    """A server of another kind answers; nothing of a client that came to nothing is left when the process ends."""
    program = (
        "import sys\nfrom nightfit.shards.cluster import Remote, connected\nfrom nightfit.types import NightfitError\n"
        "try:\n    with connected(Remote(address=sys.argv[1], timeout=5)):\n        pass\n"
        "except NightfitError as error:\n    print(error, file=sys.stderr)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen([sys.executable, "-c", program, address], stderr=subprocess.PIPE, text=True) as asking:
            with server.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
            told = asking.communicate()[1].splitlines()
    assert len(told) == 1, told
    assert told[0].startswith(f"no Dask scheduler answers at {address}: start one with `dask scheduler`")


@pytest.mark.process
@pytest.mark.usefixtures("site")
def test_a_function_that_returns_a_cluster_or_a_client_is_as_good_as_a_class(manifest: Manifest) -> None:
    same_integers(manifest, Named(path="site_functions.client", arguments={"nodes": 2}, workers=2), 2)
    same_integers(manifest, Named(path="site_functions.cluster", arguments={"nodes": 1}, workers=3, scale=3), 3)
    same_integers(manifest, Named(path="site_functions.cluster", arguments={"nodes": 0}, workers=2, adapt=(2, 2)), 2)


@pytest.mark.process
def test_a_living_client_is_used_and_not_closed(tmp_path: Path, table: pa.Table, write: Callable[..., Path]) -> None:
    write("shards", table)
    content = {
        "name": "visits",
        "data": {"name": "clinic", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "method": {"solver": "proximal_gradient", "steps": 3},
        "cluster": {"address": "tcp://127.0.0.1:9"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    config = load(tmp_path / "refit.yaml")
    Ledger.create(config.ledger_url).engine.dispose()
    with LocalCluster(n_workers=1, processes=False, **QUIET) as cluster, Client(cluster, set_as_default=False) as client:
        assert refit(config, client=client).private
        assert client.status == "running"
        assert len(workers_of(client)) == 1


@pytest.mark.process
def test_how_many_of_how_many_workers_have_come_is_a_line_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def wait(quiet: bool) -> str:
        with LocalCluster(n_workers=1, processes=False, **QUIET) as cluster, Client(cluster, set_as_default=False) as client:
            with progress(quiet, 100, "starting"), pytest.raises(ClusterError, match="has 1 of 3"):
                wait_for_workers(client, 3, 0.2, "the cluster")
            cluster.scale(2)
            with told_of_workers(quiet):
                wait_for_workers(client, 2, 60.0, "the cluster")
                wait_for_workers(client, 1, 60.0, "the cluster")
        return capsys.readouterr().err

    assert "waiting for workers: 1 of 3 have come\n" in wait(quiet=False)
    assert wait(quiet=True) == ""


def test_more_workers_than_are_asked_for_are_not_waited_for(tmp_path: Path) -> None:
    def configured(**cluster: object) -> None:
        section = {"class": "distributed.LocalCluster", **cluster}
        content = {"name": "m", "data": {"path": "s", "target": "y"}, "privacy": {"epsilon": 1.0, "delta": 1e-6}, "cluster": section}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        load(tmp_path / "refit.yaml")

    configured(scale=4, workers=4)
    configured(adapt={"minimum": 0, "maximum": 4}, workers=4)
    with pytest.raises(ConfigError, match="it would wait in vain"):
        configured(scale=3, workers=4)
    with pytest.raises(ConfigError, match="give one of them"):
        configured(scale=3, adapt={"minimum": 0, "maximum": 4})


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # dask_jobqueue leaves its processes to the system
def test_a_cluster_of_dask_jobqueue(manifest: Manifest, tmp_path: Path) -> None:
    """Its jobs are processes of this machine."""
    log = {"log_directory": str(tmp_path), "local_directory": str(tmp_path), "scheduler_options": {"dashboard_address": "127.0.0.1:0"}}
    arguments = {"cores": 1, "memory": "1GB", "processes": 1, "interface": "lo", "worker_extra_args": ["--no-dashboard"], **log}
    same_integers(manifest, Named(path="dask_jobqueue.local.LocalCluster", arguments=arguments, workers=2, scale=2), 2)
