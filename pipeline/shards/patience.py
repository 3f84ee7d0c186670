"""Waiting for tasks however long they take, as long as workers do them, and never for ever. Imports distributed."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE = 20.0  # seconds between two looks at the workers
DEATHS = 4  # of a worker in one wait; Dask itself gives a task up when the fourth worker dies that runs it

MORE_MEMORY = (
    "raise cluster.memory (`dask worker --memory-limit`), take more workers, set data.precision to single, or write smaller row groups"
)


class Stalled(Exception):
    """Tasks wait for workers that will not do them; the text tells why, and the cure."""


def waited(client: Any, futures: Sequence[Any]) -> None:
    """Wait until all tasks are done; raise the first failure."""
    from distributed import wait

    def attempt() -> None:
        last = time.monotonic() + PATIENCE
        with client.as_current():
            while not all(future.done() for future in futures):  # one that was done is not any more when its worker is lost
                wait(futures, timeout=max(0.0, last - time.monotonic()))

    _patiently(client, attempt)
    for future in futures:
        if future.status == "error" or future.cancelled():
            future.result()


def gathered(client: Any, futures: Sequence[Any]) -> list[Any]:
    """What all tasks give, or the first failure; a result that is lost with its worker is made again."""
    gather = functools.partial(client.gather, list(futures), asynchronous=True)
    results: list[Any] = _patiently(client, lambda: client.sync(gather, callback_timeout=PATIENCE))
    return results


def _patiently(client: Any, attempt: Callable[[], Any]) -> Any:
    """What an attempt gives, made again after each PATIENCE as long as there is hope.

    Guarantee: it ends, with a result or an error, whatever becomes of workers: tasks that no worker does are not waited for longer than
    two looks, and workers that die without end are counted. Broken by test_f21_workers_that_all_come_back_finish_the_pass,
    test_f22_workers_that_die_without_end_end_the_run and test_f22_paused_workers_are_not_waited_for.
    """
    watch = Watch(client)
    while True:
        try:
            return attempt()
        except TimeoutError:
            watch.look()


class Watch:
    """What was seen of the workers during one wait."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.idle = self.most = 0
        self.since: float | None = None

    def look(self) -> None:
        """Raise Stalled where waiting is in vain: nobody worked at this look nor at the last, or too many died since the first."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        processing = self.client.processing()
        self.most = max(self.most, len(workers))
        self.idle = 0 if any(processing.get(address) and _awake(worker) for address, worker in workers.items()) else self.idle + 1
        died, of_memory = self._deaths()
        if died > DEATHS * self.most or self.idle > 1:
            raise Stalled(_reason([worker["status"] for worker in workers.values()], died, of_memory))
        # A task that belongs to a worker but may go to others is offered to that one alone when workers come after a time without any
        # (SchedulerState.bulk_schedule_unrunnable_after_adding_worker knows no allow_other_workers), so where all were lost and came
        # back under new addresses it would wait for ever. The function goes by value: a scheduler need not have nightfit.
        self.client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.transitions(
                {task.key: "processing" for task in dask_scheduler.unrunnable if task.loose_restrictions}, stimulus_id="offered-again"
            )
        )

    def _deaths(self) -> tuple[int, int]:
        """How many workers died since the first look, and how many of them by their nannies; retired ones do not count."""
        removed = [(when, event) for when, event in self.client.get_events("all") if event.get("action") == "remove-worker"]
        if self.since is None:
            self.since = max((when for when, _ in removed), default=0.0)  # by the scheduler's clock
        died = sum(when > self.since and not event["expected"] for when, event in removed)
        return died, died and sum(when > self.since for when, _ in self.client.get_events("worker-restart-memory"))


def _awake(worker: dict[str, Any]) -> bool:
    """Whether a worker does what it was given: a paused one ends what it began, and begins nothing."""
    return worker["status"] == "running" or worker["metrics"].get("task_counts", {}).get("executing", 0) > 0


def _reason(statuses: Sequence[str], died: int, of_memory: int) -> str:
    if not statuses:
        return "the Dask cluster was lost: check scheduler and workers"
    if died:
        nannies = f", {of_memory} times ended by their nannies at the memory limit" if of_memory else " (out of memory?)"
        return f"workers died {died} times in one pass{nannies}: {MORE_MEMORY}"
    if "paused" in statuses:
        return f"workers paused near their memory limit and do not go on: {MORE_MEMORY}"
    return "the Dask workers are there and do nothing: restart them and the scheduler"
