"""Private releases are logged to a server on loopback that answers the calls of MLflow's REST interface which are used."""

import json
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightfit.config import Config, ConfigError
from nightfit.nightly import Published, open_ledger, promotion

pytestmark = pytest.mark.process

Night = Callable[..., Config]
Refit = Callable[..., Published]
Evaluated = Callable[..., dict[str, Any]]
SECRET = "s3cret-token"
AGAIN = {"error_code": "RESOURCE_ALREADY_EXISTS", "message": SECRET}
ABSENT = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": SECRET}


@dataclass
class Registry:
    """What the server holds, by MLflow's rules; `broken` names a call that it answers by 500."""

    url: str = ""
    experiments: dict[str, str] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    versions: list[dict[str, Any]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    broken: str = ""

    def answer(self, call: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.calls.append(call)
        if call == self.broken:
            return 500, {"error_code": "INTERNAL_ERROR", "message": SECRET}
        answered: tuple[int, dict[str, Any]] = getattr(self, call.replace("/", "_").replace("-", "_"))(**asked)
        return answered

    def experiments_get_by_name(self, experiment_name: str) -> tuple[int, dict[str, Any]]:
        found = self.experiments.get(experiment_name)
        return (404, ABSENT) if found is None else (200, {"experiment": {"experiment_id": found}})

    def experiments_create(self, name: str) -> tuple[int, dict[str, Any]]:
        self.experiments[name] = str(len(self.experiments) + 1)
        return 200, {"experiment_id": self.experiments[name]}

    def runs_create(self, experiment_id: str, run_name: str, start_time: int, tags: list[dict[str, str]]) -> tuple[int, dict[str, Any]]:
        run = f"r{len(self.runs)}"
        self.runs[run] = {"name": run_name, "metrics": {}, "params": {}, "status": "RUNNING", "start": start_time}
        return 200, {"run": {"info": {"run_id": run, "artifact_uri": f"mlflow-artifacts:/{experiment_id}/{run}/artifacts"}}}

    def runs_log_batch(self, run_id: str, **named: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        for kind, listed in named.items():
            self.runs[run_id][kind] |= {one["key"]: one["value"] for one in listed}
        return 200, {}

    def runs_update(self, run_id: str, status: str, end_time: int) -> tuple[int, dict[str, Any]]:
        self.runs[run_id]["status"] = status
        return 200, {}

    def registered_models_create(self, name: str) -> tuple[int, dict[str, Any]]:
        if name in self.models:
            return 400, AGAIN
        self.models.add(name)
        return 200, {}

    def model_versions_search(self, filter: str, max_results: str, page_token: str = "0") -> tuple[int, dict[str, Any]]:
        """One version a page."""
        name = re.fullmatch(r"name='(.*)'", filter)[1]  # type: ignore[index]
        mine, at = [one for one in self.versions if one["name"] == name], int(page_token)
        more = {"next_page_token": str(at + 1)} if at + 1 < len(mine) else {}
        return 200, {"model_versions": mine[at : at + 1], **more}

    def model_versions_create(self, name: str, **given: Any) -> tuple[int, dict[str, Any]]:
        made = {"name": name, "version": str(len(self.versions) + 1), **given}
        self.versions.append(made)
        return 200, {"model_version": made}

    def registered_models_alias(self, name: str, alias: str, version: str) -> tuple[int, dict[str, Any]]:
        self.aliases[f"{name}@{alias}"] = version
        return 200, {}

    def run_in_use(self) -> str:
        """The nightfit run of the version that `current` names."""
        (version,) = [one for one in self.versions if one["version"] == self.aliases["visits@current"]]
        return next(str(tag["value"]) for tag in version["tags"] if tag["key"] == "nightfit.run")


@pytest.fixture
def registry() -> Iterator[Registry]:
    """The server."""
    held = Registry()

    class Served(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            held.tokens.add(self.headers["Authorization"])
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            path, _, query = self.path.partition("?")
            if path.startswith("/moved"):
                self.send_response(302)
                self.send_header("Location", path.removeprefix("/moved"))
                self.end_headers()
                return
            if self.command == "PUT":
                held.files[urllib.parse.unquote(path.removeprefix("/api/2.0/mlflow-artifacts/artifacts/"))] = body
                self._said(200, {})
                return
            asked = json.loads(body) if body else dict(urllib.parse.parse_qsl(query))
            self._said(*held.answer(path.removeprefix("/api/2.0/mlflow/"), asked))

        do_GET = do_PUT = do_POST

        def _said(self, status: int, content: dict[str, Any]) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Served)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    held.url = f"http://127.0.0.1:{server.server_port}"
    yield held
    server.shutdown()
    thread.join()
    server.server_close()


def test_releases_are_logged_once_and_the_alias_follows_promotion(
    night: Night, refit: Refit, evaluated: Evaluated, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_TOKEN", SECRET)
    section = {"uri": registry.url, "token": {"env": "OUR_TOKEN"}}
    made = refit(night("1", mlflow=section), evaluated(0.4))
    first = made.release
    assert registry.run_in_use() == first.run_id
    worse = refit(night("2", mlflow=section), evaluated(0.3, against=first.run_id, change=-0.1, better=False)).release.run_id
    assert registry.run_in_use() == first.run_id
    better = refit(night("3", mlflow=section), evaluated(0.5, against=first.run_id, change=0.1, better=True)).release.run_id
    assert registry.run_in_use() == better
    assert [run["name"] for run in registry.runs.values()] == [first.run_id, worse, better]
    refit(night("3", mlflow=section))
    assert len(registry.runs) == len(registry.versions) == 3
    ledger = open_ledger(night("3", mlflow=section))
    promotion.rollback(night("3", mlflow=section), ledger, "a mistake")
    assert registry.run_in_use() == first.run_id
    promotion.promote(night("3", mlflow=section), ledger, worse, "by hand")
    assert registry.run_in_use() == worse
    ledger.engine.dispose()
    run = registry.runs["r0"]
    assert run["status"] == "FINISHED"
    assert (run["metrics"]["r2"], run["metrics"]["r2_low"]) == (0.4, 0.37)
    assert run["metrics"]["epsilon"] == first.content["guarantee"]["epsilon"]
    assert run["params"]["data_set"] == "clinic"
    assert registry.versions[0]["description"] == first.statement()
    assert registry.files["1/r0/artifacts/release.json"] == made.release_path.read_bytes()
    assert registry.files["1/r0/artifacts/report.html"].startswith(b"<!DOCTYPE html>")
    assert registry.tokens == {f"Bearer {SECRET}"}


def test_the_logged_model_predicts_without_nightfit(night: Night, refit: Refit, registry: Registry, tmp_path: Path) -> None:
    release = refit(night("1", mlflow={"uri": registry.url})).release
    folder = tmp_path / "model"
    for name, content in registry.files.items():
        path = folder / name.split("/artifacts/")[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import nightfit_released_loader as loader\n"
        "frame = {'x0': [0.1, -0.2], 'x1': [0.05, 0.3], 'x2': [0.0, 0.1]}\n"  # inside of any clamp that noise makes
        "print(json.dumps(loader._load_pyfunc(None).predict(frame).tolist()), 'nightfit' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program, str(folder / "model" / "code")], capture_output=True, text=True, check=True)
    told, imported = said.stdout.rsplit(" ", 1)
    x = np.array([[0.1, 0.05, 0.0], [-0.2, 0.3, 0.1]])
    coefficients = [release.content["coef"][name] for name in ("x0", "x1", "x2")]
    assert json.loads(told) == pytest.approx(x @ coefficients + release.content["intercept"], abs=1e-9)
    assert imported.strip() == "False"
    assert "loader_module: nightfit_released_loader" in (folder / "model" / "MLmodel").read_text()


@pytest.mark.parametrize("broken", ["runs/log-batch", "registered-models/create", "experiments/get-by-name"])
def test_a_registry_that_fails_warns_and_fails_no_night(night: Night, refit: Refit, registry: Registry, broken: str) -> None:
    registry.broken = broken
    config = night("1", mlflow={"uri": registry.url})
    with pytest.warns(UserWarning, match=f"MLflow was not told of everything: mlflow/{broken} was answered by 500 INTERNAL_ERROR$") as told:
        made = refit(config)
    assert SECRET not in str(told[0].message)
    assert made.release_path.exists()
    assert {run["status"] for run in registry.runs.values()} <= {"FAILED"}
    registry.broken = ""
    refit(config)  # the same night once more, which is free
    assert registry.run_in_use() == made.release.run_id


def test_a_server_that_is_away_and_a_secret_that_is_missing_are_told(night: Night, refit: Refit) -> None:
    with pytest.warns(UserWarning, match=r"MLflow was not told of everything: mlflow/registered-models/create was not answered"):
        refit(night("1", mlflow={"uri": "http://127.0.0.1:9"}))
    with pytest.warns(UserWarning, match="a secret is missing: the environment variable NOBODY_SET_IT is empty or not set"):
        refit(night("1", mlflow={"uri": "http://127.0.0.1:9", "token": {"env": "NOBODY_SET_IT"}}))


def test_no_redirection_is_followed_with_the_token(night: Night, refit: Refit, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_TOKEN", SECRET)
    with pytest.warns(UserWarning, match="was answered by 302"):
        refit(night("1", mlflow={"uri": f"{registry.url}/moved", "token": {"env": "OUR_TOKEN"}}))
    assert registry.calls == []


def test_a_release_that_is_not_private_is_not_logged(night: Night, refit: Refit, registry: Registry) -> None:
    refit(night("1", mlflow={"uri": registry.url}, unsafe={"noise": "none"}), unsafe=True)
    assert registry.calls == []


@pytest.mark.parametrize(
    "uri", ["http://mlflow.example:5000", "https://user:word@mlflow.example", "file:///tmp", "https://mlflow.example?x"]
)
def test_an_address_that_tells_secrets_or_is_not_protected_is_refused(night: Night, uri: str) -> None:
    with pytest.raises(ConfigError, match="uri"):
        night("1", mlflow={"uri": uri})
