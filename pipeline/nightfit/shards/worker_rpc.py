"""Ask workers directly for an answer over rows in their memory, without a task. Imports distributed.

A task goes from the client through the scheduler's graph to a worker, its key comes back, then its result is fetched: several messages
between batches of messages. One call to each worker and its answer take about a third of that time, which is what a step over few rows
costs. Tasks survive the loss of a worker and calls do not, so a caller that gets None asks by tasks.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from nightfit.shards.watchdog import ask_scheduler, call_workers

Located = tuple[Any, str]  # a future of a result in a worker's memory, and that worker's address


def call_holders(client: Any, task: Callable[..., Any], arguments: tuple[Any, ...], held: Sequence[Located]) -> list[Any] | None:
    """Apply a task to each held result where it lies.

    Parameters
    ----------
    client : distributed.Client
        A connected client.
    task : callable
        Called with a result and the arguments, in a thread of its worker.
    arguments : tuple
        The arguments after the result.
    held : sequence of (future, address)
        Results and the workers that hold them.

    Returns
    -------
    list or None
        What the task returns for each result; None if a worker is lost or silent, or lacks a result.
    """
    from distributed import CancelledError

    keys: dict[str, list[str]] = {}
    for future, worker in held:
        keys.setdefault(worker, []).append(future.key)
    try:
        # all workers are called, because the scheduler would try to connect to one that it has lost until its own timeout
        answers = call_workers(client, answer_call, task, arguments, keys, expected=keys)
    except (OSError, TimeoutError, CancelledError):
        if client.status != "running":  # tasks would wait until the client gives up its scheduler
            raise
        return None
    found = [answer for worker in (answers or {}).values() if isinstance(worker, list) for answer in worker]
    return found if len(found) == len(held) else None


def locate(client: Any, held: Sequence[Located]) -> list[Located]:
    """The same futures, each with the address of a worker that holds its result now; the old address where none does."""
    keys = [future.key for future, _ in held]
    holders = ask_scheduler(client, lambda: client.scheduler.who_has(keys=keys))
    return [(future, worker if worker in holders[future.key] else next(iter(holders[future.key]), worker)) for future, worker in held]


async def answer_call(task: Callable[..., Any], arguments: tuple[Any, ...], keys: dict[str, list[str]], dask_worker: Any) -> list[Any]:
    """Runs on a worker: the task applied to each of its results, in its own threads; an empty list if a result is missing."""
    held = [dask_worker.data.get(key) for key in keys.get(dask_worker.address, ())]
    if any(result is None for result in held):
        return []
    threads, loop = dask_worker.executors["default"], asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(threads, task, result, *arguments) for result in held))
