"""Refit on a schedule, in one process with its own Prefect server if none is configured. Imports prefect."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nightfit.config import load
from nightfit.types import NightfitError
from nightfit_flows.settings import prepare

if TYPE_CHECKING:
    from prefect.runner import Runner

START_TIMEOUT = 300.0  # seconds: a cold start of Prefect on a slow disk takes up to a minute
GRACE = 30.0  # seconds that a running refit has to end when we are stopped; it resumes at the next start
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


class ServerError(NightfitError):
    """The Prefect server could not be started; no refit was run."""


def serve(config: Path, cron: str, timezone: str) -> None:
    """Refit on a schedule until stopped. Late or repeated nights find their run in the ledger and never spend twice."""
    settings = load(config)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored, and could not be stopped
    for stop in STOPS[1:]:
        signal.signal(stop, lambda number, _: sys.exit(128 + number))  # so that a server still starting is ended too
    with server():
        from prefect.runner import Runner
        from prefect.schedules import Cron

        from nightfit_flows.refit import refit

        runner = Runner(name=settings.name, limit=1)
        runner.add_flow(refit, name=settings.name, schedules=[Cron(cron, timezone=timezone)], parameters={"config": str(config.resolve())})
        with contextlib.suppress(KeyboardInterrupt):
            try:
                asyncio.run(_until_stopped(runner))
            finally:
                _end_refits()


async def _until_stopped(runner: "Runner") -> None:
    """Serve until Ctrl-C or SIGTERM. Prefect would wait for a running refit however long it takes: here it has GRACE seconds to end."""
    serving = asyncio.ensure_future(runner.start())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        asyncio.get_running_loop().call_later(GRACE, _end_refits)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        raise


def _end_refits() -> None:
    """End running refits, which would work on without a server; they resume at the next start."""
    for running in multiprocessing.active_children():
        running.terminate()
        running.join(20)
        running.kill()


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The URL of the configured Prefect server, or of our own on a free loopback port, which ends with the context."""
    prepare()
    configured = os.environ.get("PREFECT_API_URL")
    if configured:
        yield configured
        return
    port = _free_port()
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}/api"
    child = None
    try:
        with _stops_held_back():
            child = subprocess.Popen(
                command,
                env={**os.environ, "PREFECT_API_URL": url},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        _wait(f"{url}/health", child)
        os.environ["PREFECT_API_URL"] = url
        yield url
    finally:
        os.environ.pop("PREFECT_API_URL", None)
        if child is not None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(20)
            child.kill()
            child.wait()


@contextlib.contextmanager
def _stops_held_back() -> Iterator[None]:
    """Hold signals back until the context ends: one between the start of a process and our knowing it would leave that process behind.
    Broken by test_a_stop_while_the_server_is_being_made_leaves_no_process.
    """
    came: list[int] = []
    before = {stop: signal.signal(stop, lambda number, _: came.append(number)) for stop in STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
    for number in came:
        signal.raise_signal(number)


def _wait(health: str, child: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise ServerError("the Prefect server did not start: run `prefect server start` to see why, or set PREFECT_API_URL to one that runs")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
