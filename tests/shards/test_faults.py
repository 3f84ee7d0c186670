"""What a Dask cluster may do to a run, with real scheduler and worker processes that are really killed."""

import contextlib
import datetime
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from distributed import Client, LocalCluster

from nightfit.ledger import Ledger, Policy, Reservation, Run
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import cluster, on_cluster, placement, watchdog
from nightfit.shards.certificates import Certificates
from nightfit.shards.cluster import ClusterError, Local, Named, Remote, connected, versions
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import DataError, Manifest, scan
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.shards.tasks import aggregate_staged
from nightfit.shards.watchdog import workers_of
from nightfit.shards.worker_rpc import call_holders
from nightfit.types import Adjacency, Block, Integers, Sample

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "pipeline"
BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
QUERY = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40)
Write = Callable[..., Path]
Fork = Callable[..., "Forked"]
Started: TypeAlias = "subprocess.Popen[bytes] | Forked"
LIMIT = 600.0


# Imports what workers import, then forks a process for each `dask` command: seconds of work sooner than one from nothing.
FORKS = """
import json, os, sys
import dask, dask.dataframe
from distributed.cli import dask_scheduler, dask_worker
import nightfit.shards.dataset, nightfit.shards.tasks, nightfit.shards.worker_rpc

for line in sys.stdin:
    folder, log, environment, (command, *words) = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for number in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), number)
        os.environ.clear()
        os.environ.update(environment)
        dask.config.refresh()
        try:
            {"scheduler": dask_scheduler, "worker": dask_worker}[command].main(words)
        except SystemExit as left:
            os._exit(left.code or 0)
    print(child, flush=True)
"""


@dataclass(frozen=True)
class Forked:
    """A process that was forked by another one, which never waits for it: its number stays its own."""

    pid: int

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def poll(self) -> int | None:
        state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return 0 if state == "Z" else None

    def wait(self) -> None:
        until(lambda: self.poll() is not None, f"process {self.pid} ends")


@pytest.fixture(scope="module")
def fork() -> Iterator[Fork]:
    """Forks a `dask` command: its folder, its log and its words."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None

        def forked(*asked: Any) -> Forked:
            forks.stdin.write(json.dumps(asked) + "\n")
            forks.stdin.flush()
            return Forked(int(forks.stdout.readline()))

        yield forked
        forks.stdin.close()


@dataclass
class Processes:
    """A `dask scheduler` and `dask worker` processes without nannies, which nothing starts again.

    Forked, unless `anew`: then as a shell starts them, with memory that is all theirs.
    """

    fork: Fork
    folder: Path
    anew: bool = False
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    scheme: str = "tcp"
    started: list[Started] = field(default_factory=list)

    def scheduler(self) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"{self.scheme}://127.0.0.1:{port}"
        self._start("scheduler", "--host", self.address, "--no-dashboard", "--no-show")
        return self.address

    def worker(self, pythonpath: Path = SOURCE, memory: str = "1GiB") -> Started:
        words = (
            "--no-nanny",
            "--nthreads",
            "1",
            "--memory-limit",
            memory,
            "--no-dashboard",
            "--local-directory",
            str(self.folder),
        )
        return self._start("worker", self.address, *words, pythonpath=pythonpath)

    def _start(self, *words: str, pythonpath: Path = SOURCE) -> Started:
        command = [str(Path(sys.executable).parent / "dask"), *words, *self.options]
        environment, log = {**os.environ, "PYTHONPATH": str(pythonpath), **self.environment}, self.folder / "log.txt"
        if self.anew or pythonpath != SOURCE:
            with log.open("ab") as out:
                self.started.append(subprocess.Popen(command, cwd=self.folder, env=environment, stdout=out, stderr=out))
        else:
            self.started.append(self.fork(str(self.folder), str(log), environment, command[1:]))
        return self.started[-1]

    def end(self) -> None:
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()


@pytest.fixture
def processes(fork: Fork, tmp_path: Path) -> Iterator[Callable[..., Processes]]:
    """Starts a scheduler; ends everything that was started with it."""
    made: list[Processes] = []

    def start(workers: int = 0, **fields: Any) -> Processes:
        folder = tmp_path / f"dask-{len(made)}"
        folder.mkdir()
        made.append(Processes(fork, folder, **fields))
        made[-1].scheduler()
        for _ in range(workers):
            made[-1].worker()
        return made[-1]

    yield start
    for group in made:
        group.end()


@pytest.fixture
def manifest(table: pa.Table, write: Write) -> Manifest:
    return scan(str(write("flat", table, [100] * 7)))


def until(happened: Callable[[], Any], what: str) -> None:
    """Wait for an event in other processes; the limit only ends a test that would hang."""
    last = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < last, f"{what} did not happen"
        time.sleep(0.01)


@contextlib.contextmanager
def client_of(group: Processes, workers: int) -> Iterator[Client]:
    with Client(group.address, timeout=300, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=LIMIT)
        yield client


def pids(client: Client) -> dict[str, int]:
    found: dict[str, int] = client.run(os.getpid)
    return found


def gated(query: GradientSum, folder: Path) -> Any:
    """The query, whose every chunk tells that it began and waits for a file named `go`; local, so that workers get it by value."""

    class Gated:
        coordinates, draw, merge, reads_codes = query.coordinates, query.draw, query.merge, False

        def __init__(self, query: GradientSum, folder: Path) -> None:
            self.query, self.folder = query, folder

        def chunk(self, block: Block) -> Integers:
            (self.folder / f"pid-{os.getpid()}").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.005)
            return self.query.chunk(block)

    return Gated(query, folder)


def dying(query: GradientSum) -> Any:
    """A query that ends its worker, as an out-of-memory killer does."""

    class Dying:
        coordinates, draw, merge, reads_codes = query.coordinates, query.draw, query.merge, False

        def chunk(self, block: Block) -> Integers:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    return Dying()


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that does the work; its result or error is the list's only item when it has ended."""
    found: list[Any] = []

    def kept() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=kept)
    thread.start()
    return thread, found


@pytest.mark.parametrize("share", [0.4, 0.0], ids=["in memory", "on disk"])
def test_f19_f23_a_worker_killed_in_the_middle_of_a_pass_changes_no_integer(
    manifest: Manifest, tmp_path: Path, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    expected = ShardedDataset(manifest, BOUNDS).aggregate(QUERY)
    group = processes(workers=2)
    with client_of(group, 2) as client, ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        shards.stage()
        assert len(shards.executor.staged or ()) == 2
        signals = tmp_path / "signals"
        signals.mkdir()
        counted: list[int] = []
        aggregate = shards.executor.aggregate

        def spied(query: Any) -> Any:
            partials = list(aggregate(query))
            counted.extend(number for numbers, _ in partials for number in numbers)
            return partials

        monkeypatch.setattr(shards.executor, "aggregate", spied)
        thread, found = in_background(lambda: shards.aggregate(gated(QUERY, signals)))
        until(lambda: len(list(signals.glob("pid-*"))) == 2, "both workers begin")
        victim = next(iter(pids(client).values()))
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(workers_of(client)) == 1, "the scheduler misses the worker")
        (signals / "go").touch()
        thread.join()
        assert (found[0] == expected).all(), found
        assert sorted(counted) == [chunk.number for chunk in shards.chunks]
        assert shards.executor.tasks, "tasks survive the loss"
        shards.executor.tasks = []
        assert (shards.aggregate(QUERY) == expected).all()
        assert bool(shards.executor.tasks) == (share == 0), "rows in memory are called for where they are now, and no task is needed"


def test_workers_that_never_answer_a_call_are_asked_by_tasks_alone(
    manifest: Manifest, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []
    monkeypatch.setattr(on_cluster, "call_holders", lambda *_: attempts.append(1))
    with ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        totals = [shards.aggregate(QUERY) for _ in range(on_cluster.MOST_UNANSWERED + 2)]
    assert len(attempts) == on_cluster.MOST_UNANSWERED
    assert all((total == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all() for total in totals)


def test_a_worker_that_does_not_answer_a_call_is_asked_by_tasks(
    manifest: Manifest, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ShardedDataset(manifest, BOUNDS).aggregate(QUERY)
    group = processes(workers=2)
    with client_of(group, 2) as client, ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        assert (shards.aggregate(QUERY) == expected).all()
        assert not shards.executor.tasks, "no task was needed"
        group.started[1].send_signal(signal.SIGSTOP)
        monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.05)
        monkeypatch.setattr(watchdog, "WORKER_SILENCE", 1.0)  # a frozen worker is silent for longer and longer
        thread, found = in_background(lambda: shards.aggregate(QUERY))
        until(lambda: shards.executor.tasks, "tasks are asked")
        group.started[1].send_signal(signal.SIGCONT)
        thread.join()
        assert (found[0] == expected).all(), found


@pytest.mark.parametrize("share", [0.4, 0.0], ids=["by calls", "by tasks"])
def test_a_slow_answer_is_waited_for(
    manifest: Manifest, tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.01)
    looks: list[watchdog.Look] = []
    look_at = watchdog.look_at

    def spied(*arguments: Any) -> watchdog.Look:
        looks.append(look_at(*arguments))
        return looks[-1]

    with ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        shards.stage()
        monkeypatch.setattr(watchdog, "look_at", spied)
        thread, found = in_background(lambda: shards.aggregate(gated(QUERY, tmp_path)))
        until(lambda: len(list(tmp_path.glob("pid-*"))) == 2, "both workers begin")
        before = len(looks)
        until(lambda: len(looks) > before + 20, "twenty looks")
        (tmp_path / "go").touch()
        thread.join()
        assert (found[0] == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all(), found
        assert bool(shards.executor.tasks) == (share == 0), "an unanswered call was to be waited for, and not repeated by tasks"


def test_a_worker_without_the_rows_it_is_called_for_is_asked_by_tasks(manifest: Manifest, processes: Callable[..., Processes]) -> None:
    group = processes(workers=2)
    with client_of(group, 2) as client, ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        shards.stage()
        (_, first), (moved, second) = shards.executor.staged or ()
        client.replicate([moved], n=2)
        client.run(lambda key, dask_worker: dask_worker.data.__delitem__(key), moved.key, workers=[second])
        assert call_holders(client, aggregate_staged, (QUERY, versions()), shards.executor.staged or ()) is None
        asked = partial(call_holders, client, aggregate_staged, (QUERY, versions()), [(moved, first)])
        until(lambda: len(asked() or ()) == 1, "the worker that has the rows does not answer")


@pytest.mark.parametrize(
    "share", [pytest.param(0.4, id="in memory", marks=pytest.mark.process), pytest.param(0.0, id="on disk", marks=pytest.mark.sweep)]
)
def test_f19_a_worker_killed_with_the_persons_it_kept_changes_no_integer(
    table: pa.Table, write: Write, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    monkeypatch.setattr(placement, "RANGE_BYTES", 4000)
    bounds = replace(BOUNDS, unit="patient", rows_per_unit=3)
    manifest = scan(str(write("visits", table.append_column("patient", pa.array([7 * i % 97 for i in range(700)])), [100] * 7)))
    expected = ShardedDataset(manifest, bounds).aggregate(QUERY)
    group = processes(workers=2)
    with client_of(group, 2) as client, ShardedDataset(manifest, bounds, client, chunk_bytes=1) as shards:
        assert (shards.aggregate(QUERY) == expected).all()
        os.kill(next(iter(pids(client).values())), signal.SIGKILL)
        until(lambda: len(workers_of(client)) == 1, "the scheduler misses the worker")
        assert (shards.aggregate(QUERY) == expected).all()
        assert (shards.aggregate(QUERY) == expected).all()


def test_f24_workers_come_and_go_and_the_integers_stay(
    manifest: Manifest, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    expected = ShardedDataset(manifest, BOUNDS).aggregate(QUERY)
    samples = tuple(Sample(0.2, number) for number in range(3))
    drawn = [replace(QUERY, key=bytes(16), draw=sample) for sample in samples]
    group = processes()
    first = group.worker()
    with client_of(group, 1) as client, ShardedDataset(manifest, BOUNDS, client, upcoming=UpcomingDraws(bytes(16), samples)) as shards:
        assert (shards.aggregate(QUERY) == expected).all()
        assert (shards.aggregate(drawn[0]) == ShardedDataset(manifest, BOUNDS).aggregate(drawn[0])).all()
        staged = list(group.folder.rglob("*.rows"))
        assert staged
        second = group.worker()
        client.wait_for_workers(2, timeout=LIMIT)
        first.kill()
        until(lambda: len(workers_of(client)) == 1, "the scheduler misses the worker")
        assert (shards.aggregate(QUERY) == expected).all()
        assert shards.executor.draws == samples, "these rows were to be taken from the first worker"
        assert all((shards.aggregate(query) == ShardedDataset(manifest, BOUNDS).aggregate(query)).all() for query in drawn)
        third = group.worker()
        client.wait_for_workers(2, timeout=LIMIT)
        assert all(not path.exists() for path in staged), "a worker that starts removes what a killed one left"
        second.terminate()
        until(lambda: len(workers_of(client)) == 1, "the scheduler misses the worker")
        assert (shards.aggregate(QUERY) == expected).all()
        assert third.poll() is None
    assert not list(group.folder.rglob("*.rows"))


def reserved(ledger: Ledger, manifest: Manifest) -> Run:
    sensitivity = QUERY.sensitivity(Adjacency.ZERO_OUT)
    events = tuple(
        GaussianEvent(label=label, sensitivity=sensitivity, sigma=100 * sensitivity, coordinates=4, adjacency=Adjacency.ZERO_OUT)
        for label in ("first", "second")
    )
    if "clinic" not in ledger.policies():
        ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=1.0, delta=1e-6))
    order = Reservation(
        model="m",
        data_set="clinic",
        unit="record",
        plan="p",
        events=events,
        window=manifest.path,
        manifest=manifest.identity(),
        files=manifest.fingerprints(),
    )
    return ledger.reserve(order)


class CountedNoise(NoNoise):
    """Counts its draws and does something before each."""

    def __init__(self, before: Callable[[], None]) -> None:
        object.__setattr__(self, "told", [])
        object.__setattr__(self, "before", before)

    @property
    def draws(self) -> int:
        return len(self.told)

    def discrete_gaussian(self, exact: Integers, sigma: float) -> Integers:
        self.before()
        self.told.append(sigma)
        return super().discrete_gaussian(exact, sigma)


def test_f20_a_worker_killed_after_its_task_makes_no_second_draw(
    manifest: Manifest, ledger: Ledger, processes: Callable[..., Processes]
) -> None:
    group = processes(workers=2)
    run = reserved(ledger, manifest)
    with client_of(group, 2) as client, ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        victims = sorted(pids(client).values())

        def kill() -> None:
            if len(victims) == 2:
                os.kill(victims.pop(), signal.SIGKILL)
                until(lambda: len(workers_of(client)) == 1, "the scheduler misses the worker")

        noise = CountedNoise(before=kill)
        gate = Gate(account=run, records=shards, noise=noise)
        answer = gate.ask("first", QUERY)
        assert noise.draws == 1
        assert (gate.ask("first", QUERY) == answer).all()
        assert (gate.ask("second", QUERY) == answer).all()
        assert noise.draws == 2


@pytest.mark.parametrize("lost", ["workers", "scheduler"])
def test_f21_a_lost_cluster_ends_the_run_cleanly_and_resuming_is_one_charge(
    manifest: Manifest, ledger: Ledger, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    group = processes(workers=2)
    run = reserved(ledger, manifest)
    charged = ledger.spent("clinic")
    client = Client(group.address, timeout=30, set_as_default=False)
    try:
        client.wait_for_workers(2, timeout=LIMIT)
        shards = ShardedDataset(manifest, BOUNDS, client)
        first = Gate(account=run, records=shards, noise=NoNoise()).ask("first", QUERY)
        for process in group.started[1:] if lost == "workers" else group.started[:1]:
            process.kill()
        if lost == "workers":
            until(lambda: not workers_of(client), "the scheduler misses the workers")
        monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.05)
        monkeypatch.setattr(watchdog, "GRACE", 0.0)
        with pytest.raises(ClusterError, match="the Dask cluster was lost: check scheduler and workers"):
            Gate(account=run, records=shards, noise=NoNoise()).ask("second", QUERY)
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=1)
    monkeypatch.undo()
    again = processes(workers=1)
    resumed = reserved(ledger, manifest)
    assert resumed.run_id == run.run_id
    with client_of(again, 1) as client, ShardedDataset(manifest, BOUNDS, client) as shards:
        gate = Gate(account=resumed, records=shards, noise=NoNoise())
        assert (gate.ask("first", QUERY) == first).all()
        assert (gate.ask("second", QUERY) == first).all()
    assert ledger.spent("clinic") == charged


def test_f22_a_worker_that_dies_of_a_shard_is_never_a_completed_pass(manifest: Manifest, processes: Callable[..., Processes]) -> None:
    group = processes(workers=2, environment={"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"})
    with client_of(group, 2) as client, ShardedDataset(manifest, BOUNDS, client) as shards:
        shards.stage()
        with pytest.raises(ClusterError, match="workers kept dying on the same shard"):
            shards.aggregate(dying(QUERY))


def test_f21_workers_that_are_all_lost_and_come_back_end_the_pass(
    manifest: Manifest, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.05)
    group = processes()
    first = group.worker()
    with client_of(group, 1) as client, ShardedDataset(manifest, BOUNDS, client) as shards:
        shards.stage()
        first.kill()
        until(lambda: not workers_of(client), "the scheduler misses the worker")
        group.worker()
        client.wait_for_workers(1, timeout=LIMIT)
        assert (shards.aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()


@pytest.mark.parametrize("share", [0.4, 0.0], ids=["in memory", "on disk"])
def test_f21_a_scheduler_that_is_frozen_ends_the_pass(
    manifest: Manifest, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    group = processes(workers=1)
    with client_of(group, 1) as client:
        with monkeypatch.context() as patch, ShardedDataset(manifest, BOUNDS, client) as shards:
            shards.stage()
            group.started[0].send_signal(signal.SIGSTOP)
            patch.setattr(watchdog, "LOOK_EVERY", 0.05)
            patch.setattr(watchdog, "SCHEDULER_SILENCE", 0.5)  # a frozen scheduler never answers
            patch.setattr(on_cluster, "CLEANUP_TIMEOUT", 0.5)
            with pytest.raises(ClusterError, match="the Dask cluster was lost"):
                shards.aggregate(QUERY)
        group.started[0].send_signal(signal.SIGCONT)
        with ShardedDataset(manifest, BOUNDS, client) as shards:
            assert (shards.aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()


def test_f21_a_worker_that_is_frozen_before_the_start_is_told(
    manifest: Manifest, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = processes(workers=2)
    with client_of(group, 2) as client:
        group.started[-1].send_signal(signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(watchdog, "LOOK_EVERY", 0.05)
            patch.setattr(watchdog, "WORKER_SILENCE", 1.0)
            with pytest.raises(ClusterError, match=r"sent no heartbeat for 1 seconds .* restart it"):
                cluster.check_versions(client)
        group.started[-1].send_signal(signal.SIGCONT)
        cluster.check_versions(client)


def test_f22_workers_that_die_without_end_end_the_run(
    manifest: Manifest, tmp_path: Path, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0.0)  # rows on disk are asked for by tasks
    group = processes(workers=2)
    with client_of(group, 2) as client, ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        shards.stage()
        thread, found = in_background(lambda: shards.aggregate(gated(QUERY, tmp_path)))
        until(lambda: len(list(tmp_path.glob("pid-*"))) == 2, "both workers begin")
        monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.05)
        monkeypatch.setattr(watchdog, "DEATHS", 0)  # the first is one too many
        group.started[1].kill()
        until(lambda: not thread.is_alive(), "the pass ends")
        (tmp_path / "go").touch()
        assert isinstance(found[0], ClusterError), found
        assert str(found[0]).startswith("workers died 1 times in one pass (out of memory?): raise cluster.memory"), found


def test_f22_a_cluster_never_seems_empty(client: Client) -> None:
    """A client that tells itself every millisecond of a cluster without workers, as it does every two seconds by default."""
    often = {"distributed.client.scheduler-info-interval": "1ms"}
    with dask.config.set(often), Client(client.scheduler.address, set_as_default=False) as restless:
        assert [len(workers_of(restless)) for _ in range(200)] == [2] * 200


def test_f22_paused_workers_are_not_waited_for(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has more memory than its worker may have: that one pauses, unless the cluster is one that nightfit starts."""
    quiet = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    small = {"n_workers": 1, "processes": False, "memory_limit": "64MiB", **quiet}
    with LocalCluster(**small) as cluster, Client(cluster, set_as_default=False) as client, monkeypatch.context() as patch:
        until(lambda: [w["status"] for w in workers_of(client).values()] == ["paused"], "the worker pauses")
        patch.setattr(watchdog, "LOOK_EVERY", 0.05)
        patch.setattr(watchdog, "GRACE", 0.0)
        shards = ShardedDataset(manifest, BOUNDS, client)
        with pytest.raises(ClusterError, match="workers paused near their memory limit"), shards:
            shards.aggregate(QUERY)
    with connected(Named(path="distributed.LocalCluster", arguments=small)) as client, ShardedDataset(manifest, BOUNDS, client) as shards:
        assert (shards.aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()


@contextlib.contextmanager
def idle() -> Iterator[Client]:
    """A real scheduler with one worker that has nothing to do."""
    quiet = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    with LocalCluster(n_workers=1, processes=False, **quiet) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.mark.parametrize(
    ("status", "processing", "executing", "silence", "works"),
    [
        ("running", 1, 0, 0.0, True),
        ("running", 0, 0, 0.0, False),
        ("paused", 1, 1, 0.0, True),
        ("paused", 1, 0, 0.0, False),
        ("running", 1, 1, watchdog.WORKER_SILENCE, True),
        ("running", 1, 1, watchdog.UNREMOVED_SILENCE, False),
    ],
)
def test_a_worker_works_that_has_a_task_and_is_not_paused_or_silent_for_too_long(
    status: str, processing: int, executing: int, silence: float, works: bool
) -> None:
    state = watchdog.WorkerState(status=status, processing=processing, executing=executing, silence=silence)
    assert state.works is works


def test_f22_idle_workers_get_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with idle() as client:
        watch = watchdog.Watch(client)
        for _ in range(3):
            watch.look()
        monkeypatch.setattr(watchdog, "GRACE", 0.0)
        with pytest.raises(watchdog.Stalled, match="are there and do nothing"):
            watch.look()


@pytest.mark.parametrize(
    ("times", "verdict"), [(watchdog.DEATHS, None), (watchdog.DEATHS + 1, f"workers died {watchdog.DEATHS + 1} times")]
)
def test_f22_each_worker_has_its_deaths(times: int, verdict: str | None) -> None:
    """They are written into the scheduler's own log, of one scheduler each: what it wrote while a watch was made may count. Workers that
    were told to go are no deaths.
    """

    def died(dask_scheduler: Any) -> None:
        for expected in [True, True] + [False] * times:
            dask_scheduler.log_event("all", {"action": "remove-worker", "expected": expected})
            dask_scheduler.log_event("all", {"action": "add-worker"})

    with idle() as client:
        watch = watchdog.Watch(client)
        client.run_on_scheduler(died)
        with contextlib.nullcontext() if verdict is None else pytest.raises(watchdog.Stalled, match=verdict):
            watch.look()


def another_version(folder: Path) -> Path:
    """A copy of the package that says it is another version."""
    shutil.copytree(ROOT / "pipeline" / "nightfit", folder / "nightfit", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "nightfit" / "_version.py").write_text('"""Another."""\n\n__version__ = "0.0.1"\n')
    return folder


def test_f28_a_worker_of_another_version_is_refused_at_the_start_and_gives_no_integers_later(
    manifest: Manifest, tmp_path: Path, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = processes()
    good = group.worker()
    with client_of(group, 1) as client, ShardedDataset(manifest, BOUNDS, client) as shards:
        shards.stage()
        group.worker(pythonpath=another_version(tmp_path / "other"))
        client.wait_for_workers(2, timeout=LIMIT)
        with pytest.raises(ClusterError, match=r"has nightfit 0.0.1 \(here"), connected(Remote(address=group.address)):
            pass
        good.kill()
        with pytest.raises(DataError, match="another version of nightfit"):
            shards.aggregate(QUERY)


def test_f32_a_worker_without_the_package_is_told(tmp_path: Path, processes: Callable[..., Processes]) -> None:
    (tmp_path / "empty" / "nightfit").mkdir(parents=True)
    (tmp_path / "empty" / "nightfit" / "__init__.py").write_text("raise ModuleNotFoundError('nightfit')\n")
    group = processes()
    group.worker(pythonpath=tmp_path / "empty")
    remote = Remote(address=group.address)
    with pytest.raises(ClusterError, match=r"cannot import nightfit .*: install the same version there"), connected(remote):
        pass


def test_f30_no_row_is_on_disk_after_a_run(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    canary = 0.718273645546372
    bounds = Preprocessing(features=("x0",), target="y", centre=(0,), scale=(1,), intercept=False)
    query = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=np.zeros(1), bits=40)
    manifest = scan(str(write("flat", pa.table({"x0": np.full(5000, canary), "y": np.ones(5000)}))))
    scratch = tmp_path / "scratch"

    def holding() -> list[Path]:
        needle = np.full(2, canary).tobytes()
        return [path for path in scratch.rglob("*") if path.is_file() and needle in path.read_bytes()]

    with connected(Local(workers=1, directory=str(scratch))) as client:
        with ShardedDataset(manifest, bounds, client) as shards:
            shards.aggregate(query)
            assert holding(), "rows were to lie here"
        assert not holding()
        lost = ShardedDataset(manifest, bounds, client)
        lost.aggregate(query)
        assert holding()
    assert not holding()


# TLS


def certificates(folder: Path, name: str, days: int) -> Certificates:
    """An authority and what it signed, valid until so many days from now."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    folder.mkdir(exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    issuer_key = _key(folder / "ca.key", ec, serialization)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    before, after = now - datetime.timedelta(days=10), now + datetime.timedelta(days=days)

    def signed(subject: x509.Name, key: Any, authority: bool, end: datetime.datetime) -> bytes:
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        built = built.serial_number(x509.random_serial_number()).not_valid_before(before).not_valid_after(end)
        built = built.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        return built.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    ca = folder / "ca.pem"
    if not ca.exists():
        ca.write_bytes(signed(issuer, issuer_key, True, now + datetime.timedelta(days=30)))
    key = _key(folder / f"{name}.key", ec, serialization)
    certificate = folder / f"{name}.pem"
    certificate.write_bytes(signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, False, after))
    return Certificates(ca_file=str(ca), client_cert=str(certificate), client_key=str(folder / f"{name}.key"))


def _key(path: Path, ec: Any, serialization: Any) -> Any:
    if path.exists():
        return serialization.load_pem_private_key(path.read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, pkcs8, plain))
    return key


def test_f31_only_a_side_with_a_valid_certificate_is_let_in(
    manifest: Manifest, tmp_path: Path, processes: Callable[..., Processes]
) -> None:
    good, expired = (certificates(tmp_path / "tls", name, days) for name, days in (("node", 30), ("old", -1)))
    foreign = certificates(tmp_path / "foreign", "stranger", 30)
    options = ("--tls-ca-file", good.ca_file, "--tls-cert", good.client_cert, "--tls-key", good.client_key)
    group = processes(workers=1, options=options, scheme="tls")
    with connected(Remote(address=group.address, certificates=good)) as client:
        client.wait_for_workers(1, timeout=LIMIT)
        assert (ShardedDataset(manifest, BOUNDS, client).aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()
    port = group.address.rsplit(":", 1)[1]
    for refused in (
        Remote(address=f"tcp://127.0.0.1:{port}", timeout=2),
        Remote(address=group.address, timeout=2),
        Remote(address=group.address, timeout=2, certificates=expired),
        Remote(
            address=group.address,
            timeout=2,
            certificates=Certificates(ca_file=good.ca_file, client_cert=foreign.client_cert, client_key=foreign.client_key),
        ),
        Remote(address=f"tcp://127.0.0.1:{port}", timeout=2, certificates=good),
        Remote(address=group.address, timeout=2, certificates=Certificates(ca_file="none.pem", client_cert="a", client_key="b")),
    ):
        with pytest.raises(ClusterError, match=r"no Dask scheduler answers|needs a tls:// address|cannot be read"), connected(refused):
            pass


def test_a_scheduler_without_workers_is_told_after_the_timeout(processes: Callable[..., Processes]) -> None:
    group = processes(workers=0)
    Client(group.address, timeout=300, set_as_default=False).close()  # the scheduler answers
    with pytest.raises(ClusterError, match="has no workers: start some"), connected(Remote(address=group.address, timeout=15)):
        pass


# clusters of any class


def test_a_cluster_class_is_made_by_its_path_with_its_arguments(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site_clusters.py").write_text(
        "from distributed import LocalCluster\n"
        "class Site(LocalCluster):\n"
        "    def __init__(self, nodes, **options):\n"
        "        super().__init__(n_workers=nodes, threads_per_worker=1, processes=False, dashboard_address=None,\n"
        "                         scheduler_kwargs={'dashboard_address': '127.0.0.1:0'}, **options)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with connected(Named(path="site_clusters.Site", arguments={"nodes": 2}, workers=2)) as client:
        assert len(workers_of(client)) == 2
        assert (ShardedDataset(manifest, BOUNDS, client).aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()
    for path, arguments, message in (
        ("site_clusters.Nothing", {}, "there is no class site_clusters.Nothing"),
        ("no_such_package.Cluster", {}, "there is no class no_such_package.Cluster"),
        ("json.JSONDecoder", {}, "json.JSONDecoder gave a JSONDecoder, which is no Dask cluster and no client"),
        ("json.scanner.NUMBER_RE", {}, "is no class and no function"),
        ("site_clusters.Site", {"nods": 2}, "cannot be made with cluster.arguments: missing"),
        ("site_clusters.Site", {"nodes": 0}, r"has 0 of 1 worker\(s\) after 1 s"),
    ):
        with pytest.raises(ClusterError, match=message), connected(Named(path=path, arguments=arguments, timeout=1)):
            pass


# sizes


def peak(client: Client) -> int:
    """The largest resident memory that any worker ever had, in bytes."""

    def high_water() -> int:  # nested, so that it travels by value: workers do not have the tests on their path
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    return max(client.run(high_water).values())


@pytest.mark.sweep
def test_i8_one_huge_row_group_is_never_held_whole(tmp_path: Path, processes: Callable[..., Processes]) -> None:
    rows, columns, limit = 2_500_000, 60, 700 * 2**20
    names = [f"x{j}" for j in range(columns)]
    rng = np.random.default_rng(0)
    values = pa.array([-1.0, -0.3, 0.4, 1.0])
    codes = pa.array(rng.integers(0, 4, rows).astype(np.int8))
    column = pa.DictionaryArray.from_arrays(codes, values).cast(pa.float64())
    pq.write_table(pa.table({**dict.fromkeys(names, column), "y": column}), tmp_path / "huge.parquet", row_group_size=rows)
    del column
    manifest = scan(str(tmp_path / "huge.parquet"))
    assert manifest.shards[0].row_groups == (rows,)
    zeros, ones = (0.0,) * columns, (1.0,) * columns
    bounds = Preprocessing(features=tuple(names), target="y", centre=zeros, scale=ones, intercept=False)
    query = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.zeros(columns), bits=30)
    assert rows * columns * 8 > 1.5 * limit
    group = processes(anew=True)
    group.worker(memory=str(limit))
    with client_of(group, 1) as client, ShardedDataset(manifest, bounds, client) as shards:
        total = shards.aggregate(query)
        assert (shards.aggregate(query) == total).all()
        assert shards.executor.folder is not None
        assert peak(client) < limit
    drawn = np.array([-1.0, -0.3, 0.4, 1.0])[codes.to_numpy()]
    assert np.max(np.abs(total[0] / 2**30 + np.sum(drawn * drawn))) < rows * 2**-30


STAGE = """
import sys, time
from dataclasses import replace
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import placement
from nightfit.shards.cluster import Remote, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
placement.RESIDENT_SHARE = 0
bounds = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
with connected(Remote(address=sys.argv[1])) as client, ShardedDataset(scan(sys.argv[2]), bounds, client) as shards:
    shards.stage()
    print("staged", flush=True)
    time.sleep(600)
"""


def test_f30_the_rows_of_a_killed_driver_leave_living_workers_after_the_lease(
    manifest: Manifest, processes: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    group = processes(workers=1, environment={"DASK_NIGHTFIT__LEASE": "0.2"})
    with subprocess.Popen([sys.executable, "-c", STAGE, group.address, manifest.path], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"staged\n"
        (left,) = group.folder.rglob("*.rows")
        with client_of(group, 1) as client, ShardedDataset(manifest, BOUNDS, client) as shards:
            shards.stage()
            (other,) = set(group.folder.rglob("*.rows")) - {left}
            driver.kill()
            until(lambda: not left.parent.exists(), "the worker removes what the killed driver left")
            assert other.exists(), "another driver's rows stay"
            assert (shards.aggregate(QUERY) == ShardedDataset(manifest, BOUNDS).aggregate(QUERY)).all()
    assert not list(group.folder.rglob("*.rows"))


def test_f21_a_lost_scheduler_is_told_by_our_message_alone(manifest: Manifest, tmp_path: Path, processes: Callable[..., Processes]) -> None:
    """The scheduler is killed after the first of three answers: no log or traceback of Dask comes before the message, or after it."""
    group = processes(workers=1)
    content = {
        "name": "visits",
        "data": {"path": manifest.path, "name": "toy", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
        "method": {"steps": 3},
        "cluster": {"address": group.address},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    Ledger.create(f"sqlite:///{tmp_path}/ledger.db").engine.dispose()
    program = (
        "import os, signal, sys\nfrom nightfit import load_config, nightly\nfrom nightfit.types import NightfitError\n"
        "def killing(at):\n    if at.step == 1:\n        os.kill(int(sys.argv[2]), signal.SIGKILL)\n"
        "try:\n    nightly.run(nightly.prepare(load_config(sys.argv[1])), show=killing)\n"
        "except NightfitError as error:\n    print(f'error: {error}', file=sys.stderr)\n    sys.exit(1)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "refit.yaml"), str(group.started[0].pid)]
    impatient = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    done = subprocess.run(command, env=impatient, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines() == ["error: the Dask cluster was lost: check scheduler and workers, then run the refit again to resume"]
