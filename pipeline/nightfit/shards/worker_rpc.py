"""Asking workers themselves for an answer over rows in their memory, without a task. Imports distributed.

A task goes from the client through the scheduler's graph to a worker, its key comes back, then its result is fetched: several messages
between batches of messages. One call to each worker and its answer are about a third of that, which is what a step over few rows costs.
Tasks survive the loss of a worker and calls do not, so whoever gets no answer here asks by tasks.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from nightfit.shards import watchdog


def called(client: Any, task: Callable[..., Any], arguments: tuple[Any, ...], held: Sequence[tuple[Any, str]]) -> list[Any] | None:
    """What the task gives for each result that is held, with these arguments behind it; None where one is not there or not told in time.

    `held` are futures of results in memory and the addresses of their workers. All workers are called, for the scheduler would look for
    one that it has lost until its own timeout.
    """
    from distributed import CancelledError

    keys: dict[str, list[str]] = {}
    for future, worker in held:
        keys.setdefault(worker, []).append(future.key)
    try:
        told = client.run(answers, task, arguments, keys, on_error="return", callback_timeout=watchdog.PATIENCE)
    except (OSError, TimeoutError, CancelledError):
        if client.status != "running":  # tasks would wait until it has looked long enough for its scheduler
            raise
        return None
    found = [answer for worker in told.values() if isinstance(worker, list) for answer in worker]
    return found if len(found) == len(held) else None


def located(client: Any, held: Sequence[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """The same futures, each with the address of a worker that has its result now; the old one where none has."""
    keys = [future.key for future, _ in held]
    has = client.sync(client.scheduler.who_has, keys=keys, callback_timeout=watchdog.PATIENCE)
    return [(future, worker if worker in has[future.key] else next(iter(has[future.key]), worker)) for future, worker in held]


async def answers(task: Callable[..., Any], arguments: tuple[Any, ...], keys: dict[str, list[str]], dask_worker: Any) -> list[Any]:
    """What a worker is called for: the task of each of its results, in its own threads; nothing unless it still has them all."""
    held = [dask_worker.data.get(key) for key in keys.get(dask_worker.address, ())]
    if any(result is None for result in held):
        return []
    threads, loop = dask_worker.executors["default"], asyncio.get_running_loop()
    return await asyncio.gather(*(loop.run_in_executor(threads, task, result, *arguments) for result in held))
