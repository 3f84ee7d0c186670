"""What MLflow is told of a release, and the alias that follows promotion. Imports rest, model, release and ledger."""

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from nightfit.config import Config
from nightfit.ledger import Ledger
from nightfit.ledger.promotions import current
from nightfit.nightly.night import Night
from nightfit.nightly.registry.model import files_of
from nightfit.nightly.registry.rest import ABSENT, RegistryError, Server
from nightfit.release import Release, report
from nightfit.release.metrics import Range
from nightfit.types import NightfitError

ALIAS = "current"
RUN = "nightfit.run"  # the tag by which a run and a version are found again
MOST_IN_A_PARAMETER, MOST_IN_A_TAG = 500, 5000  # characters, which every server since MLflow 2.3 takes


def log_release(config: Config, ledger: Ledger, night: Night, page: str) -> None:
    """Log a night's private release as a run and a version of the model, once, and let the alias `current` follow promotion.

    What fails is warned of and fails no night. The same night run again makes up for it, and is free.

    Parameters
    ----------
    config : Config
        Its `mlflow` names the server.
    ledger : Ledger
        That paid for the release.
    night : Night
        What came out of the night.
    page : str
        The report.
    """
    release = night.release
    if config.mlflow is None or not release.private or not ledger.check_release(release.claim).trusted:
        return

    def told(server: Server) -> None:
        server.model(_model(config))
        if not any(version["tags"].get(RUN) == release.run_id for version in server.versions(_model(config))):
            _log(config, server, night, page)
        _point(config, ledger, server)

    _tried(config, told)


def follow_promotion(config: Config, ledger: Ledger) -> None:
    """Let the alias `current` name the version of the release that is in use, after a decision by hand."""
    _tried(config, lambda server: _point(config, ledger, server))


def _tried(config: Config, tell: Callable[[Server], None]) -> None:
    if config.mlflow is None:
        return
    try:
        token = None if config.mlflow.token is None else config.mlflow.token.read(config.folder)
        tell(Server(uri=config.mlflow.uri, token=token))
    except NightfitError as error:
        warnings.warn(f"MLflow was not told of everything: {error}", stacklevel=3)
    except Exception as error:
        warnings.warn(f"MLflow was not told of everything ({type(error).__name__})", stacklevel=3)


def _log(config: Config, server: Server, night: Night, page: str) -> None:
    """A run with all of it, then the version, which is the sign that the run is whole."""
    release, began = night.release, _milliseconds(night.release)
    run = server.run(server.experiment(_experiment(config)), release.run_id, began, _tags(release))
    try:
        server.log(run["run_id"], began, _metrics(night), _parameters(release))
        for name, content in _files(night, page).items():
            server.put(run["artifact_uri"], name, content)
        source = f"{run['artifact_uri']}/model"
        server.version(_model(config), source, run["run_id"], _tags(release), release.statement())
    except BaseException:
        with contextlib.suppress(RegistryError):
            server.end(run["run_id"], began, "FAILED")
        raise
    server.end(run["run_id"], began, "FINISHED")


def _files(night: Night, page: str) -> dict[str, bytes]:
    """Release, report and summary; and the model, where the release is one that predicts."""
    files = {"release.json": night.path.read_bytes(), "report.html": page.encode()}
    files["summary.md"] = report.summary(night.release, night.balance).encode()
    with contextlib.suppress(NightfitError):
        files |= {f"model/{name}": content for name, content in files_of(night.release).items()}
    return files


def _point(config: Config, ledger: Ledger, server: Server) -> None:
    """Move the alias to the version of the run in use, where that was logged."""
    used = current(ledger, config.name, config.data_set)
    try:
        versions = server.versions(_model(config))
    except RegistryError as error:
        if error.code != ABSENT:
            raise
        versions = []
    found = [version["version"] for version in versions if used is not None and version["tags"].get(RUN) == used]
    if found:
        server.alias(_model(config), ALIAS, str(found[-1]))
    elif used is not None:
        raise RegistryError(f"it has no version of {used}, which is in use: `nightfit refit` of its window logs it")


def _model(config: Config) -> str:
    return config.mlflow.model if config.mlflow is not None and config.mlflow.model is not None else config.name


def _experiment(config: Config) -> str:
    return config.mlflow.experiment if config.mlflow is not None and config.mlflow.experiment is not None else config.name


def _tags(release: Release) -> dict[str, str]:
    return {RUN: release.run_id, "nightfit.private": "true", "nightfit.guarantee": release.statement()[:MOST_IN_A_TAG]}


def _metrics(night: Night) -> dict[str, float]:
    """Paid and public numbers, the finite ones."""
    guarantee, found = night.release.content["guarantee"], night.evaluation
    told = {
        "epsilon": float(guarantee["epsilon"]),
        "delta": float(guarantee["delta"]),
        "budget_left": night.balance.share_left,
        **({} if night.goes_on else {"nights_left": float(night.nights_left)}),
    }
    if found is not None:
        told |= _ranges(found.metrics) | _ranges(found.checks(), "check ")
        if found.previous is not None:
            told |= _ranges({found.main: found.previous.change}, "change of ")
    return {_name(name): value for name, value in told.items() if math.isfinite(value)}


def _ranges(found: Mapping[str, Range], before: str = "") -> dict[str, float]:
    return {
        f"{before}{name}{end}": number
        for name, one in found.items()
        for end, number in (("", one.value), (" low", one.low), (" high", one.high))
    }


def _name(words: str) -> str:
    """A key of letters, digits and marks that every server takes."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-./") else "_" for letter in words)[:250]


def _parameters(release: Release) -> dict[str, str]:
    """What was fitted, of which data, for whom it is private."""
    content, guarantee = release.content, release.content["guarantee"]
    plan: dict[str, Any] = content["plan"]
    told = {
        "loss": plan["loss"]["kind"],
        "data_set": plan["data_set"],
        "units": plan["units"],
        "adjacency": guarantee.get("adjacency", ""),
        "unit": guarantee.get("unit", ""),
        "features": len(content["features"]),
        "plan_digest": content["plan_digest"],
        "nightfit": content["versions"]["nightfit"],
    }
    return {name: str(value)[:MOST_IN_A_PARAMETER] for name, value in told.items()}


def _milliseconds(release: Release) -> int:
    return int(datetime.fromisoformat(release.content["time"]).timestamp() * 1000)
