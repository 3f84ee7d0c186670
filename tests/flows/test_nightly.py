"""Every night for real, on loopback: deploy/prefect.yaml with a server, a work pool and a worker; and `nightfit serve` alone."""

import asyncio
import datetime
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
import yaml
from prefect.server.schemas.schedules import CronSchedule

from nightfit.ledger import Ledger

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds: only a test that hangs waits for so long
OFTEN = "* * * * * */15"  # every 15 seconds: the last field is that of seconds
Start = Callable[..., "subprocess.Popen[bytes]"]


def _until(what: str, logs: Path) -> Iterator[None]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.5)
    told = "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(logs.glob("*.log")))
    pytest.fail(f"waited in vain until {what}\n{told}")


def _asked(url: str, body: Any = None, method: str = "POST") -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or "null")


def _processes_of(home: Path) -> list[int]:
    """The processes that run with this PREFECT_HOME, whoever their parent is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PREFECT_HOME={home}\0".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Prefect's folder and our logs."""
    made = tmp_path / "prefect"
    made.mkdir()
    return made


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """A function that starts a command in a session of its own; whatever runs of it at the end of the test is killed."""
    children = []
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "NIGHTFIT_"))}
    quiet = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1", "PREFECT_SERVER_UI_ENABLED": "false"}

    def started(log: str, *command: str, **environment: str) -> "subprocess.Popen[bytes]":
        with (home / f"{log}.log").open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**inherited, **quiet, "PREFECT_HOME": str(home), **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        children.append(child)
        return child

    yield started
    for pid in _processes_of(home):
        os.kill(pid, signal.SIGKILL)
    for child in children:
        child.wait()


@pytest.fixture
def config(tmp_path: Path, write: Callable[..., Path], table: pa.Table, ledger: Ledger) -> Path:
    """A small refit on a local Dask cluster of one worker process."""
    write("data", table, [300, 400])
    content = {
        "name": "visits",
        "data": {"path": "data", "name": "toy", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
        "method": {"steps": 3},
        "ledger": "sqlite:///ledger/ledger.db",
        "cluster": {"kind": "local", "workers": 1, "memory": "512MiB"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "refit.yaml"


def _only_release(config: Path, ledger: Ledger) -> dict[str, Any]:
    """The one release of the one run, which cost what it says."""
    (path,) = config.parent.glob("releases/*/release.json")
    release, spent = json.loads(path.read_text()), ledger.spent("toy")
    assert [(run["run"], run["state"]) for run in ledger.runs()] == [(release["run"], "finished")]
    assert (str(spent.amount), str(spent.mass)) == (release["cost"]["amount"], release["cost"]["mass"])
    return release


@pytest.mark.sweep
def test_two_scheduled_nights_of_a_deployment_are_one_run_and_one_charge(
    start: Start, home: Path, config: Path, ledger: Ledger, prefect_server: dict[str, str]
) -> None:
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"cluster": {"kind": "synchronous"}}))
    api = prefect_server["PREFECT_API_URL"]
    settings = {
        "PREFECT_API_URL": api,
        "NIGHTFIT_FOLDER": str(ROOT),
        "NIGHTFIT_CONFIG": str(config),
        "NIGHTFIT_CRON": OFTEN,
        "NIGHTFIT_TIMEZONE": "Europe/Berlin",
        "NIGHTFIT_POOL": "nightfit",
    }
    _asked(f"{api}/work_pools/", {"name": "nightfit", "type": "process"})
    deploy = ("-m", "prefect", "--no-prompt", "deploy", "--prefect-file", "deploy/prefect.yaml", "--name", "nightly")
    assert start("deploy", *deploy, **settings).wait(PATIENCE) == 0, (home / "deploy.log").read_text()
    worker = start("worker", "-m", "prefect", "worker", "start", "--pool", "nightfit", "--type", "process", "--limit", "1", **settings)

    ended = {"state": {"type": {"not_any_": ["SCHEDULED", "PENDING", "RUNNING"]}}}
    for _ in _until("two scheduled runs complete", home):
        assert worker.poll() is None, (home / "worker.log").read_text()
        runs = _asked(f"{api}/flow_runs/filter", {"flow_runs": ended, "work_pools": {"name": {"any_": ["nightfit"]}}})
        assert {run["state_type"] for run in runs} <= {"COMPLETED"}, (home / "worker.log").read_text()
        if len(runs) >= 2:
            break
    worker.kill()
    _asked(f"{api}/deployments/{runs[0]['deployment_id']}", method="DELETE")
    assert all(run["auto_scheduled"] and run["deployment_id"] for run in runs)
    release = _only_release(config, ledger)
    artifacts = _asked(f"{api}/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run["id"] for run in runs]}}})
    shown = [artifact for artifact in artifacts if artifact["key"] == "nightfit-visits"]
    assert len(shown) == len(runs)
    assert {artifact["description"] for artifact in shown} == {f"Refit {release['run']}"}
    assert all("differentially private for one record under replace" in artifact["data"] for artifact in shown)


@pytest.mark.parametrize("beside", [pytest.param(False, marks=pytest.mark.process), pytest.param(True, marks=pytest.mark.sweep)])
def test_serve_is_one_of_a_user_refits_on_schedule_and_leaves_no_process(
    start: Start, home: Path, config: Path, ledger: Ledger, beside: bool
) -> None:
    """In one life: killed and started again, in the sweep beside one that is refused and one that is stopped while it starts; stopped."""
    command, told = ("-c", "from nightfit.cli import main; main()", "serve", str(config)), home / "nightfit-server"
    first = start("first", *command)
    for _ in _until("its server answers", home):
        if told.exists():
            break
    (orphan,), address = _servers(home), told.read_text()
    first.kill()
    second = start("second", *command, "--cron", OFTEN, PREFECT_LOGGING_LEVEL="WARNING")
    for _ in _until("the second server answers", home):
        assert second.poll() is None, (home / "second.log").read_text()
        if told.read_text() != address:
            break
    (server,) = _servers(home)
    assert server != orphan
    others = [start(name, *command) for name in ("third", "fourth") if beside]
    for _ in _until("their servers wait for the second's", home):
        if len(_servers(home)) == 1 + len(others):
            break
    for fourth in others[1:]:
        fourth.send_signal(signal.SIGTERM)
        assert fourth.wait(PATIENCE) == 128 + signal.SIGTERM
    for _ in _until("a scheduled refit is published", home):
        assert second.poll() is None, (home / "second.log").read_text()
        if list(config.parent.glob("releases/*/report.html")):
            break
    for third in others[:1]:
        assert third.wait(PATIENCE) == 1
        assert "another `nightfit serve` of this user runs" in (home / "third.log").read_text()
    assert _servers(home) == [server]
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE) == 0, (home / "second.log").read_text()
    for _ in _until("no process is left", home):
        if not _processes_of(home):
            break
    _only_release(config, ledger)


@pytest.mark.sweep
def test_serve_refits_a_folder_every_night_with_the_models_that_are_in_it(start: Start, home: Path, config: Path, ledger: Ledger) -> None:
    """Of two models one is broken after the start: the other is refitted. A third one comes before the next night."""
    content = yaml.safe_load(config.read_text())
    content |= {"data": {**content["data"], "path": "../data"}, "ledger": "sqlite:///../ledger/ledger.db", "output": "../releases"}
    content |= {"evaluate": "none", "cluster": {"kind": "synchronous"}}
    del content["method"]
    folder = config.parent / "models"
    folder.mkdir()

    def write_model(name: str, **changes: Any) -> None:
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({**content, "name": name, **changes}))

    write_model("visits")
    write_model("costs")
    nightfit = "from nightfit.cli import main; main()"
    served = start("serve", "-c", nightfit, "serve", str(folder), "--cron", "* * * * *", PREFECT_LOGGING_LEVEL="WARNING")
    for _ in _until("it serves", home):
        assert served.poll() is None, (home / "serve.log").read_text()
        if "Refitting" in (home / "serve.log").read_text():
            break
    write_model("costs", unknown=1)
    for _ in _until("the model that can be read is published", home):
        assert served.poll() is None, (home / "serve.log").read_text()
        if list(config.parent.glob("releases/visits-*/report.html")):
            break
    write_model("stays")
    for _ in _until("the model that came is published", home):
        assert served.poll() is None, (home / "serve.log").read_text()
        if list(config.parent.glob("releases/stays-*/report.html")):
            break
    served.send_signal(signal.SIGINT)
    assert served.wait(PATIENCE) == 0, (home / "serve.log").read_text()
    for _ in _until("no process is left", home):
        if not _processes_of(home):
            break
    assert {run["model"] for run in ledger.runs() if run["state"] == "finished"} >= {"visits", "stays"}
    assert "costs" not in {run["model"] for run in ledger.runs()}


def _servers(home: Path) -> list[int]:
    """The Prefect servers that run with this PREFECT_HOME."""
    found = []
    for pid in _processes_of(home):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"nightfit_flows.server" in command:
            found.append(pid)
    return found


@pytest.mark.sweep
def test_serve_stopped_while_its_server_starts_leaves_no_process(start: Start, home: Path, config: Path, ledger: Ledger) -> None:
    served = start("serve", "-c", "from nightfit.cli import main; main()", "serve", str(config))
    for _ in _until("it starts its server", home):
        if len(_processes_of(home)) > 1:
            break
    served.send_signal(signal.SIGTERM)
    assert served.wait(PATIENCE) == 128 + signal.SIGTERM
    for _ in _until("no process is left", home):
        if not _processes_of(home):
            break
    assert ledger.runs() == []


@pytest.mark.process
def test_a_stop_while_the_server_is_being_made_leaves_no_process(start: Start, home: Path) -> None:
    """The signal comes when the server's process is there and the call that makes it has not returned."""
    program = """
import os, signal, subprocess, sys
from nightfit_flows.server import server
class Interrupted(subprocess.Popen):
    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        os.kill(os.getpid(), signal.SIGTERM)
subprocess.Popen = Interrupted
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
with server():
    raise AssertionError("it should have ended")
"""
    assert start("interrupted", "-c", program).wait(PATIENCE) == 128 + signal.SIGTERM
    for _ in _until("no process is left", home):
        if not _processes_of(home):
            break


KILLING = """
import sys
import psutil
from nightfit import nightly
from nightfit.cli import main
def killing(*words, real=nightly.run_fit, **more):
    for child in psutil.Process().children(recursive=True):
        child.kill()
        child.wait()
    return real(*words, **more)
nightly.run_fit = killing
main()
"""


@pytest.mark.sweep
def test_f34_a_refit_whose_own_prefect_server_is_killed_ends_with_its_release(
    start: Start, home: Path, config: Path, ledger: Ledger
) -> None:
    """Killed between the reservation and the first question."""
    assert start("refit", "-c", KILLING, "refit", str(config), "--json").wait(PATIENCE) == 0, (home / "refit.log").read_text()
    assert "warning: the Prefect server was lost: the refit was finished without it, and is paid once" in (home / "refit.log").read_text()
    _only_release(config, ledger)


@pytest.mark.parametrize("cron", ["0 2 * * *", "30 2 * * *", "0 4 * * *"])
@pytest.mark.parametrize(
    "before", [datetime.datetime(2027, 3, 26, 12, tzinfo=datetime.UTC), datetime.datetime(2027, 10, 29, 12, tzinfo=datetime.UTC)]
)
def test_a_night_when_clocks_change_has_one_refit(cron: str, before: datetime.datetime) -> None:
    """Prefect's own schedule in Berlin, where 02:00 to 03:00 is missing on 28 March 2027 and comes twice on 31 October."""
    zone = ZoneInfo("Europe/Berlin")
    dates = asyncio.run(CronSchedule(cron=cron, timezone=zone.key).get_dates(5, start=before))
    nights = [date.astimezone(zone).date() for date in dates]
    assert nights == [before.date() + datetime.timedelta(days=day) for day in range(1, 6)]
