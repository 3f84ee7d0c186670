"""Waiting for a cluster's workers, and telling how many have come. Imports failures and watchdog."""

import logging
import time
from typing import Any

from nightfit.shards import watchdog
from nightfit.shards.failures import ClusterError

LOG = logging.getLogger("nightfit.workers")
"""Says how many workers have come; commands show it in the terminal."""

SHORTEST = 0.01
"""Seconds that Dask is asked to wait at least: it takes none for for ever."""


def wait_for_workers(client: Any, wanted: int, timeout: float, name: str) -> None:
    """Wait until so many workers have come, and tell how many did whenever that changes.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    wanted : int
        The number of workers.
    timeout : float
        Seconds.
    name : str
        What the cluster is called in the message.

    Raises
    ------
    ClusterError
        If fewer have come in time.
    """
    end = time.monotonic() + timeout
    while (came := len(watchdog.workers_of(client))) < wanted:
        LOG.info("waiting for workers: %d of %d have come", came, wanted)
        try:
            client.wait_for_workers(came + 1, timeout=max(SHORTEST, end - time.monotonic()))
        except TimeoutError:
            raise ClusterError(
                f"{name} has {came} of {wanted} worker(s) after {timeout:g} s: check what its own logs say, ask "
                "for fewer in cluster.workers, or wait longer by cluster.timeout"
            ) from None
