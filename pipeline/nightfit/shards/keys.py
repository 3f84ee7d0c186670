"""How the key of local reports reaches tasks: beside the graph, and to workers that come later too. Imports distributed.

A worker plugin and not scattered data, because data that a lost worker held alone cannot be made again.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.comm.core import CommClosedError

from nightfit.numerics.keystream import Key

TRIES = 10


class Holder(WorkerPlugin):  # type: ignore[misc]
    """Keeps a key on every worker; it shows itself in no log."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name, self._secret = name, secret

    def __repr__(self) -> str:
        return "Holder(...)"

    def key(self) -> Key:
        return Key(self._secret)


@dataclass(frozen=True, slots=True)
class Held:
    """Names the key that the worker of a task holds: all that a graph knows of it."""

    name: str

    def key(self) -> Key:
        holder: Holder = get_worker().plugins[self.name]
        return holder.key()


@dataclass(frozen=True, slots=True)
class Here:
    """The key itself, for tasks of this process."""

    secret: bytes = field(repr=False)

    def key(self) -> Key:
        return Key(self.secret)


@contextlib.contextmanager
def held(client: Any, key: Key) -> Iterator[Held]:
    """The key on every worker, now and later, for as long as the context lasts."""
    name = f"reports-{secrets.token_hex(8)}"
    for attempt in range(TRIES):
        try:
            client.register_plugin(Holder(name, key.secret), name=name)
            break
        except (OSError, CommClosedError):  # a worker that is just being lost
            if attempt == TRIES - 1:
                raise
    try:
        yield Held(name)
    finally:
        with contextlib.suppress(Exception):
            client.unregister_worker_plugin(name)
