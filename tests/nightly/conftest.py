"""What tests of nights share: a small configuration, and a night whose release carries an evaluation as if it had been paid for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from nightfit.config import Config, load
from nightfit.ledger import Ledger, Run
from nightfit.nightly import Published, journal, open_ledger, prepare, publish, reserve, run_fit
from nightfit.nightly.fit import release_of
from nightfit.nightly.history import History, history_of
from nightfit.planning.plan import Plan
from nightfit.privacy.gate import Gate, Records
from nightfit.privacy.noise import Noise
from nightfit.release import Release

CONTENT: dict[str, Any] = {
    "name": "visits",
    "data": {"name": "clinic", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}, "window": "first"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
    "method": {"solver": "proximal_gradient", "steps": 3},
    "cluster": {"kind": "synchronous"},
}


@pytest.fixture
def night(tmp_path: Path, table: pa.Table, write: Callable[..., Path]) -> Callable[..., Config]:
    """A function that writes and loads the configuration of a window."""
    write("shards", table)

    def configured(window: Any = "first", **changes: Any) -> Config:
        content = {**CONTENT, "data": {**CONTENT["data"], "window": window}, **changes}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return load(tmp_path / "refit.yaml")

    Ledger.create(configured().ledger_url).engine.dispose()
    return configured


@pytest.fixture
def refit() -> Callable[..., Published]:
    """A night of a configuration, from its plan to its pages."""
    return _refit


@pytest.fixture
def evaluated() -> Callable[..., dict[str, Any]]:
    """An evaluation with an R2, compared with an earlier run if one is named."""
    return _evaluated


@pytest.fixture
def told(night: Callable[..., Config], refit: Callable[..., Published], evaluated: Callable[..., dict[str, Any]]) -> Callable[[], History]:
    """Five nights: two releases, one not private, one that failed, one refused; and a policy that was tightened."""
    first = refit(night("1"), {**evaluated(0.4), "checks": {"complete": {"value": 0.97, "low": 0.96, "high": 0.98}}})
    refit(night("2", unsafe={"noise": "none"}), evaluated(0.999), unsafe=True)
    refit(night("3"), evaluated(0.5, against=first.release.run_id, change=0.1, better=True))
    config = night("3")
    ledger = open_ledger(config)
    ledger.set_policy(replace(ledger.policies()["clinic"], epsilon=7.5))
    ledger.engine.dispose()
    journal.append(config.output_folder, journal.Note(time=journal.now(), model="visits", state="failed", reason="<b>no</b> cluster"))
    journal.append(config.output_folder, journal.Note(time=journal.now(), model="stays", state="failed", reason="another model"))
    journal.append(config.output_folder, journal.Note(time="2027-01-01T02:00:00+00:00", model="visits", state="missed"))

    def read() -> History:
        opened = Ledger.open(config.ledger_url)
        found = history_of(config, opened)
        opened.engine.dispose()
        return found

    return read


def _refit(config: Config, evaluation: dict[str, Any] | None = None, unsafe: bool = False) -> Published:
    job, ledger = prepare(config), open_ledger(config)

    def fitted(plan: Plan, records: Records, run: Run, noise: Noise, show: Any) -> Release:
        outcome = plan.procedure.run(Gate(account=run, records=records, noise=noise), show)
        return release_of(plan, outcome, run, noise, **({} if evaluation is None else {"evaluation": evaluation}))

    job = replace(job, purpose=replace(job.purpose, fit=fitted))
    made = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger, unsafe=unsafe)))
    ledger.engine.dispose()
    return made


def _evaluated(r2: float = 0.41, against: str | None = None, change: float = 0.02, better: bool | None = True) -> dict[str, Any]:
    def around(value: float, half: float) -> dict[str, float]:
        return {"value": value, "low": round(value - half, 6), "high": round(value + half, 6)}

    previous = {"run": against, "metrics": {"r2": around(r2 - change, 0.03)}, "change": around(change, 0.01), "better": better}
    return {
        "share": 0.2,
        "level": 0.9,
        "main": "r2",
        "metrics": {"r2": around(r2, 0.03), "rmse": around(2.0, 0.1)},
        "constant": {"r2": around(0.0, 0.01), "rmse": around(2.6, 0.1)},
        "previous": previous if against else None,
        "curves": {"roc": None, "calibration": None},
        "by": None,
        "checks": {},
    }
