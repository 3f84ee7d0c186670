"""Prefect flows. The only package that imports prefect.

Prefect reads its settings when it is first imported, so what suits a closed hospital network is set here, before that; a user's
own settings win.
"""

import os
from pathlib import Path

DEFAULTS = {
    "PREFECT_HOME": str(Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "nightfit" / "prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_LOGGING_LOG_PRINTS": "false",
}

for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)

Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True, mode=0o700)
