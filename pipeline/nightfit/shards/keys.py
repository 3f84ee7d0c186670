"""How the key of local reports reaches tasks: beside the graph, and to workers that join later too. Imports distributed.

It is a worker plugin and not scattered data, because data that only a lost worker held cannot be made again.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.comm.core import CommClosedError

from nightfit.numerics.keystream import Key

TRIES = 10  # registrations, each of which fails if a worker is lost just then


class KeyPlugin(WorkerPlugin):  # type: ignore[misc]
    """Keeps a key on every worker. Its repr shows nothing, because logs print it."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name, self._secret = name, secret

    def __repr__(self) -> str:
        return "KeyPlugin(...)"

    def key(self) -> Key:
        return Key(self._secret)


@dataclass(frozen=True, slots=True)
class WorkerKey:
    """The name of the key that the worker of a task holds: all that a graph contains of it."""

    name: str

    def key(self) -> Key:
        plugin: KeyPlugin = get_worker().plugins[self.name]
        return plugin.key()


@dataclass(frozen=True, slots=True)
class LocalKey:
    """The key itself, for tasks of this process."""

    secret: bytes = field(repr=False)

    def key(self) -> Key:
        return Key(self.secret)


@contextlib.contextmanager
def key_on_workers(client: Any, key: Key) -> Iterator[WorkerKey]:
    """The key on every worker, including those that join later, as long as the context lasts."""
    name = f"reports-{secrets.token_hex(8)}"
    for attempt in range(TRIES):
        try:
            client.register_plugin(KeyPlugin(name, key.secret), name=name)
            break
        except (OSError, CommClosedError):  # a worker was lost just now
            if attempt == TRIES - 1:
                raise
    try:
        yield WorkerKey(name)
    finally:
        with contextlib.suppress(Exception):
            client.unregister_worker_plugin(name)
