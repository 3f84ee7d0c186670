"""Connect to a cluster: none (this process), a local one, one at an address, or one of any class. Imports dask, distributed."""

import contextlib
import functools
import gc
import importlib
import logging
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np

from nightfit._version import __version__
from nightfit.shards import watchdog
from nightfit.shards.certificates import Certificates, security_of
from nightfit.shards.diagnostics import dashboard_address
from nightfit.shards.failures import ClusterError, started
from nightfit.shards.waiting import wait_for_workers
from nightfit.shards.watchdog import call_workers

IN_PROCESS_BYTES = 2**26
"""Decoded rows that one process sums in less time than a local cluster takes to start: about 30 passes of `auto` over 64 MiB."""

ANSWERED = 20.0  # seconds for a running scheduler to answer, and to name a worker: loaded ones were seen to take ten

Versions = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """A scheduler and worker processes on this machine, for the length of a run.

    `directory` is for decoded rows; `dashboard` is the port of Dask's dashboard, on loopback.
    """

    workers: int = 2
    memory: str = "1GiB"
    threads: int = 1
    directory: str | None = None
    dashboard: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Remote:
    """A running `dask scheduler` with its workers."""

    address: str
    timeout: float = ANSWERED
    certificates: Certificates | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A cluster made for one run, by the import path of its class or of a function that returns a cluster or a client.

    Of `distributed`, dask_gateway, dask_jobqueue, dask_kubernetes and the like. It is scaled to so many workers if `scale` is given, or
    between two numbers if `adapt` is.
    """

    path: str
    arguments: dict[str, Any] = field(default_factory=dict)
    workers: int = 1
    scale: int | None = None
    adapt: tuple[int, int] | None = None
    timeout: float = 300.0
    certificates: Certificates | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Living:
    """A client that is connected already, with its cluster; neither is closed here."""

    client: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Synchronous:
    """Dask's synchronous scheduler in this process: for tests and small data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Auto:
    """This process if the decoded rows have at most IN_PROCESS_BYTES, else a local cluster."""

    local: Local = field(default_factory=Local)


Cluster = Auto | Local | Remote | Named | Living | Synchronous

# rows go to a worker's disk only through staging, a chunk is summed where it is, and a worker that keeps rows does not pause until its
# memory use falls
SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.profile.enabled": False,
}


def chosen(cluster: Cluster, data_bytes: int) -> Cluster:
    """The cluster for so many bytes of decoded rows: `Auto` becomes one of the others."""
    if not isinstance(cluster, Auto):
        return cluster
    return Synchronous() if data_bytes <= IN_PROCESS_BYTES else cluster.local


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """A distributed client whose workers have this process's versions, or None for the synchronous scheduler. `Auto` must be `chosen`."""
    if isinstance(cluster, Synchronous):
        yield None
        return
    import distributed  # noqa: F401  (it sets its loggers up when it is imported)

    _silence()
    kinds: dict[type, Any] = {Local: _local, Remote: _remote, Named: _named, Living: _living}
    with kinds[type(cluster)](cluster) as client:
        check_versions(client)
        yield client


def _silence() -> None:
    """Of what happens to a cluster the user reads our message, not the tracebacks that Dask logs before it.

    Dask gives each of its loggers a level of its own when it is imported, so that the level of the one above counts for none of them.
    """
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def versions() -> Versions:
    """Versions that all workers must share, so that their integers are the same."""
    return (
        ("nightfit", __version__),
        ("Python", ".".join(platform.python_version_tuple()[:2])),
        ("numba", numba.__version__),
        ("numpy", np.__version__),
    )


def check_versions(client: Any) -> None:
    """Refuse a worker with another version of nightfit, Python, numba or numpy, before anything is asked.

    A worker that is slow to import nightfit is waited for; one that sends no heartbeat is not.
    """
    ours = versions()
    try:
        found = call_workers(client, versions)
    except ClusterError:
        raise
    except Exception as error:
        raise ClusterError(f"the Dask workers did not tell their versions ({type(error).__name__}): check their logs") from None
    if found is None:
        raise ClusterError(f"a Dask worker sent no heartbeat for {watchdog.WORKER_SILENCE:g} seconds (frozen or overloaded?): restart it")
    for worker, theirs in found.items():
        if isinstance(theirs, OSError):
            raise ClusterError(f"the Dask worker {worker} was lost at the start (out of memory?): raise cluster.memory, or check its log")
        if isinstance(theirs, BaseException):
            raise ClusterError(f"the Dask worker {worker} cannot import nightfit {__version__}: install the same version there")
        pairs = zip(ours, theirs, strict=False)
        different = [f"{name} {there} (here {here})" for (name, here), (_, there) in pairs if here != there]
        if different or len(theirs) != len(ours):
            raise ClusterError(f"the Dask worker {worker} has {', '.join(different) or 'another nightfit'}: give all one environment")


@contextlib.contextmanager
def _local(cluster: Local) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    dashboard = dashboard_address(cluster.dashboard)
    make = functools.partial(
        LocalCluster,
        n_workers=cluster.workers,
        threads_per_worker=cluster.threads,
        memory_limit=cluster.memory,
        processes=True,
        dashboard_address=dashboard,
        scheduler_kwargs={"dashboard_address": dashboard or "127.0.0.1:0"},  # None alone takes port 8787, and warns when it is taken
        silence_logs=logging.CRITICAL,
        local_directory=cluster.directory,
    )
    with dask.config.set(SETTINGS), started(make) as local, Client(local) as client:
        yield client


@contextlib.contextmanager
def _remote(cluster: Remote) -> Iterator[Any]:
    from distributed import Client

    if cluster.certificates is not None and not cluster.address.startswith("tls://"):
        raise ClusterError(f"cluster.security needs a tls:// address, got {cluster.address}: a plain connection would not use it")
    client, security = None, security_of(cluster.certificates)
    with contextlib.suppress(Exception):
        client = Client(cluster.address, timeout=cluster.timeout, set_as_default=False, security=security)
    if client is None:
        gc.collect()  # what is left of the client: it would be closed when the process ends, and wait for 40 seconds
        encrypted = "; or its certificates and ours do not fit (authority, dates)" if cluster.address.startswith("tls://") else ""
        raise ClusterError(
            f"no Dask scheduler answers at {cluster.address}: start one with `dask scheduler`, or use `cluster: {{kind: local}}`{encrypted}"
        )
    with client:
        try:
            client.wait_for_workers(1, timeout=cluster.timeout)  # they may be starting
        except TimeoutError:
            raise ClusterError(
                f"the Dask scheduler at {cluster.address} has no workers: start some with `dask worker {cluster.address}`"
            ) from None
        yield client


@contextlib.contextmanager
def _living(cluster: Living) -> Iterator[Any]:
    wait_for_workers(cluster.client, 1, ANSWERED, "the Dask client's cluster")
    yield cluster.client


@contextlib.contextmanager
def _named(cluster: Named) -> Iterator[Any]:
    import dask

    made_by, security = _imported(cluster.path), security_of(cluster.certificates)
    secured = {} if security is None else {"security": security}
    with dask.config.set(SETTINGS), contextlib.ExitStack() as stack:
        with _making(cluster):
            client = _client_of(made_by(**cluster.arguments, **secured), cluster, secured, stack)
        wait_for_workers(client, cluster.workers, cluster.timeout, cluster.path)
        yield client


def _client_of(made: Any, cluster: Named, secured: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    """A client of what a class or a function made, which is closed with the stack: a cluster, or a client already."""
    from distributed import Client
    from distributed.deploy import Cluster

    if not hasattr(made, "__enter__") or not (hasattr(made, "scheduler_address") or isinstance(made, Client)):
        raise ClusterError(
            f"{cluster.path} gave a {type(made).__name__}, which is no Dask cluster and no client: name a cluster class, or a function "
            "that returns a cluster or a client"
        )
    stack.enter_context(made)
    if isinstance(made, Client):
        return made
    if cluster.scale is not None:
        made.scale(cluster.scale)
    if cluster.adapt is not None:
        made.adapt(minimum=cluster.adapt[0], maximum=cluster.adapt[1])
    if isinstance(made, Cluster):
        return stack.enter_context(Client(made, timeout=cluster.timeout, set_as_default=False, **secured))
    return stack.enter_context(made.get_client(set_as_default=False))  # dask_gateway's is no Cluster, and knows its own certificates


@contextlib.contextmanager
def _making(cluster: Named) -> Iterator[None]:
    """Errors of a cluster's own package as ours, without a cause: its text may show the arguments."""
    try:
        yield
    except ClusterError:
        raise
    except TypeError as error:
        wrong = re.sub(r"^.*?(unexpected keyword argument|missing)", r"\1", str(error).splitlines()[0])
        raise ClusterError(f"{cluster.path} cannot be made with cluster.arguments: {wrong}") from None
    except Exception as error:
        raise ClusterError(
            f"{cluster.path} gave no cluster ({type(error).__name__}): check cluster.arguments and what the cluster's own logs say"
        ) from None


def _imported(path: str) -> Any:
    """The class or function of an import path."""
    module, _, name = path.rpartition(".")
    try:
        made_by = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ClusterError(f"there is no class {path}: install its package (such as dask-jobqueue) or correct the path") from None
    if not callable(made_by):
        raise ClusterError(f"{path} is no class and no function: name one that makes a Dask cluster")
    return made_by
