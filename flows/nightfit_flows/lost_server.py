"""Finish a refit whose Prefect server is lost. Imports no prefect.

Prefect repeats its calls for minutes before it gives up, and the flow waits for them. All that matters is in the ledger: a thread looks at
the server, and where it is lost it waits for the end of the step that is at work, finishes the refit by plain calls, and ends the process.
"""

import contextlib
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LOOK_EVERY = 1.0  # seconds between two looks at the server
LOOK_TIMEOUT = 5.0  # seconds that a look waits for its answer
MOST_SILENT = 3  # looks without an answer, after which the server is lost: one that starts anew may be late


@dataclass
class _Steps:
    """What the steps of this process's flow have done, and whether its server is lost."""

    at_work: threading.Lock = field(default_factory=threading.Lock)
    reserved: bool = False
    lost: bool = False


_steps = _Steps()


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """A step of the flow: it is not interrupted where the server is lost."""
    with _steps.at_work:
        yield


def note_reserved() -> None:
    """A run is reserved: whoever finishes the refit must not reserve another."""
    _steps.reserved = True


def lost() -> bool:
    """Whether the server was lost, so that there is nobody to tell of progress."""
    return _steps.lost


def answers(url: str) -> bool:
    """Whether a Prefect server answers at this URL."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=LOOK_TIMEOUT):
            return True
    except urllib.error.HTTPError:
        return True  # it asks who we are, say
    except (urllib.error.URLError, OSError, ValueError):
        return False


class Watched:
    """A flow whose server is looked at. Whoever ends the refit first, the flow or `finish`, ends it alone.

    Parameters
    ----------
    url : str or None
        Of the server; None if only Prefect knows it. It is not watched then, nor if it does not answer us now.
    finish : callable
        Finishes the refit by plain calls and shows the result. Its argument says whether the flow reserved a run. Returns an exit code.
    """

    def __init__(self, url: str | None, finish: Callable[[bool], int]) -> None:
        self.url, self.finish = url if url is not None and answers(url) else None, finish
        self.over = threading.Event()
        self.ending = threading.Lock()

    def __enter__(self) -> "Watched":
        _steps.reserved = _steps.lost = False
        if self.url is not None:
            threading.Thread(target=self._watch, args=(self.url,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Where the server is lost, finish without it; the process ends here."""
        self.over.set()
        if self.url is None or (kind is not None and not issubclass(kind, Exception)):
            return
        self.ending.acquire()  # for ever, if the thread ends the process
        if _steps.lost or not answers(self.url):
            self._end()

    def _watch(self, url: str) -> None:
        silent = 0
        while not self.over.wait(LOOK_EVERY):
            silent = 0 if answers(url) else silent + 1
            _steps.lost = silent >= MOST_SILENT
            if _steps.lost and _steps.at_work.acquire(blocking=False):
                if self.ending.acquire(blocking=False):
                    self._end()
                return

    def _end(self) -> None:
        """Prefect's own threads would keep the process for minutes: they have nobody to talk to."""
        _steps.lost = True
        try:
            code = self.finish(_steps.reserved)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            code = 1
        os._exit(code)
