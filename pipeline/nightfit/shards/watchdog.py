"""Waiting for tasks however long they take, as long as workers do them, and never for ever. Imports distributed."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

from nightfit.shards.cluster import LOST, ClusterError

PATIENCE = 20.0  # seconds between two looks at the workers
DEATHS = 4  # for each worker, in one wait; Dask itself gives up a task that the fourth worker dies of

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

    _patiently(client, futures, attempt)
    _raise_a_failure(futures)


def gathered(client: Any, futures: Sequence[Any]) -> list[Any]:
    """What all tasks give, or the first failure; a result that is lost with its worker is made again."""
    waited(client, futures)
    gather = functools.partial(client.gather, list(futures), asynchronous=True)
    results: list[Any] = _patiently(client, futures, lambda: client.sync(gather, callback_timeout=PATIENCE))
    return results


def _patiently(client: Any, futures: Sequence[Any], attempt: Callable[[], Any]) -> Any:
    """What an attempt gives, made again after each PATIENCE as long as no task failed and there is hope for the others.

    Guarantee: it ends, whatever becomes of the workers: tasks that no worker does are not waited for longer than two looks, workers may
    die so many times, and a scheduler that does not answer a look is lost. Broken by
    test_f21_workers_that_are_all_lost_and_come_back_end_the_pass, test_f21_a_scheduler_that_is_frozen_ends_the_pass,
    test_f22_workers_that_die_without_end_end_the_run, test_f22_idle_workers_get_a_second_look, test_f22_each_worker_has_its_deaths and
    test_f22_paused_workers_are_not_waited_for.
    """
    watch = Watch(client)
    while True:
        try:
            return attempt()
        except TimeoutError:
            _raise_a_failure(futures)
            watch.look()


def _raise_a_failure(futures: Sequence[Any]) -> None:
    for future in futures:
        if future.status == "error" or future.cancelled():
            future.result()


def workers_of(client: Any) -> dict[str, dict[str, Any]]:
    """What the scheduler tells of its workers, by address.

    `Client.scheduler_info` gives what was told last, and the client asks by itself every two seconds for no workers at all: between
    the question and the look a cluster may seem empty. Broken by test_f22_a_cluster_never_seems_empty.
    """
    try:
        told = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=PATIENCE)
    except OSError:
        raise ClusterError(LOST) from None
    workers: dict[str, dict[str, Any]] = told["workers"]
    return workers


class Watch:
    """What was seen of the workers during one wait."""

    def __init__(self, client: Any) -> None:
        self.client, self.began, self.idle = client, time.monotonic(), 0

    def look(self) -> None:
        """Raise Stalled where waiting is in vain: nobody works at this look nor did at the last, or too many workers died."""
        began = self._offer_again() - (time.monotonic() - self.began)
        workers, processing = workers_of(self.client), self.client.processing()
        self.idle = 0 if any(processing.get(address) and awake(worker) for address, worker in workers.items()) else self.idle + 1
        events = [event for when, event in self.client.get_events("all") if when > began]
        removed = [event for event in events if event.get("action") == "remove-worker"]
        before = len(workers) + len(removed) - sum(event.get("action") == "add-worker" for event in events)
        died = sum(not event["expected"] for event in removed)
        if died > DEATHS * max(1, before) or self.idle > 1:
            of_memory = sum(when > began for when, _ in self.client.get_events("worker-restart-memory"))
            raise Stalled(_reason([worker["status"] for worker in workers.values()], died, of_memory))

    def _offer_again(self) -> float:
        """Have the scheduler offer tasks to workers again that it set aside when none was awake; gives its time.

        It offers a task that belongs to a worker, but may go to others, to that one alone when workers come later
        (SchedulerState.bulk_schedule_unrunnable_after_adding_worker knows no allow_other_workers): where all were lost and came back
        under new addresses, the task would wait for ever. What is run there goes by value, for a scheduler need not have nightfit.
        """

        def offer(dask_scheduler: Any) -> float:
            tasks = [task for task in dask_scheduler.unrunnable if task.loose_restrictions]
            dask_scheduler.transitions({task.key: "processing" for task in tasks}, stimulus_id="offered-again")
            return time.time()

        now: float = self.client.run_on_scheduler(offer, callback_timeout=PATIENCE)
        return now


def awake(worker: dict[str, Any]) -> bool:
    """Whether a worker does what it was given: a paused one ends what it began, and begins nothing."""
    return worker["status"] == "running" or worker["metrics"].get("task_counts", {}).get("executing", 0) > 0


def _reason(statuses: Sequence[str], died: int, of_memory: int) -> str:
    if of_memory:
        times = max(died, of_memory)  # some end before the scheduler knows them
        return f"workers died {times} times in one pass, {of_memory} times ended by their nannies at the memory limit: {MORE_MEMORY}"
    if not statuses:
        return "the Dask cluster was lost: check scheduler and workers"
    if died:
        return f"workers died {died} times in one pass (out of memory?): {MORE_MEMORY}"
    if "paused" in statuses:
        return f"workers paused near their memory limit and do not go on: {MORE_MEMORY}"
    return "the Dask workers are there and do nothing: restart them and the scheduler"
