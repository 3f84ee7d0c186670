"""Wait for a cluster as long as it works, however slow it is, and never for ever. Imports distributed.

A slow answer is not a lost cluster. While we wait, we look at the scheduler every LOOK_EVERY seconds. The scheduler is lost if its
connection is closed or if it does not answer for SCHEDULER_SILENCE. A worker is lost if the scheduler says so. As long as the scheduler
gives a task to some worker, we wait for tasks; as long as a worker sends heartbeats, by the scheduler's own clock, we wait for a call.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nightfit.shards.failures import LOST, MORE_MEMORY, ClusterError, Stalled

LOOK_EVERY = 5.0  # seconds between two looks: no verdict depends on it, only how soon one is given
SCHEDULER_SILENCE = 300.0  # seconds: as long as Dask's own scheduler waits for a silent worker (distributed.scheduler.worker-ttl)
WORKER_SILENCE = 60.0  # seconds: 120 heartbeats of a small cluster, 10 of one of 1,000 workers (distributed's heartbeat_interval)
UNREMOVED_SILENCE = 900.0  # seconds: Dask's scheduler removes a silent worker after 300 to 600, unless it is told not to
GRACE = 60.0  # seconds without any worker at work, in which a nanny or a batch system may start workers again
DEATHS = 4  # per worker, in one wait; Dask itself gives up a task when the fourth worker dies of it


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerState:
    """What the scheduler knows of a worker: its status, the tasks that it was given and runs, seconds since its last heartbeat."""

    status: str
    processing: int
    executing: int
    silence: float

    @property
    def works(self) -> bool:
        """Whether it will finish a task that it was given. A paused worker finishes what it runs and starts nothing."""
        return self.processing > 0 and (self.status == "running" or self.executing > 0) and self.silence < UNREMOVED_SILENCE


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One look at the scheduler: its workers by address; how many joined, left and died since a wait began."""

    workers: dict[str, WorkerState]
    joined: int
    left: int
    died: int
    died_of_memory: int


def look_at(client: Any, since: float = math.inf) -> Look:
    """Look at the workers, and at what became of them since a moment of our monotonic clock.

    Tasks that the scheduler set aside when no worker was running are offered to the workers again; see `_reporter`.

    Raises
    ------
    ClusterError
        If the scheduler is lost.
    """
    report = _reporter()
    found = ask_scheduler(client, lambda: client.run_on_scheduler(report, asynchronous=True))
    elapsed = time.monotonic() - since  # with the answer's own time: an event just before may count, none after is missed
    workers = {address: WorkerState(**state) for address, state in found.pop("workers").items()}
    return Look(workers=workers, **{name: sum(age < elapsed for age in ages) for name, ages in found.items()})


def _reporter() -> Callable[..., dict[str, Any]]:
    """A function that runs on the scheduler and returns a `Look` as plain data, with the ages of events in place of their numbers.

    It is a local function, which goes by value, because a scheduler need not have nightfit. It also offers tasks again: the scheduler
    offers a task that belongs to one worker, but may go to others, to that worker alone when workers join later
    (SchedulerState.bulk_schedule_unrunnable_after_adding_worker ignores allow_other_workers). Where all workers were lost and came back
    under new addresses, such a task would wait for ever.
    """

    def report(dask_scheduler: Any) -> dict[str, Any]:
        aside = [task.key for task in dask_scheduler.unrunnable if task.loose_restrictions]
        dask_scheduler.transitions(dict.fromkeys(aside, "processing"), stimulus_id="offered-again")
        now = time.time()
        events = [(now - when, event) for when, event in dask_scheduler.get_events("all")]
        removed = [(age, event) for age, event in events if event.get("action") == "remove-worker"]
        workers = {
            address: {
                "status": worker.status.name,
                "processing": len(worker.processing),
                "executing": (worker.metrics or {}).get("task_counts", {}).get("executing", 0),
                "silence": now - worker.last_seen,
            }
            for address, worker in dask_scheduler.workers.items()
        }
        return {
            "workers": workers,
            "joined": [age for age, event in events if event.get("action") == "add-worker"],
            "left": [age for age, _ in removed],
            "died": [age for age, event in removed if not event["expected"]],
            "died_of_memory": [now - when for when, _ in dask_scheduler.get_events("worker-restart-memory")],
        }

    return report


def ask_scheduler(client: Any, call: Callable[[], Any]) -> Any:
    """The scheduler's answer to a coroutine function of the client; ClusterError if it is lost or silent for SCHEDULER_SILENCE."""
    try:
        return client.sync(call, callback_timeout=SCHEDULER_SILENCE)
    except (OSError, TimeoutError):
        raise ClusterError(LOST) from None


def workers_of(client: Any) -> dict[str, dict[str, Any]]:
    """What the scheduler says of its workers, by address.

    `Client.scheduler_info` returns what was said last, and the client asks every two seconds for no workers at all: between
    the question and the look a cluster may seem empty. Broken by test_f22_a_cluster_never_seems_empty.
    """
    identity = ask_scheduler(client, lambda: client.scheduler.identity(n_workers=-1))
    workers: dict[str, dict[str, Any]] = identity["workers"]
    return workers


def wait_for(client: Any, futures: Sequence[Any]) -> None:
    """Wait until all tasks are done.

    Raises
    ------
    Stalled
        If no worker does them.
    ClusterError
        If the scheduler is lost.
    Exception
        The first failure of a task.
    """
    from distributed import wait

    watch = Watch(client)
    while not all(future.done() for future in futures):  # a done future is pending again when the worker of its result is lost
        try:
            with client.as_current():
                wait(futures, timeout=LOOK_EVERY)
        except TimeoutError:
            _raise_first_failure(futures)
            watch.look()
    _raise_first_failure(futures)


def gather(client: Any, futures: Sequence[Any]) -> list[Any]:
    """The results of all tasks; a result that is lost with its worker is computed again. Raises like `wait_for`."""
    wait_for(client, futures)
    watch = Watch(client)

    def look() -> None:
        _raise_first_failure(futures)
        watch.look()

    results: list[Any] = looked_after(client, client.gather(list(futures), asynchronous=True), look)
    return results


def looked_after(client: Any, coroutine: Any, look: Callable[[], None]) -> Any:
    """The result of a coroutine on the client's event loop; `look` is called every LOOK_EVERY seconds and ends the wait by raising."""
    pending = asyncio.run_coroutine_threadsafe(coroutine, client.loop.asyncio_loop)
    try:
        while True:
            try:
                return pending.result(LOOK_EVERY)
            except TimeoutError:
                if pending.done():  # the coroutine's own
                    raise
                look()
    finally:
        pending.cancel()


def call_workers(client: Any, function: Callable[..., Any], *arguments: Any, expected: Iterable[str] = ()) -> dict[str, Any] | None:
    """Run a function on all workers, outside of the task graph.

    Parameters
    ----------
    client : distributed.Client
        A connected client.
    function : callable
        Runs on each worker.
    *arguments
        Its arguments.
    expected : iterable of str
        Addresses of workers whose answers are needed.

    Returns
    -------
    dict or None
        What each worker returned, or its exception, by address. None if an expected worker is lost, or if a worker neither answers nor
        sent a heartbeat for WORKER_SILENCE: a worker that sends heartbeats is waited for.
    """
    needed = set(expected)

    def look() -> None:
        known = look_at(client).workers
        if not needed <= known.keys() or any(worker.silence >= WORKER_SILENCE for worker in known.values()):
            raise _Unanswered

    try:
        answers: dict[str, Any] = looked_after(client, client.run(function, *arguments, on_error="return", asynchronous=True), look)
    except _Unanswered:
        return None
    return answers


class _Unanswered(Exception):
    """A call that no answer will come to."""


def _raise_first_failure(futures: Sequence[Any]) -> None:
    for future in futures:
        if future.status == "error" or future.cancelled():
            future.result()


class Watch:
    """Decides during one wait whether it is in vain.

    Guarantee: a wait ends, whatever becomes of the cluster. If no worker works for GRACE seconds, or workers die too often, `look`
    raises Stalled; a silent scheduler is lost; and a worker that works forever sends heartbeats. Broken by
    test_f21_workers_that_are_all_lost_and_come_back_end_the_pass, test_f21_a_scheduler_that_is_frozen_ends_the_pass,
    test_f22_workers_that_die_without_end_end_the_run, test_f22_idle_workers_get_time, test_f22_each_worker_has_its_deaths and
    test_f22_paused_workers_are_not_waited_for. A slow cluster is waited for: broken by test_a_slow_answer_is_waited_for.
    """

    def __init__(self, client: Any) -> None:
        self.client, self.began, self.worked = client, time.monotonic(), time.monotonic()

    def look(self) -> None:
        """Look once; raise Stalled if no worker worked for GRACE seconds, or more than DEATHS workers died for each that there was."""
        found = look_at(self.client, self.began)
        now = time.monotonic()
        if any(worker.works for worker in found.workers.values()):
            self.worked = now
        before = len(found.workers) + found.left - found.joined
        if found.died > DEATHS * max(1, before) or now - self.worked >= GRACE:
            raise Stalled(_reason(found))


def _reason(found: Look) -> str:
    if found.died_of_memory:
        times, of_memory = max(found.died, found.died_of_memory), found.died_of_memory  # some die before the scheduler knows them
        return f"workers died {times} times in one pass, {of_memory} times ended by their nannies at the memory limit: {MORE_MEMORY}"
    if not found.workers:
        return "the Dask cluster was lost: check scheduler and workers"
    if found.died:
        return f"workers died {found.died} times in one pass (out of memory?): {MORE_MEMORY}"
    if any(worker.status == "paused" for worker in found.workers.values()):
        return f"workers paused near their memory limit and do not go on: {MORE_MEMORY}"
    return "the Dask workers are there and do nothing: restart them and the scheduler"
