"""Nights of the simulated hospital in one folder, of which one fails, one is missed, one has a broken export, and some drift.

`python -m benchmarks nights` plays thirty of them and says what history, alerts and ledger made of each. The clock is the simulation's:
night k begins at 04:00 on the k-th of November.
"""

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from nightfit import nightly
from nightfit.config import load
from nightfit.ledger import Ledger, reservations, verify
from nightfit.nightly import journal
from nightfit.nightly.history import History, history_of
from nightfit.shards.hospital import Hospital
from nightfit.types import NightfitError
from nightfit_flows import watch
from nightfit_flows.watch import Schedule, mark, report_missed

SCHEDULE = Schedule(cron="0 4 * * *", timezone="UTC")
FIRST = datetime(2026, 11, 1, 4, tzinfo=UTC)
KEEP = "import pathlib, sys; pathlib.Path('told.jsonl').open('a').write(sys.stdin.read() + '\\n')"
KEPT = ("patient_id", "visit_id", "readmitted")  # what a broken export still has
PERSONS = 0.75  # of the admissions of a few days: some patients return


class Clock(datetime):
    """The simulation's clock."""

    at = FIRST

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """The time at which the simulation stands."""
        return cls.at


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happens.

    Parameters
    ----------
    nights
        How many, counted from 1.
    failed
        The night whose newest file is cut short.
    missed
        The night that nothing serves.
    broken
        The night in whose export half of the values are missing.
    drifting
        The first day whose patients are readmitted more often, by `drift` in log odds.
    days, rows
        Days of an export, and admissions of a day.
    epsilon
        For life; a night takes a part, one of a third more than there are nights.
    """

    nights: int = 30
    failed: int = 6
    missed: int = 9
    broken: int = 13
    drifting: int = 20
    drift: float = 1.0
    days: int = 5
    rows: int = 4000
    epsilon: float = 16.0

    def admissions(self) -> list[tuple[date, Any]]:
        """Each day's, from the first that an export has; days of the drift are those of a hospital that is as far along."""
        count = self.nights + self.days - 1
        fields = {"rows": self.rows * count, "days": count, "start": FIRST.date() - timedelta(days=self.days), "seed": 7}
        begins = self.drifting + self.days - 2
        steep = self.drift * (count - 1) / begins  # so that its day `begins` has drifted by `drift`
        both = zip(Hospital(**fields).tables(), Hospital(**fields, drift=steep).tables(), strict=True)
        return [calm if place < begins else drifted for place, (calm, drifted) in enumerate(both)]

    def configuration(self) -> dict[str, Any]:
        """The night's `refit.yaml`."""
        dropped = {"kind": "number", "missing": "drop"}
        return {
            "name": "readmissions",
            "data": {
                "name": "hospital",
                "path": "export",
                "target": "readmitted",
                "unit": "patient_id",
                "units": int(self.rows * self.days * PERSONS),
                "columns": {
                    "age": {**dropped, "bounds": [0, 110]},
                    "sex": {"kind": "category", "levels": ["F", "M"], "reference": "F"},  # without one, columns add up to one: no intervals
                    "emergency": {"kind": "boolean"},
                    "prior_visits": {"kind": "number", "transform": "sqrt"},
                    "systolic": {**dropped, "bounds": [50, 250]},
                    "creatinine": {"kind": "number", "transform": "log", "missing": "indicator"},
                },
            },
            "model": {"kind": "logistic"},
            "privacy": {"pace": self.nights + self.nights // 3, "delta": 1e-7, "lifetime": {"epsilon": self.epsilon, "delta": 1e-5}},
            "evaluate": {"share": 0.2},
            "notify": {"command": [sys.executable, "-c", KEEP], "prometheus": "nights.prom"},
            "card": {
                "use": "How many beds to keep free.",
                "limits": "No decision about one patient.",
                "contact": "ward-planning@clinic.example",
            },
            "cluster": {"kind": "synchronous"},
        }


def by_calls(path: Path) -> None:
    """A night as `nightfit refit --direct` runs it."""
    config = load(path)
    with nightly.watched(config):
        nightly.run(nightly.prepare(config))


def play(folder: Path, story: Story, night: Callable[[Path], Any] = by_calls) -> History:
    """Play the story in a folder, and return its history.

    Parameters
    ----------
    folder
        Where configuration, export, ledger and releases go.
    story
        What happens.
    night
        Runs one night of a configuration.
    """
    path = folder / "refit.yaml"
    path.write_text(yaml.safe_dump(story.configuration()))
    Ledger.create(load(path).ledger_url).engine.dispose()
    admissions = story.admissions()
    with _clock():
        for number in range(1, story.nights + 1):
            if number != story.missed:
                _play_night(folder, story, number, admissions, night)
    ledger = Ledger.open(load(path).ledger_url)
    try:
        return history_of(load(path), ledger)
    finally:
        ledger.engine.dispose()


def _play_night(folder: Path, story: Story, number: int, admissions: list[tuple[date, Any]], night: Callable[[Path], Any]) -> None:
    """The export of a night, what `serve` says when it begins, and the refit."""
    config, newest = load(folder / "refit.yaml"), _export(folder / "export", story, number, admissions)
    if number == story.failed:
        newest.write_bytes(newest.read_bytes()[:-1000])
    Clock.at = FIRST + timedelta(days=number - 1, minutes=-30)
    _awaited(report_missed(config, SCHEDULE, lambda _: None))
    Clock.at = FIRST + timedelta(days=number - 1)
    with contextlib.suppress(NightfitError):
        night(folder / "refit.yaml")
    mark(config, SCHEDULE, Clock.at)


def _awaited(coroutine: Any) -> None:
    import asyncio

    asyncio.run(coroutine)


def _export(folder: Path, story: Story, number: int, admissions: list[tuple[date, Any]]) -> Path:
    """Write the newest days, one file each; the newest file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rng = np.random.default_rng(number)
    for day, table in admissions[number - 1 : number - 1 + story.days]:
        newest = folder / f"{day.isoformat()}.parquet"
        pq.write_table(_with_holes(table, rng) if number == story.broken else table, newest)
    return newest


def _with_holes(table: Any, rng: np.random.Generator) -> Any:
    """Half of the values missing, in every column that is no id and no outcome."""
    holed = {}
    for name in table.column_names:
        plain = table[name].cast(pa.string()) if pa.types.is_dictionary(table[name].type) else table[name]
        gone = pa.array(rng.uniform(size=table.num_rows) < (0.0 if name in KEPT else 0.5))
        holed[name] = pc.if_else(gone, pa.scalar(None, plain.type), plain)
    return pa.table(holed)


@contextlib.contextmanager
def _clock() -> Iterator[None]:
    """Journal, ledger and schedule look at the simulation's clock."""
    looking: list[Any] = [journal, reservations, watch]
    for module in looking:
        module.datetime = Clock
    try:
        yield
    finally:
        for module in looking:
            module.datetime = datetime


def alerts_of(folder: Path) -> list[dict[str, Any]]:
    """What was told, in order."""
    path = folder / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def content(folder: Path | None = None) -> dict[str, Any]:
    """Thirty nights, in a folder of their own that is removed, or in the given new one, which stays."""
    with tempfile.TemporaryDirectory() as own:
        place = Path(own) if folder is None else folder
        place.mkdir(parents=True, exist_ok=True)
        told = play(place, Story())
        ledger = Ledger.open(load(place / "refit.yaml").ledger_url)
        problems = verify(ledger)
        ledger.engine.dispose()
        nights = [
            {"night": one.time[:10], "state": one.state, "left": one.left, "in_use": one.in_use, "changes": one.changes, "note": one.note}
            for one in told.nights
        ]
        return {"nights": nights, "alerts": alerts_of(place), "problems": problems}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """One for each night, and one for each alert."""
    for one in found["nights"]:
        yield f"{one['night']} {one['state']:10} {'; '.join([*one['changes'], one['note']])}"
    for alert in found["alerts"]:
        yield f"told {alert['time'][:10]} {alert['occasion']}: {alert['words']}"
    yield f"problems of the ledger: {found['problems'] or 'none'}"
