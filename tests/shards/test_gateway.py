"""A real dask-gateway server, whose clusters are processes of this machine and speak TLS."""

import contextlib
import gc
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.cluster import Named, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import Manifest, scan
from nightfit.shards.watchdog import workers_of
from nightfit.types import Integers

BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
QUERY = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40)
SERVER = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.address = "127.0.0.1:{0}"
c.Proxy.address = "127.0.0.1:{1}"
c.Proxy.tcp_address = "127.0.0.1:{2}"
c.UnsafeLocalBackend.clusters_directory = "{3}/clusters"
c.UnsafeLocalBackend.inherited_environment = ["PATH", "PYTHONPATH", "HOME", "TMPDIR", "NUMBA_CACHE_DIR"]
c.ClusterConfig.worker_memory = "1 G"
c.ClusterConfig.worker_cmd = ["{4}/dask", "worker"]  # the default, dask-worker, is no command any more
c.ClusterConfig.scheduler_cmd = ["{4}/dask", "scheduler"]
"""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of the server and of the proxy to its schedulers."""
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for one in (a, b, c):
            one.bind(("127.0.0.1", 0))
        server, proxy, schedulers = (one.getsockname()[1] for one in (a, b, c))
    (tmp_path / "clusters").mkdir()
    (tmp_path / "gateway.py").write_text(SERVER.format(server, proxy, schedulers, tmp_path, Path(sys.executable).parent))
    command = [str(Path(sys.executable).parent / "dask-gateway-server"), "--config", "gateway.py"]
    log = tmp_path / "gateway.log"
    with log.open("wb") as handle:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=handle, stderr=handle)
    try:
        until_it_answers(f"http://127.0.0.1:{proxy}/api/version", process, log)
        yield {"address": f"http://127.0.0.1:{proxy}", "proxy_address": f"tls://127.0.0.1:{schedulers}"}
    finally:
        process.terminate()
        process.wait()


def until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the proxy knows its way to the server: it listens before."""
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.status == 200
            return
        time.sleep(0.1)


def aggregated(manifest: Manifest, gateway: dict[str, str]) -> Integers:
    """The query's integers on a cluster of this gateway."""
    with connected(Named(path="dask_gateway.GatewayCluster", arguments=gateway, workers=1, scale=1)) as client:
        assert all(worker.startswith("tls://") for worker in workers_of(client))
        with ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
            return shards.aggregate(QUERY)


def open_clusters(gateway: dict[str, str]) -> list[object]:
    from dask_gateway import Gateway

    with Gateway(**gateway) as server:
        return list(server.list_clusters())


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # dask_gateway's __del__ asks for a loop that it stopped
def test_a_cluster_of_dask_gateway_gives_the_same_integers_and_is_closed(
    gateway: dict[str, str], table: pa.Table, write: Callable[..., Path]
) -> None:
    manifest = scan(str(write("flat", table, [100] * 7)))
    assert (aggregated(manifest, gateway) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()
    assert open_clusters(gateway) == []
    gc.collect()  # what dask_gateway complains of, it complains of here
