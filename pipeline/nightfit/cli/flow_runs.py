"""What every command that runs a Prefect flow in its own process does around it. Imports flows, lazily."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from nightfit.extras import NIGHTLY, needs
from nightfit.types import NightfitError

SETTINGS = {
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # a lost server is told once, by us
    "PREFECT_CLIENT_MAX_RETRIES": "2",  # of Prefect's 5 the last alone waits half a minute, in the middle of a fit
}


@contextlib.contextmanager
def server_for_flows() -> Iterator[Callable[[], None]]:
    """A Prefect server that starts while the caller imports and plans; what is yielded waits for it."""
    needs("a refit (without Prefect: --direct)", *NIGHTLY)
    from nightfit_flows.server import background_server

    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    with background_server() as wait_for_server:
        yield wait_for_server


@contextlib.contextmanager
def watched_flow(finish: Callable[[bool], int], heard: Mapping[ContextVar[Any], Any]) -> Iterator[None]:
    """Run a flow inside, with these values of its context variables.

    If the server is lost, `finish` does the work by plain calls, told whether a run was reserved, and the process ends.
    """
    from nightfit_flows.lost_server import Watched

    tokens = [variable.set(value) for variable, value in heard.items()]
    try:
        with Watched(os.environ.get("PREFECT_API_URL"), finish):
            yield
    except RuntimeError as error:
        raise NightfitError(
            "Prefect could not run the flow: its server did not start or was lost. Set PREFECT_API_URL to a running server, run "
            "`prefect server start` to see why, or refit without it by --direct; a started refit resumes when it is run again"
        ) from error
    finally:
        for token in tokens:
            token.var.reset(token)
