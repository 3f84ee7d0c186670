"""Refit on a schedule, in one process with its own Prefect server if none is configured. Imports prefect."""

import asyncio
import contextlib
import logging
import multiprocessing
import signal
import sys
import warnings
import zoneinfo
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nightfit import nightly
from nightfit.config import load
from nightfit.types import NightfitError
from nightfit_flows.server import STOPS, server
from nightfit_flows.tags import tags_of
from nightfit_flows.watch import Schedule, report_missed, watch

if TYPE_CHECKING:
    from prefect.runner import Runner
    from prefect.schedules import Schedule as PrefectSchedule

GRACE = 30.0  # seconds that a running refit has to end when we are stopped; it resumes at the next start


def serve(paths: Sequence[Path], cron: str, timezone: str) -> None:
    """Refit on a schedule until stopped: one configuration by the flow of a refit, several or folders of them by that of a night.

    Late or repeated nights find their runs in the ledger and never spend twice.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored, and could not be stopped
    for stop in STOPS[1:]:
        signal.signal(stop, lambda number, _: sys.exit(128 + number))  # so that a server still starting is ended too
    with server():
        runner = _runner(paths, cron, timezone)
        with contextlib.suppress(KeyboardInterrupt):
            try:
                asyncio.run(_until_stopped(runner, paths, Schedule(cron=cron, timezone=timezone)))
            finally:
                _end_refits()


def _runner(paths: Sequence[Path], cron: str, timezone: str) -> "Runner":
    """Prefect's runner of one flow, which waits for its nights."""
    from prefect.runner import Runner

    from nightfit_flows.night import night
    from nightfit_flows.refit import refit

    places = [str(path.resolve()) for path in paths]
    several = len(paths) > 1 or paths[0].is_dir()
    models = [config.name for config in nightly.readable(paths)]
    name = paths[0].resolve().name if several else load(paths[0]).name
    logging.getLogger("prefect.runner").addFilter(_not_of_waiting)  # `watch` says so once, in words
    warnings.filterwarnings("ignore", "coroutine 'Runner.astop' was never awaited", RuntimeWarning)  # Prefect's, of every stop by SIGTERM
    runner = Runner(name=name, limit=1)
    runner.add_flow(
        night if several else refit,
        name=name,
        tags=tags_of(models),
        schedules=[_scheduled(cron, timezone)],
        parameters={"configs": places} if several else {"config": places[0]},
    )
    return runner


def _not_of_waiting(record: logging.LogRecord) -> bool:
    """Whether a line is other than that a night waits, which Prefect says every ten seconds, and calls skipped."""
    return "skipped (at capacity)" not in record.getMessage()


def _scheduled(cron: str, timezone: str) -> "PrefectSchedule":
    """The schedule of a cron line; refused if it is none."""
    from prefect.schedules import Cron

    try:
        zoneinfo.ZoneInfo(timezone)
        return Cron(cron, timezone=timezone)
    except (ValueError, zoneinfo.ZoneInfoNotFoundError, OSError):
        raise NightfitError(
            f"{cron[:40]!r} in the time zone {timezone[:40]!r} is no schedule: write a cron line such as '0 2 * * *', and a zone such as "
            "Europe/Berlin"
        ) from None


async def _until_stopped(runner: "Runner", paths: Sequence[Path], schedule: Schedule) -> None:
    """Serve until Ctrl-C or SIGTERM. Prefect would wait for a running refit however long it takes: here it has GRACE seconds to end."""
    for config in nightly.readable(paths):
        await report_missed(config, schedule, _say)
    watching = asyncio.ensure_future(watch(lambda: nightly.readable(paths), schedule, _say))
    serving = asyncio.ensure_future(runner.start())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        asyncio.get_running_loop().call_later(GRACE, _end_refits)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        raise
    finally:
        watching.cancel()


def _say(words: str) -> None:
    print(words, flush=True)


def _end_refits() -> None:
    """End running refits, which would work on without a server; they resume at the next start."""
    for running in multiprocessing.active_children():
        running.terminate()
        running.join(20)
        running.kill()
