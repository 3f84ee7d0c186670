"""What a refit of the demo's size and cost can learn of the bundled hospital: ten fits of each outcome, with the intervals that they print.

`python -m benchmarks demo` fits 5,000 patients at epsilon 1, as `nightfit demo` does, and says how often the paid interval of the main
metric says that the fit is better than the best constant.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nightfit import Ledger, load_config, refit
from nightfit.bundled import bundled
from nightfit.config.template import configuration, hospital_start

FITS = 10
DEMO = hospital_start(str(bundled("hospital")))
WITHOUT_STAY = {name: fields for name, fields in DEMO.columns.items() if name != "stay_days"}
OUTCOMES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "cost, linear with log1p (the demo)": ({"kind": "linear"}, {"column": "cost", "transform": "log1p"}, DEMO.columns),
    "cost, amounts": ({"kind": "amounts"}, "cost", DEMO.columns),
    "stay_days, linear": ({"kind": "linear"}, "stay_days", WITHOUT_STAY),
    "stay_days, linear with log1p": ({"kind": "linear"}, {"column": "stay_days", "transform": "log1p"}, WITHOUT_STAY),
    "readmitted, logistic": ({"kind": "logistic"}, "readmitted", WITHOUT_STAY),
    "visits_next_year, counts": ({"kind": "counts"}, "visits_next_year", WITHOUT_STAY),
}


def content() -> dict[str, Any]:
    """The main metric of every fit, and which intervals say that it is better than a constant."""
    return {"outcomes": {name: _fits(*of) for name, of in OUTCOMES.items()}}


def _fits(model: dict[str, Any], target: Any, columns: Any) -> dict[str, Any]:
    found = [_fit(model, target, columns) for _ in range(FITS)]
    mains = [one["evaluation"]["metrics"][one["evaluation"]["main"]] for one in found]
    return {
        "metric": found[0]["evaluation"]["main"],
        "values": sorted(round(one["value"], 3) for one in mains),
        "better": sum(one["low"] > 0 for one in mains),
        "with intervals": sum(bool(one.get("intervals")) for one in found),
    }


def _fit(model: dict[str, Any], target: Any, columns: Any) -> dict[str, Any]:
    """One release of the demo's configuration with another outcome, as plain data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "refit.yaml"
        written = yaml.safe_load(configuration("refit.yaml", replace(DEMO, columns=dict(columns))))
        written["data"]["target"] = target
        path.write_text(yaml.safe_dump({**written, "model": model}))
        config = load_config(path)
        Ledger.create(config.ledger_url)
        return dict(refit(config).content)


def lines(found: dict[str, Any]) -> list[str]:
    """A table of them."""
    rows = [
        f"{name:36} {one['metric']:20} {np.median(one['values']):6.2f} {min(one['values']):6.2f} to {max(one['values']):5.2f} "
        f"{one['better']:3}/{FITS} {one['with intervals']:3}/{FITS}"
        for name, one in found["outcomes"].items()
    ]
    return [f"{'outcome':36} {'main metric':20} median    range       better  intervals", *rows]
