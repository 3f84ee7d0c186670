"""Prefect's settings for a closed network and sensitive records. Imports nothing else of the package, and not prefect."""

import os
from pathlib import Path

DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_LOGGING_LOG_PRINTS": "false",
}


def prepare() -> None:
    """Set Prefect's settings in this process's environment and make Prefect's folder, readable by its user only.

    Settings that the user made are kept. Prefect reads its settings when it is first imported, so the entry points (`nightfit refit`,
    `demo` and `serve`) call this before. A Prefect worker imports Prefect first and has settings of its own (deploy/README.md); there
    the arguments of flow and tasks say that nothing is persisted, cached, retried or printed, whatever the settings
    (test_no_task_is_retried_cached_persisted_or_printed).
    """
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "nightfit" / "prefect"
    for name, value in {"PREFECT_HOME": str(home), **DEFAULTS}.items():
        os.environ.setdefault(name, value)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True, mode=0o700)
