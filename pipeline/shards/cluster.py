"""Where the work runs: in this process, on a local cluster, or on one at an address. Imports dask, distributed."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.types import NightfitError


class ClusterError(NightfitError):
    """The Dask cluster cannot be used or was lost; a started run resumes when the same refit is run again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """A scheduler and worker processes on this machine, gone at the end of the run."""

    workers: int = 2
    memory: str = "1GiB"
    threads: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """A running `dask scheduler` with its workers."""

    address: str
    timeout: float = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Synchronous:
    """Dask's synchronous scheduler in this process: for tests and small data."""


Cluster = Local | Remote | Synchronous

# rows never go to a worker's disk
NO_SPILL = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """A distributed client, or None for the synchronous scheduler."""
    if isinstance(cluster, Synchronous):
        yield None
        return
    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.ERROR)
    if isinstance(cluster, Local):
        with (
            dask.config.set(NO_SPILL),
            LocalCluster(
                n_workers=cluster.workers,
                threads_per_worker=cluster.threads,
                memory_limit=cluster.memory,
                processes=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # None alone still takes port 8787, and warns when it is taken
                silence_logs=logging.ERROR,
            ) as local,
            Client(local) as client,
        ):
            yield client
        return
    try:
        client = Client(cluster.address, timeout=cluster.timeout, set_as_default=False)
    except Exception:
        raise ClusterError(
            f"no Dask scheduler answers at {cluster.address}: start one with `dask scheduler`, or use `cluster: {{kind: local}}`"
        ) from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise ClusterError(f"the Dask scheduler at {cluster.address} has no workers: start some with `dask worker {cluster.address}`")
        yield client
