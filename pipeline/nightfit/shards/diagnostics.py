"""What Dask tells about a run, on request: a page of its tasks, and its dashboard. Imports distributed."""

import contextlib
import re
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nightfit.extras import needs
from nightfit.shards.failures import ClusterError


@contextlib.contextmanager
def performance_report(client: Any, place: Path | None) -> Iterator[None]:
    """Write Dask's performance report of what is done inside, as one page that loads nothing.

    The page shows when which task ran where, for how long, and what workers logged: no row, but times that depend on rows, so only its
    owner can read the file. It is written if the work inside ends well; if it cannot be, a warning is all.

    Parameters
    ----------
    client : distributed.Client, optional
        The cluster; nothing is written without one.
    place : Path, optional
        The file; nothing is written without one.
    """
    if client is None or place is None:
        yield
        return
    import distributed

    needs("cluster.performance_report", "bokeh", extra="dashboard")
    try:
        place.touch(mode=0o600)
    except OSError as error:
        raise ClusterError(f"cluster.performance_report: {place} cannot be written ({error.strerror}): name another file") from None
    report = distributed.performance_report(filename=str(place), mode="inline")
    with client.as_current():
        report.__enter__()
        yield
        try:
            report.__exit__(None, None, None)
            place.write_text(re.sub(r"<link rel=.shortcut icon.[^>]*>", "", place.read_text()))  # Dask's icon lies elsewhere
        except Exception as error:
            name = type(error).__name__
            warnings.warn(f"cluster.performance_report was not written ({name}): has the scheduler bokeh?", stacklevel=2)


def dashboard_address(port: int | None) -> str | None:
    """Where the dashboard of a local cluster listens: on loopback only, at a port that is free; None without one."""
    if port is None:
        return None
    needs("cluster.dashboard", "bokeh", extra="dashboard")
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind(("127.0.0.1", port))
        except OSError as error:
            raise ClusterError(f"cluster.dashboard: port {port} cannot be used ({error.strerror}): name another") from None
    return f"127.0.0.1:{port}"
