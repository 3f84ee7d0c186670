"""The refit as a Prefect flow: what it charges, what it tells Prefect, what it survives. One real server, flows in other processes."""

import base64
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from nightfit.ledger import Ledger
from nightfit.privacy.accounting import Cost
from nightfit_flows.server import configured

pytestmark = pytest.mark.process

CANARY = 987654.321
PATIENCE = 600.0  # seconds: only a test that hangs waits for so long
NIGHTFIT = [sys.executable, "-c", "from nightfit.cli import main; main()"]
Play = Callable[..., Any]
Forked = Callable[..., "subprocess.CompletedProcess[str]"]

# Runs snippets one after another, so that Prefect is imported once; a snippet leaves its result in `value`.
PLAYER = """
import json, sys
from unittest.mock import patch
import nightfit_flows.refit
from nightfit_flows.refit import refit
from nightfit import nightly as job
from nightfit.types import NightfitError

for line in sys.stdin:
    names = dict(globals())
    try:
        exec(json.loads(line), names)
        answer = {"value": names.get("value")}
    except Exception as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Prefect:
    """A running server and where it keeps everything."""

    url: str
    home: Path

    def ask(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def run_of(self, config: Path) -> dict[str, Any]:
        """The latest flow run of a configuration, when it has ended."""
        for _ in _until(f"a flow run of {config} ends", self.home / "flows.log"):
            for run in self.ask("flow_runs/filter", {"sort": "EXPECTED_START_TIME_DESC"}):
                if run["parameters"].get("config") == str(config) and run["state_type"] not in ("PENDING", "RUNNING", "SCHEDULED"):
                    return run
        raise AssertionError

    def logs_of(self, run: dict[str, Any]) -> str:
        """Everything that was logged of a flow run; it arrives some seconds after."""
        for _ in _until("the logs arrive", self.home / "flows.log"):
            logs = self.ask("logs/filter", {"logs": {"flow_run_id": {"any_": [run["id"]]}}})
            if any(log["message"].startswith("Finished in state") and log["task_run_id"] is None for log in logs):
                return "\n".join(log["message"] for log in logs)
        raise AssertionError

    def kept(self) -> bytes:
        """Every byte below the server's and the flows' home: databases, printed logs, and pickles of results or exceptions."""
        files = [path for path in sorted(self.home.rglob("*")) if path.is_file()]
        pickles = [base64.b64decode(path.read_bytes()) for path in files if path.parent.name == "storage"]
        return b"\0".join([*(path.read_bytes() for path in files), *pickles])


def _environment(home: Path, **more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    quiet = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1", "PREFECT_SERVER_UI_ENABLED": "false"}
    return {**inherited, **quiet, "PREFECT_HOME": str(home), **more}


def _until(what: str, log: Path) -> Iterator[None]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        yield
        time.sleep(0.5)
    pytest.fail(f"waited in vain until {what}:\n{log.read_text()[-4000:]}")


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


def _end(child: "subprocess.Popen[Any]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@pytest.fixture(scope="module")
def prefect(prefect_server: dict[str, str]) -> Prefect:
    """The server of the run, whose home also holds what other files' flows told it."""
    return Prefect(url=prefect_server["PREFECT_API_URL"], home=Path(prefect_server["PREFECT_HOME"]))


@pytest.fixture(scope="module")
def play(prefect: Prefect) -> Iterator[Play]:
    """Run a snippet in a process that knows the server, with every log that Prefect can write; its `value`, or how it failed if it must.

    Prefect's settings are as unsafe as a worker's can be: the flow's own arguments must win.
    """
    unsafe = {
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        "PREFECT_LOGGING_LOG_PRINTS": "true",
        "PREFECT_FLOWS_DEFAULT_RETRIES": "2",
        "PREFECT_TASKS_DEFAULT_RETRIES": "2",
    }
    environment = _environment(prefect.home, PREFECT_API_URL=prefect.url, PREFECT_LOGGING_LEVEL="DEBUG", **unsafe)
    with (prefect.home / "flows.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", PLAYER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert child.stdin is not None
    assert child.stdout is not None

    def played(snippet: str, fails: bool = False) -> Any:
        child.stdin.write(json.dumps(snippet) + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        assert answer, (prefect.home / "flows.log").read_text()[-4000:]
        said = json.loads(answer)
        assert ("error" in said) == fails, said
        return said if fails else said["value"]

    yield played
    child.stdin.close()
    child.stdout.close()
    _end(child)


@pytest.fixture
def night(tmp_path: Path, write: Callable[..., Path], table: pa.Table, ledger: Ledger) -> Callable[..., Path]:
    """A function that writes the configuration of a small refit; some rows hold the canary."""
    for name in table.column_names:
        values = table[name].to_numpy().copy()
        values[np.arange(0, len(values), 50)] = CANARY
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    write("data", table, [300, 400])

    def made(**changed: Any) -> Path:
        content: dict[str, Any] = {
            "name": "visits",
            "data": {"path": "data", "name": "toy", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
            "privacy": {"epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
            "method": {"steps": 3},
            "ledger": "sqlite:///ledger/ledger.db",
            "cluster": {"kind": "synchronous"},
            **changed,
        }
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return tmp_path / "refit.yaml"

    return made


def _charged_once(ledger: Ledger, release: Path) -> bool:
    """Whether the ledger holds one run, and has spent what its release says."""
    cost, spent = json.loads(release.read_text())["cost"], ledger.spent("toy")
    return len(ledger.runs()) == 1 and (str(spent.amount), str(spent.mass)) == (cost["amount"], cost["mass"])


def test_the_command_refits_without_a_prefect_server_and_leaves_no_process(
    night: Callable[..., Path], ledger: Ledger, tmp_path: Path
) -> None:
    home = tmp_path / "prefect"
    command = [*NIGHTFIT, "refit", str(night()), "--json"]
    done = subprocess.run(command, env=_environment(home), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert _charged_once(ledger, Path(said["release"]))
    assert "<!DOCTYPE html>" in Path(said["report"]).read_text()
    (home / "none.log").write_text("")
    for _ in _until("the server that was not waited for ends by itself", home / "none.log"):
        if not _processes_of(home):
            break
    with contextlib.closing(sqlite3.connect(home / "prefect.db")) as kept:
        assert kept.execute("select state_type from flow_run").fetchall() == [("COMPLETED",)]
        assert kept.execute("select count(*) from task_run where state_type = 'COMPLETED'").fetchone() == (5,)


def test_several_models_of_a_folder_are_one_flow_that_fails_when_one_does(
    play: Play, prefect: Prefect, night: Callable[..., Path], ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "night").mkdir()
    for name, target, columns in (("a", "y", ["x0"]), ("b", "x1", ["x0"]), ("c", "nothing", ["x0"])):
        described = {column: {"kind": "number", "bounds": [-4, 4]} for column in columns}
        data = {"path": "../data", "name": "toy", "target": target, "columns": described}
        place = night(name=name, data=data, method="auto", ledger="sqlite:///../ledger/ledger.db")
        place.rename(tmp_path / "night" / f"{name}.yaml")
    folder = str(tmp_path / "night")
    snippet = "from nightfit_flows.night import night, told\nheard = []\ntold.set(heard.append)\n"
    said = play(f"{snippet}night([{folder!r}])", fails=True)
    assert said == {"error": "SomeFailed", "text": "1 of 3 models failed: c; the others are released"}
    assert {run["state"] for run in ledger.runs()} == {"finished"}
    assert sorted(run["model"].partition("-")[0] for run in ledger.runs()) == ["a", "b", "rows"]
    (tmp_path / "night" / "c.yaml").unlink()
    spent = ledger.spent("toy")
    assert play(f"{snippet}night([{folder!r}])\nvalue = [one['night']['state'] for one in heard]") == ["unchanged", "unchanged"]
    assert ledger.spent("toy") == spent
    assert str(CANARY).encode() not in prefect.kept()


def test_a_refit_uses_the_server_of_a_living_schedule(prefect: Prefect, forked: Forked, tmp_path: Path) -> None:
    """The context in which every command runs its flow."""
    home = tmp_path / "prefect"
    home.mkdir()
    (home / "nightfit-server").write_text(prefect.url)
    program = (
        "import os, psutil\nfrom nightfit.cli.flow_runs import server_for_flows\ndel os.environ['PREFECT_API_URL']\n"
        "with server_for_flows() as wait:\n    wait()\n    print(os.environ['PREFECT_API_URL'], psutil.Process().children())"
    )
    said = forked(tmp_path, "-c", program, PREFECT_HOME=str(home))
    assert said.stdout == f"{prefect.url} []\n", said.stderr


def test_the_server_of_a_refit_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = "import time\nfrom nightfit_flows.server import background_server\nwith background_server():\n    time.sleep(3600)"
    (tmp_path / "none.log").write_text("")
    homes = {end: tmp_path / end.name for end in (signal.SIGKILL, signal.SIGTERM)}
    children = {end: subprocess.Popen([sys.executable, "-c", program], env=_environment(home)) for end, home in homes.items()}
    for end, home in homes.items():
        for _ in _until("the server is being started", tmp_path / "none.log"):
            if len(_processes_of(home)) > 1:
                break
        children[end].send_signal(end)
        children[end].wait()
    for _ in _until("no process is left", tmp_path / "none.log"):
        if not any(_processes_of(home) for home in homes.values()):
            break


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, False),
        ({".env": "PREFECT_API_URL=http://a/api"}, True),
        ({"prefect.toml": "[api]\nurl = 'http://a/api'"}, True),
        ({"profiles.toml": "active = 'x'\n[profiles.x]\nPREFECT_API_URL = 'http://a/api'"}, True),
        ({"profiles.toml": "active = 'y'\n[profiles.x]\nPREFECT_API_URL = 'http://a/api'\n[profiles.y]"}, False),
        ({"profiles.toml": "not toml"}, False),
    ],
)
def test_a_server_that_prefect_s_own_files_name_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], found: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("PREFECT_PROFILE", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert configured() is found


def test_a_refit_that_the_command_planned_is_not_planned_again(play: Play, night: Callable[..., Path]) -> None:
    config = str(night())
    said = play(
        "from pathlib import Path\nfrom nightfit.config import load\nfrom nightfit_flows.refit import prepared\n"
        f"planned = job.prepare(load(Path({config!r})))\ntoken = prepared.set(planned)\n"
        f"with patch.object(job, 'prepare', side_effect=AssertionError):\n    value = refit({config!r})\nprepared.reset(token)"
    )
    assert said["private"]


def test_a_refit_run_again_is_the_same_run_and_spends_nothing(play: Play, night: Callable[..., Path], ledger: Ledger) -> None:
    config = night()
    first = play(f"value = refit({str(config)!r})")
    kept = Path(first["release"]).read_bytes()
    second = play(f"value = refit({str(config)!r})")
    assert (first.pop("night")["state"], second.pop("night")["state"]) == ("new", "unchanged")
    assert second == first
    assert Path(first["release"]).read_bytes() == kept
    assert _charged_once(ledger, Path(first["release"]))


def test_a_flow_run_is_named_after_model_and_window_and_logs_its_night_in_one_line(
    play: Play, prefect: Prefect, night: Callable[..., Path]
) -> None:
    config = night(
        data={"path": "data", "name": "toy", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}, "window": "2026-W46"}
    )
    said = play(f"value = refit({str(config)!r})")
    run = prefect.run_of(config)
    assert run["name"] == "visits 2026-W46"
    assert said["night"]["line"] in prefect.logs_of(run).splitlines()


def test_guarantee_and_progress_are_shown_as_artifacts(play: Play, prefect: Prefect, night: Callable[..., Path]) -> None:
    said = play(f"value = refit({str(night(name='Shown.as_Artifact'))!r})")
    (artifact,) = prefect.ask("artifacts/filter", {"artifacts": {"key": {"any_": ["nightfit-shown-as-artifact"]}}})
    assert artifact["type"] == "markdown"
    assert artifact["description"] == f"Refit {said['run']}"
    assert f"({said['guarantee']['epsilon']:.4g}, 1e-05)-differentially private for one record" in artifact["data"]
    (progress,) = prefect.ask("artifacts/filter", {"artifacts": {"key": {"any_": ["nightfit-shown-as-artifact-progress"]}}})
    assert (progress["type"], progress["data"]) == ("progress", 100.0)
    assert re.fullmatch(r"step 3 of 3, [\d,]+ rows per second, 0 s left", progress["description"])


def test_an_exhausted_budget_fails_the_flow_and_charges_nothing(
    play: Play, prefect: Prefect, night: Callable[..., Path], ledger: Ledger, tmp_path: Path
) -> None:
    config = night(privacy={"epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 0.5, "delta": 1e-5}})
    answer = play(f"refit({str(config)!r})", fails=True)
    assert answer["error"] == "BudgetExceeded"
    assert "Nothing was read or charged" in answer["text"]
    run = prefect.run_of(config)
    assert run["state_type"] == "FAILED"
    assert "BudgetExceeded: visits: this refit does not fit" in run["state"]["message"]
    assert ledger.spent("toy") == Cost()
    assert ledger.runs() == []
    assert not list((tmp_path / "releases").glob("*/release.json"))  # the journal there says that the night failed


TOLD = {"command": [sys.executable, "-c", "import pathlib, sys; pathlib.Path('told').open('a').write(sys.stdin.read() + '\\n')"]}


def told_of(config: Path) -> list[dict[str, Any]]:
    """What the command of TOLD was told."""
    path = config.parent / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_hooks_of_a_flow_tell_each_end_once(play: Play, night: Callable[..., Path]) -> None:
    config = night(notify={**TOLD, "on": ["completion", "failure", "budget"], "nights": 100})
    said = play(f"value = refit({str(config)!r})")
    assert [(one["occasion"], one["run"]) for one in told_of(config)] == [("budget", said["run"]), ("completion", said["run"])]
    play(f"def fail(*_):\n  raise OSError('987654.321')\nwith patch.object(job, 'run_fit', fail):\n  refit({str(config)!r})", fails=True)
    assert [one["occasion"] for one in told_of(config)[2:]] == ["failure"]
    assert "987654.3" not in json.dumps(told_of(config))


def test_a_refit_by_command_has_the_tags_that_an_automation_looks_for(
    play: Play, prefect: Prefect, night: Callable[..., Path], forked: Forked
) -> None:
    """The automation of the guide, as it stands there, calls a webhook when such a run fails."""
    posted: list[bytes] = []
    with serving(posted) as url:
        block = play(
            "from prefect.blocks.notifications import CustomWebhookNotificationBlock\n"
            "content = {'subject': '{{subject}}', 'body': '{{body}}'}\n"
            f"value = str(CustomWebhookNotificationBlock(name='ours', url={url!r}, json_data=content).save('ours'))"
        )
        guide = (Path(__file__).parents[2] / "docs" / "guides" / "alerts.md").read_text()
        (automation,) = [one for one in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if one.startswith("automations:")]
        config = night(privacy={"epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 0.5, "delta": 1e-5}})
        nights = config.parent / "nights.yaml"
        nights.write_text(automation.replace("00000000-0000-0000-0000-000000000000", block))
        words = ["prefect", "automation", "create", "--from-file", str(nights)]
        created = forked(config.parent, "-c", f"import sys\nfrom prefect.cli import app\nsys.argv = {words}\napp()")
        assert created.returncode == 0, created.stderr
        done = forked(config.parent, "refit", str(config))
        assert "does not fit the lifetime budget" in done.stderr
        assert sorted(prefect.run_of(config)["tags"]) == ["model:visits", "nightfit"]
        for _ in _until("the webhook is called", prefect.home / "server.log"):
            if posted:
                break
    assert json.loads(posted[0]) == {"subject": "nightfit: Failed", "body": "visits on toy"}


@contextlib.contextmanager
def serving(posted: list[bytes]) -> Iterator[str]:
    """The address of a server on loopback that keeps what is posted to it."""

    class Kept(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Kept) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_no_value_of_a_record_reaches_prefect(play: Play, prefect: Prefect, night: Callable[..., Path]) -> None:
    config = night()
    stored = len(list(prefect.home.glob("storage/*")))
    said = play(f"value = refit({str(config)!r})")
    logged = prefect.logs_of(prefect.run_of(config))
    kept = prefect.kept()
    assert len(list(prefect.home.glob("storage/*"))) == stored
    assert str(config).encode() in kept
    assert said["run"].encode() in kept
    assert b"987654.3" not in kept
    assert "987654.3" not in logged


@pytest.mark.parametrize("failure", ["raise error", "raise NightfitError('told') from error", "raise NightfitError('told') from None"])
def test_the_cause_of_a_failure_is_never_told_to_prefect(play: Play, prefect: Prefect, night: Callable[..., Path], failure: str) -> None:
    config = night()
    answer = play(
        f"def fail(*_):\n  try:\n    float('987654.321!')\n  except ValueError as error:\n    {failure}\n"
        f"with patch.object(job, 'run_fit', fail):\n  refit({str(config)!r})",
        fails=True,
    )
    assert answer["error"] in ("RefitFailed", "NightfitError")
    assert "987654.3" not in answer["text"]
    logged = prefect.logs_of(prefect.run_of(config))
    assert answer["text"] in logged
    assert "987654.3" not in logged
    kept = prefect.kept()
    assert kept.count(answer["text"].encode()) >= 3  # in the console's log, the database and the pickle that Prefect makes of an exception
    assert b"987654.3" not in kept


def test_no_task_is_retried_cached_persisted_or_printed(play: Play) -> None:
    said = play(
        "from prefect import Task\nfrom prefect.cache_policies import NO_CACHE\n"
        "tasks = {name: task for name, task in vars(nightfit_flows.refit).items() if isinstance(task, Task)}\n"
        "facts = lambda t: [t.retries, t.cache_policy == NO_CACHE, t.cache_key_fn, t.persist_result, t.log_prints]\n"
        "value = {name: facts(task) for name, task in tasks.items()}\n"
        "value['refit'] = [refit.retries, True, None, refit.persist_result, refit.log_prints]"
    )
    assert set(said) == {"validate", "plan", "reserve", "fit", "publish", "refit"}
    assert all(facts == [0, True, None, False, False] for facts in said.values())


def test_a_served_flow_can_be_pickled(play: Play) -> None:
    assert play("import cloudpickle\nvalue = len(cloudpickle.dumps(refit))") > 0


def test_an_artifact_that_cannot_be_made_does_not_undo_a_release(
    play: Play, prefect: Prefect, night: Callable[..., Path], ledger: Ledger
) -> None:
    config = night()
    said = play(
        "def lost(*_, **__):\n    raise OSError('987654.321')\n"
        f"with patch.object(nightfit_flows.refit, 'create_markdown_artifact', lost):\n    value = refit({str(config)!r})"
    )
    assert _charged_once(ledger, Path(said["release"]))
    run = prefect.run_of(config)
    assert run["state_type"] == "COMPLETED"
    assert "could not be shown in Prefect (OSError)" in prefect.logs_of(run)


# The command with another server than that of the run, which Prefect was told of when it was imported.
ELSEWHERE = """
import os, sys
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from nightfit.cli import main
def elsewhere(url, *words):
    os.environ["PREFECT_API_URL"], sys.argv = url, ["nightfit", *words]
    with temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}):
        main()
"""


def test_a_server_that_does_not_answer_costs_nothing(forked: Forked, night: Callable[..., Path], ledger: Ledger, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/api"
        done = forked(tmp_path, "-c", f"{ELSEWHERE}elsewhere({url!r}, 'refit', {str(night())!r}, '--json')")
    assert done.returncode == 1
    assert done.stderr.startswith("error:"), done.stderr
    assert "Traceback" not in done.stderr
    assert ledger.runs() == []


@pytest.mark.parametrize("moment", ["run_fit", "publish"])
def test_a_killed_flow_is_resumed_and_paid_once(
    play: Play, forked: Forked, night: Callable[..., Path], ledger: Ledger, tmp_path: Path, moment: str
) -> None:
    """Killed before its first question, holding the run's lock, or after the last, before the release is written."""
    config = night()
    killed = (
        "import os, signal\nimport nightfit_flows.refit\nfrom nightfit import nightly as job\n"
        "def die(planned, ledger, run, *_):\n    with ledger.hold(run.run_id):\n        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"job.{moment} = die\nnightfit_flows.refit.refit({str(config)!r})"
    )
    done = forked(tmp_path, "-c", killed)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [run["state"] for run in ledger.runs()] == ["reserved" if moment == "run_fit" else "finished"]
    assert not (tmp_path / "releases").exists()
    said = play(f"value = refit({str(config)!r})")
    assert _charged_once(ledger, Path(said["release"]))
    assert said["run"] == ledger.runs()[0]["run"]


# A proxy to the run's server, which is closed between the reservation and the first question.
CLOSING = """
import socket, threading
from nightfit import nightly

def closing(port):
    listener, ends = socket.create_server(("127.0.0.1", 0)), []

    def passed(one, other):
        try:
            while data := one.recv(2**16):
                other.sendall(data)
        except OSError:
            pass
        close(one, other)

    def serve():
        try:
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                ends.extend([near, far])
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=passed, args=pair, daemon=True).start()
        except OSError:
            pass

    def close(*several):
        for end in several:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def first_closed(*words, real=nightly.run_fit, **more):
        close(listener, *ends)
        listener.close()
        return real(*words, **more)

    threading.Thread(target=serve, daemon=True).start()
    nightly.run_fit = first_closed
    return f"http://127.0.0.1:{listener.getsockname()[1]}/api"
"""


def test_f34_a_refit_whose_prefect_server_is_lost_ends_with_its_release(
    prefect: Prefect, forked: Forked, night: Callable[..., Path], ledger: Ledger, tmp_path: Path
) -> None:
    """Lost between the reservation and the first question."""
    port = urllib.parse.urlsplit(prefect.url).port
    done = forked(tmp_path, "-c", f"{ELSEWHERE}{CLOSING}elsewhere(closing({port}), 'refit', {str(night())!r}, '--json')")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["warning: the Prefect server was lost: the refit was finished without it, and is paid once"]
    assert _charged_once(ledger, Path(json.loads(done.stdout)["release"]))
