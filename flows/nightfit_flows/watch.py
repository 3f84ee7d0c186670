"""Which nights of a schedule were missed or overlapped. Imports prefect's schedules and nightly.

`schedule-MODEL.json` beside the releases says by which schedule a model was served last, and until when nights were seen. Nights that were
due after that, and before `serve` began again, were missed. A night that is due while a refit from an earlier one still runs is overlapped:
Prefect begins it when the other has ended.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nightfit import nightly
from nightfit.config import Config
from nightfit.release import write_atomically

MOST = 400  # missed nights that are noted one by one: more than a year
EARLY = timedelta(seconds=30)  # Prefect starts the process of a night up to ten seconds before it is due; nights are a minute apart


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A cron line in a time zone."""

    cron: str
    timezone: str

    async def due(self, start: datetime, most: int, end: datetime | None = None) -> list[datetime]:
        """The first nights after `start`."""
        from prefect.server.schemas.schedules import CronSchedule

        found: Sequence[datetime] = await CronSchedule(cron=self.cron, timezone=self.timezone).get_dates(most + 1, start=start, end=end)
        return [night for night in found if night > start][:most]


def seen_until(config: Config, schedule: Schedule) -> datetime | None:
    """Until when nights of this very schedule were seen; None if it was never served, or by another schedule."""
    try:
        stored = json.loads(_place(config).read_text())
        return datetime.fromisoformat(stored["seen"]) if stored["schedule"] == asdict(schedule) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def mark(config: Config, schedule: Schedule, time: datetime) -> None:
    """Remember that nights were seen until this time."""
    config.output_folder.mkdir(parents=True, exist_ok=True)
    write_atomically(_place(config), json.dumps({"schedule": asdict(schedule), "seen": time.isoformat(timespec="seconds")}) + "\n")


async def missed(config: Config, schedule: Schedule, now: datetime) -> list[datetime]:
    """Nights that were due since the last one that was seen."""
    seen = seen_until(config, schedule)
    return [] if seen is None or seen >= now else await schedule.due(seen, MOST, end=now)


async def report_missed(config: Config, schedule: Schedule, show: Callable[[str], None]) -> None:
    """Say, note and tell which nights were missed, and go on from now."""
    now = datetime.now(UTC)
    nights = [night.isoformat(timespec="seconds") for night in await missed(config, schedule, now)]
    if nights:
        show(nightly.tell_missed(config, nights))
    mark(config, schedule, now)


async def _sleep_until(due: datetime) -> None:
    """Clocks are set and machines sleep: look at the clock every minute."""
    while (left := (due - datetime.now(UTC)).total_seconds()) > 0:
        await asyncio.sleep(min(left, 60.0))


def _running() -> set[int | None]:
    """The processes of refits that Prefect's runner has started."""
    return {child.pid for child in multiprocessing.active_children()}


async def watch(
    configs: Callable[[], Sequence[Config]],
    schedule: Schedule,
    show: Callable[[str], None],
    *,
    wait: Callable[[datetime], Awaitable[None]] = _sleep_until,
    running: Callable[[], set[int | None]] = _running,
) -> None:
    """At each night's time: say, note and tell of each model if an earlier one still runs; `wait` and `running` are its clock and its eyes.

    `configs` are asked for at each night: a folder may have others then.
    """
    due = datetime.now(UTC)
    while True:
        (due,) = await schedule.due(due, 1)
        await wait(due - EARLY)
        before = running()
        await wait(due)
        overlaps = bool(before & running())
        for config in configs():
            if overlaps:
                show(nightly.tell_overlap(config, due.isoformat(timespec="seconds")))
            mark(config, schedule, due)


def _place(config: Config) -> Path:
    return config.output_folder / f"schedule-{config.name}.json"
