"""The folders of staged rows on workers' disks: room for them, their names and their removal. Imports distributed.

A folder's name begins with the id of the client that made it, so that the folders of clients that are gone can be found and removed.
"""

import os
import secrets
import shutil
import socket
from pathlib import Path
from typing import Any

from nightfit.shards.failures import LOST, ClusterError
from nightfit.shards.manifest import DataError
from nightfit.shards.staging import PREFIX
from nightfit.shards.watchdog import ask_scheduler, call_workers

CLEANUP_TIMEOUT = 20.0  # seconds: what is not removed by then is removed when a worker starts there, or at the next refit


def check_disk_space(client: Any, needed: dict[str, int]) -> None:
    """Refuse to stage where workers' disks lack space; `needed` is in bytes by worker. Workers of one host may share a disk.

    What is needed tells the number of records, which is private under add_remove: the message says what is free.

    Raises
    ------
    DataError
        If a disk lacks space or cannot be measured.
    ClusterError
        If a worker is lost.
    """
    found = call_workers(client, disk_space, expected=needed)
    if found is None or not needed.keys() <= found.keys():
        raise ClusterError(LOST)
    free: dict[tuple[str, int], int] = {}
    wanted: dict[tuple[str, int], int] = {}
    for worker, size in needed.items():
        if isinstance(found[worker], BaseException):
            raise DataError("a worker cannot tell the free space of its local directory: check that the directory exists there")
        host, device, left = found[worker]
        free[host, device] = left
        wanted[host, device] = wanted.get((host, device), 0) + size
    for place, left in free.items():
        if wanted[place] > left:
            raise DataError(
                f"decoded rows need more than the {left / 2**30:.1f} GiB that are free in the local directory of the Dask workers: nothing "
                "was asked; free space, name another disk in cluster.directory (or `dask worker --local-directory`), "
                "set data.precision to single, or give the workers more memory"
            )


def disk_space(dask_worker: Any) -> tuple[str, int, int]:
    """Runs on a worker: host, device and free bytes of its local directory."""
    place = dask_worker.local_directory
    return socket.gethostname(), os.stat(place).st_dev, shutil.disk_usage(place).free


def remove_orphans(client: Any) -> None:
    """Remove folders that interrupted runs left behind: those of clients that the scheduler does not know any more.

    Folders are listed before the clients, so that a client that connects in between is not taken for a lost one.
    """
    listed = call_workers(client, folder_names) or {}
    names = {name for found in listed.values() if isinstance(found, list) for name in found}
    if not names:
        return
    alive = ask_scheduler(client, lambda: client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients), asynchronous=True))
    for name in names:
        if not any(name.startswith(f"{PREFIX}{known}") for known in alive):
            call_workers(client, remove_folder, name)


def folder_names(dask_worker: Any) -> list[str]:
    """Runs on a worker: the names of its folders of staged rows."""
    return [path.name for path in Path(dask_worker.local_directory).glob(f"{PREFIX}*")]


def remove_folder(name: str, dask_worker: Any) -> None:
    """Runs on a worker: remove a folder of staged rows, if it exists."""
    shutil.rmtree(Path(dask_worker.local_directory) / name, ignore_errors=True)


def new_folder_name(client: Any) -> str:
    """A new name for the staged rows of a client's run."""
    return f"{PREFIX}{client.id}-{secrets.token_hex(4)}"
