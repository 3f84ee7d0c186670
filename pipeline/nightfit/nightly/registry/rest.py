"""MLflow's REST interface: the calls that a release needs. Imports the standard library.

https://mlflow.org/docs/latest/rest-api.html, version 2.0, which servers since MLflow 2.3 have: aliases of models came with it.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nightfit.types import NightfitError

LONGEST = 60.0  # seconds for each answer
SERVED = "mlflow-artifacts:"  # artifacts that the server itself takes in
EXISTS, ABSENT = "RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST"
PAGE = 1000  # versions in one answer
MOST_IN_A_BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # of one call of runs/log-batch


class RegistryError(NightfitError):
    """The server refused or did not answer; the message holds no word of its answer but MLflow's name of the error."""

    def __init__(self, words: str, code: str = "") -> None:
        super().__init__(words)
        self.code = code


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes to the address that was given, and to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Server:
    """A tracking server.

    Parameters
    ----------
    uri
        Its address.
    token
        Sent with every call; None for a server that asks for none.
    """

    uri: str
    token: str | None = None

    def post(self, call: str, **body: Any) -> dict[str, Any]:
        """The answer of a call that changes something or searches."""
        return self._answer("POST", f"/api/2.0/mlflow/{call}", json.dumps(body).encode(), "application/json")

    def get(self, call: str, **query: Any) -> dict[str, Any]:
        """The answer of a call that reads."""
        return self._answer("GET", f"/api/2.0/mlflow/{call}?{urllib.parse.urlencode(query)}", None, "application/json")

    def put(self, artifacts: str, name: str, content: bytes) -> None:
        """Store a file below the artifacts of a run, which the server must take in itself."""
        if not artifacts.startswith(SERVED):
            raise RegistryError("its artifacts lie where only its own client can write: start it with `mlflow server --serve-artifacts`")
        folder = urllib.parse.urlsplit(artifacts).path.strip("/")
        place = urllib.parse.quote(f"{folder}/{name}")
        self._answer("PUT", f"/api/2.0/mlflow-artifacts/artifacts/{place}", content, "application/octet-stream")

    def experiment(self, name: str) -> str:
        """The id of an experiment, which is made if it is not there."""
        try:
            return str(self.get("experiments/get-by-name", experiment_name=name)["experiment"]["experiment_id"])
        except RegistryError as error:
            if error.code != ABSENT:
                raise
        return str(self.post("experiments/create", name=name)["experiment_id"])

    def run(self, experiment: str, name: str, started: int, tags: Mapping[str, str]) -> dict[str, Any]:
        """A new run: its `run_id` and `artifact_uri`."""
        listed = _pairs(tags)
        found: dict[str, Any] = self.post("runs/create", experiment_id=experiment, run_name=name, start_time=started, tags=listed)["run"]
        return found["info"]

    def log(self, run: str, time: int, metrics: Mapping[str, float], params: Mapping[str, str]) -> None:
        """Metrics and parameters of a run."""
        numbers = [{"key": key, "value": value, "timestamp": time, "step": 0} for key, value in metrics.items()]
        for kind, listed in (("metrics", numbers), ("params", _pairs(params))):
            most = MOST_IN_A_BATCH[kind]
            for first in range(0, len(listed), most):
                self.post("runs/log-batch", run_id=run, **{kind: listed[first : first + most]})

    def end(self, run: str, time: int, status: Literal["FINISHED", "FAILED"]) -> None:
        """A run has ended."""
        self.post("runs/update", run_id=run, status=status, end_time=time)

    def model(self, name: str) -> None:
        """A registered model, which is made if it is not there."""
        try:
            self.post("registered-models/create", name=name)
        except RegistryError as error:
            if error.code != EXISTS:
                raise

    def versions(self, name: str) -> list[dict[str, Any]]:
        """Every version of a registered model, with its tags as a mapping."""
        quoted = name.replace("'", "''")
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            more = {"page_token": token} if token else {}
            answer = self.get("model-versions/search", filter=f"name='{quoted}'", max_results=PAGE, **more)
            found += answer.get("model_versions", [])
            token = answer.get("next_page_token", "")
            if not token:
                return [{**one, "tags": {tag["key"]: tag.get("value", "") for tag in one.get("tags", [])}} for one in found]

    def version(self, name: str, source: str, run: str, tags: Mapping[str, str], description: str) -> str:
        """A new version of a registered model."""
        body = {"name": name, "source": source, "run_id": run, "tags": _pairs(tags), "description": description}
        return str(self.post("model-versions/create", **body)["model_version"]["version"])

    def alias(self, name: str, alias: str, version: str) -> None:
        """Let an alias name this version."""
        self.post("registered-models/alias", name=name, alias=alias, version=version)

    def _answer(self, method: str, path: str, body: bytes | None, kind: str) -> dict[str, Any]:
        headers = {"Content-Type": kind} | ({} if self.token is None else {"Authorization": f"Bearer {self.token}"})
        request = urllib.request.Request(self.uri.rstrip("/") + path, body, headers, method=method)
        call = path.split("?")[0].removeprefix("/api/2.0/")
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=LONGEST) as answer:
                read: dict[str, Any] = json.loads(answer.read() or b"{}")
                return read
        except urllib.error.HTTPError as error:
            code = _code(error)
            raise RegistryError(f"{call.split('/artifacts/')[0]} was answered by {error.code} {code}".rstrip(), code) from None
        except (OSError, ValueError) as error:
            raise RegistryError(f"{call.split('/artifacts/')[0]} was not answered ({type(error).__name__})") from None


def _code(error: urllib.error.HTTPError) -> str:
    """MLflow's name of an error; empty where the answer is not MLflow's."""
    try:
        found = str(json.loads(error.read()).get("error_code", ""))
    except (OSError, ValueError, AttributeError):
        return ""
    return found if found.replace("_", "").isalpha() else ""


def _pairs(named: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in named.items()]
