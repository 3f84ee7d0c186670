"""A Prefect server of our own on loopback: beside a schedule, or in the background of one refit. Imports no prefect in this process.

`python -m nightfit_flows.server PORT` is the server of one refit, `... serve PORT` that of a schedule. Both end when the process that
started them has ended, however that was. The server of a schedule holds a lock beside its database as long as it lives: there is one.
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from nightfit.types import NightfitError
from nightfit_flows.lost_server import answers
from nightfit_flows.settings import prepare

START_TIMEOUT = 300.0  # seconds: a cold start of Prefect on a slow disk takes up to a minute
END_TIMEOUT = 20.0  # seconds that a server has to store what it was told last
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
SERVE = "serve"
TAKEN = 3  # exit code of a server whose database another server has
LOCK_FILE = "nightfit-server.lock"
ADDRESS_FILE = "nightfit-server"  # in Prefect's folder: the URL of the server of `nightfit serve`, which refits use while it lives


class ServerError(NightfitError):
    """The Prefect server could not be started; no refit was run."""


@contextlib.contextmanager
def server() -> Iterator[str | None]:
    """The URL of our own Prefect server on a free loopback port, which ends with the context; None if Prefect's settings name one."""
    prepare()
    if configured():
        yield None
        return
    url, child = _start("-m", "nightfit_flows.server", SERVE)
    told = Path(os.environ["PREFECT_HOME"]) / ADDRESS_FILE
    try:
        wait(url, child)
        told.write_text(url)
        try:
            with _told(url):
                yield url
        finally:
            told.unlink(missing_ok=True)
    finally:
        _end(child)


@contextlib.contextmanager
def background_server() -> Iterator[Callable[[], None]]:
    """Start a server for one refit and go on; the yielded function waits until it answers.

    The configured server is used if there is one, and so is that of a `nightfit serve` of the same user. Prefect may be imported inside
    the context, because the server's URL is known before it answers. The context's end does not wait for the server: it ends by itself
    when it has stored what it was told, within END_TIMEOUT seconds.
    """
    prepare()
    if configured():
        yield lambda: None
        return
    living = _living_url()
    if living is not None:
        with _told(living):
            yield lambda: None
        return
    url, child = _start("-m", "nightfit_flows.server")
    try:
        with _told(url):
            yield lambda: wait(url, child)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.returncode = 0  # it is not waited for, and says so


def configured() -> bool:
    """Whether Prefect's own settings name a server: the environment, or a file that Prefect reads."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    with contextlib.suppress(OSError):
        if any(line.strip().startswith("PREFECT_API_URL=") for line in Path(".env").read_text().splitlines()):
            return True
    if "url" in _toml(Path("prefect.toml")).get("api", {}):
        return True
    profiles = _toml(Path(os.environ["PREFECT_HOME"]) / "profiles.toml")
    active = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
    return "PREFECT_API_URL" in profiles.get("profiles", {}).get(active, {})


def _toml(path: Path) -> dict[str, Any]:
    """The content of a file of settings; empty if there is none, or Prefect itself will refuse it."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _start(*command: str) -> tuple[str, "subprocess.Popen[bytes]"]:
    """The URL and the process of a server that is starting on a free loopback port."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    child = None
    try:
        with _stops_held_back():
            child = subprocess.Popen(
                [sys.executable, *command, str(port)],
                env={**os.environ, "PREFECT_API_URL": url},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except BaseException:
        if child is not None:
            _end(child)
        raise
    return url, child


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """Prefect finds the server at this URL if it is imported inside the context."""
    os.environ["PREFECT_API_URL"] = url
    try:
        yield
    finally:
        os.environ.pop("PREFECT_API_URL", None)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(END_TIMEOUT)
    child.kill()
    child.wait()
    if child.stdin is not None:
        child.stdin.close()


def _living_url() -> str | None:
    """The URL of a server of `nightfit serve` that answers now."""
    try:
        url = (Path(os.environ["PREFECT_HOME"]) / ADDRESS_FILE).read_text().strip()
    except OSError:
        return None
    return url if answers(url) else None


@contextlib.contextmanager
def _stops_held_back() -> Iterator[None]:
    """Hold signals back until the context ends: one between the start of a process and our knowing it would leave that process behind.
    Broken by test_a_stop_while_the_server_is_being_made_leaves_no_process.
    """
    if threading.current_thread() is not threading.main_thread():  # which no signal interrupts
        yield
        return
    came: list[int] = []
    before = {stop: signal.signal(stop, lambda number, _: came.append(number)) for stop in STOPS}
    try:
        yield
    finally:
        for stop, handler in before.items():
            signal.signal(stop, handler)
    for number in came:
        signal.raise_signal(number)


def wait(url: str, child: "subprocess.Popen[bytes]") -> None:
    """Return when the server answers; a ServerError if it ended, or START_TIMEOUT seconds have passed."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and child.poll() is None:
        if answers(url):
            return
        time.sleep(0.05)
    if child.poll() == TAKEN:
        raise ServerError(
            "another `nightfit serve` of this user runs, and its server has the database: stop it, give this one a folder of its own by "
            "PREFECT_HOME, or let both use one server by PREFECT_API_URL"
        )
    raise ServerError("the Prefect server did not start: run `prefect server start` to see why, or set PREFECT_API_URL to one that runs")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _locked(folder: Path) -> IO[str] | None:
    """A lock on the database of a folder, which ends with this process; None if another process keeps it.

    A server whose `serve` was killed has up to END_TIMEOUT seconds to end: so long it is waited for.
    """
    handle = (folder / LOCK_FILE).open("w")
    deadline = time.monotonic() + 1.5 * END_TIMEOUT
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            time.sleep(0.1)
    handle.close()
    return None


def main() -> None:
    """Serve Prefect's API until standard input ends; for one refit without its pages and its scheduler."""
    lock = None
    if SERVE in sys.argv:
        lock = _locked(Path(os.environ["PREFECT_HOME"]))
        if lock is None:
            sys.exit(TAKEN)
    else:
        os.environ |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    import uvicorn

    application = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, host="127.0.0.1", port=int(sys.argv[-1]), log_level="error", lifespan="on"
    )
    serving = uvicorn.Server(application)

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        serving.should_exit = True
        time.sleep(END_TIMEOUT)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    serving.run()
    if lock is not None:
        lock.close()


if __name__ == "__main__":
    main()
