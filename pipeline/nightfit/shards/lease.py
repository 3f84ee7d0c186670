"""Staged files live as long as their driver: workers ask the scheduler whether it is still connected. Imports distributed.

A driver that ends removes its files. One that is killed, or whose machine is lost, cannot: the scheduler drops it, and rows in memory with
it, but knows nothing of files. A worker that keeps such files asks every LEASE seconds, and removes those whose driver is gone. A driver
that is only slow stays connected.
"""

import shutil
from pathlib import Path
from typing import Any

import dask

LEASE = 60.0  # seconds; `nightfit.lease` in Dask's configuration (DASK_NIGHTFIT__LEASE) of a worker says otherwise


def start_lease(prefix: str, name: str) -> None:
    """Inside a task: look after a folder of the worker's local directory from now on. Its name is the prefix, the client's id, and more."""
    from distributed import get_worker

    worker = get_worker()
    if name not in worker.periodic_callbacks:
        worker.loop.add_callback(_start, worker, prefix, name)


def _start(worker: Any, prefix: str, name: str) -> None:
    from tornado.ioloop import PeriodicCallback

    if name in worker.periodic_callbacks:
        return

    async def look() -> None:
        folder = Path(worker.local_directory) / name
        if folder.exists():
            clients = await _clients(worker)
            if clients is None or any(name.startswith(f"{prefix}{client}") for client in clients):
                return
            shutil.rmtree(folder, ignore_errors=True)
        worker.periodic_callbacks.pop(name).stop()

    seconds = float(dask.config.get("nightfit.lease", LEASE))
    worker.periodic_callbacks[name] = PeriodicCallback(look, 1000 * seconds)
    worker.periodic_callbacks[name].start()


async def _clients(worker: Any) -> list[str] | None:
    """Ids of the clients that the scheduler knows; None if it does not answer, and then the worker itself will end."""
    from distributed.protocol.pickle import dumps

    def known(dask_scheduler: Any) -> list[str]:  # local, so that it goes by value: a scheduler need not have nightfit
        return list(dask_scheduler.clients)

    try:
        answer = await worker.scheduler.run_function(function=dumps(known), args=dumps(()), kwargs=dumps({}), wait=True)
    except OSError:
        return None
    return answer["result"] if answer["status"] == "OK" else None
