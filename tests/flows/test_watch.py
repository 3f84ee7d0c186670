"""Which nights were missed or overlapped: said, noted once each, told; on a clock that the tests turn."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from prefect.runner import _scheduled_run_poller

from nightfit.config import Config, load
from nightfit.nightly import journal, readable
from nightfit_flows import watch as watching
from nightfit_flows.nightly import _not_of_waiting
from nightfit_flows.watch import EARLY, Schedule, mark, missed, report_missed, watch

pytestmark = pytest.mark.process  # importing Prefect asks git for its version

SKIPPED = "%d scheduled runs skipped (at capacity)"
BERLIN = Schedule(cron="0 2 * * *", timezone="Europe/Berlin")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    content = {
        "name": "visits",
        "data": {"path": "data", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "notify": {"command": ["/usr/bin/env", "sh", "-c", "cat >> told; echo >> told"]},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    return load(tmp_path / "refit.yaml")


def utc(day: int, hour: int = 12) -> datetime:
    return datetime(2027, 3, day, hour, tzinfo=UTC)


def test_nights_between_the_last_that_was_seen_and_now_are_missed(config: Config) -> None:
    mark(config, BERLIN, utc(26))
    found = asyncio.run(missed(config, BERLIN, utc(29)))
    nights = [night.astimezone(ZoneInfo(BERLIN.timezone)) for night in found]
    assert [night.day for night in nights] == [27, 28, 29]  # on the 28th clocks go forward, and 02:00 does not exist
    mark(config, BERLIN, found[-1])
    assert asyncio.run(missed(config, BERLIN, utc(29))) == []


@pytest.mark.parametrize("content", [None, "", "{", '{"schedule": 3}', '{"seen": "yesterday", "schedule": {}}'])
def test_without_a_mark_of_this_very_schedule_nothing_was_missed(config: Config, content: str | None) -> None:
    """A refit by hand a month ago says nothing of a schedule."""
    if content is not None:
        config.output_folder.mkdir()
        (config.output_folder / "schedule-visits.json").write_text(content)
    assert asyncio.run(missed(config, BERLIN, utc(29))) == []
    mark(config, Schedule(cron="0 3 * * *", timezone="UTC"), utc(1))
    assert asyncio.run(missed(config, BERLIN, utc(29))) == []


def test_missed_nights_are_said_noted_and_told_once(config: Config) -> None:
    said: list[str] = []
    mark(config, BERLIN, datetime.now(UTC) - timedelta(days=3))
    asyncio.run(report_missed(config, BERLIN, said.append))
    asyncio.run(report_missed(config, BERLIN, said.append))
    (words,) = said
    assert words.startswith("3 nights missed")
    assert [note.state for note in journal.read(config.output_folder, "visits")] == ["missed"] * 3
    (line,) = (config.folder / "told").read_text().splitlines()
    assert json.loads(line)["occasion"] == "missed"


def turned(config: Config, running: Callable[[], set[int | None]], nights: int) -> list[str]:
    """What is said while a clock is turned over some nights."""
    said: list[str] = []
    hours: list[datetime] = []

    async def turn(due: datetime) -> None:
        hours.append(due)
        if len(hours) > 2 * nights:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(watch(lambda: [config], BERLIN, said.append, wait=turn, running=running))
    assert all(after - before == EARLY for before, after in zip(hours[::2], hours[1::2], strict=False))
    return said


def test_a_night_that_is_due_while_an_earlier_one_runs_is_overlapped(config: Config) -> None:
    seen = iter([{1}, {1}, set(), {2}, {2}, {3}])  # the first runs on; one begins a little early; one ends and another begins
    said = turned(config, lambda: next(seen), nights=3)
    assert len(said) == 1
    assert "waits, because the one before it still runs" in said[0]
    (note,) = journal.read(config.output_folder, "visits")
    assert note.state == "overlapped"
    assert json.loads((config.folder / "told").read_text())["occasion"] == "overlap"


def test_prefect_does_not_say_every_ten_seconds_that_a_night_that_waits_is_skipped() -> None:
    said = inspect.getsource(_scheduled_run_poller)
    skipped, other = (logging.LogRecord("prefect.runner", logging.INFO, "", 1, text, (1,), None) for text in (SKIPPED, "%d late"))
    assert SKIPPED in said
    assert not _not_of_waiting(skipped)
    assert _not_of_waiting(other)


def test_a_night_that_was_due_is_seen_whatever_became_of_it(config: Config) -> None:
    turned(config, set, nights=2)
    seen = watching.seen_until(config, BERLIN)
    assert seen is not None
    assert seen > datetime.now(UTC) + timedelta(days=1) - timedelta(hours=1)


def test_every_model_of_a_folder_is_told_of_a_night_that_overlaps(config: Config) -> None:
    """A configuration that comes is told from then on; one that cannot be read stops no other."""
    content = yaml.safe_load((config.folder / "refit.yaml").read_text())
    said: list[str] = []
    hours: list[datetime] = []

    async def turn(due: datetime) -> None:
        hours.append(due)
        if len(hours) == 3:
            (config.folder / "costs.yaml").write_text(yaml.safe_dump({**content, "name": "costs"}))
            (config.folder / "broken.yaml").write_text("name: [")
        if len(hours) > 4:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(watch(lambda: readable([config.folder]), BERLIN, said.append, wait=turn, running=lambda: {1}))
    assert [len(journal.read(config.output_folder, name)) for name in ("visits", "costs")] == [2, 1]
    assert len(said) == 3
    assert {place.name for place in config.output_folder.glob("schedule-*.json")} == {"schedule-visits.json", "schedule-costs.json"}
