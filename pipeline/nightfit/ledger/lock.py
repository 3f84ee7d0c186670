"""One driver per run: a lock that the operating system or the database drops when its holder dies. Imports sqlalchemy.

A database may drop the lock of a holder that lives: an administrator or a proxy ends the connection that holds it, and a second driver
enters. So the holder also locks a random number, its token, by the same connection, and every transaction of the run looks whether one
connection still holds both. The number that a second driver locks is another one.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from nightfit.ledger.database import durable_connection
from nightfit.ledger.errors import LedgerError


@dataclass(frozen=True, slots=True)
class Fence:
    """The tokens of the runs that this process holds in a database; empty for SQLite, whose lock is the operating system's."""

    tokens: dict[str, int] = field(default_factory=dict)

    def check(self, connection: sa.Connection, run_id: str) -> None:
        """Refuse where this process took the lock of a run and the database gave it up since; inside the caller's transaction.

        Guarantee: of two drivers of a run one alone stores answers. Transactions run one at a time, and the lock is looked for in the
        transaction that writes: what this one writes, a second driver sees before it asks anything. Broken by
        test_f37_a_driver_whose_lock_the_database_ended_stores_no_answer.
        """
        token = self.tokens.get(run_id)
        if token is not None and not connection.execute(_HELD, {**_halves("run", _number(run_id)), **_halves("token", token)}).scalar():
            raise LedgerError(
                f"the database ended the connection that keeps other drivers away from run {run_id}: nothing more was "
                "stored; run the refit again to resume"
            )


# one backend of this database holds both locks; PostgreSQL keeps a 64-bit key as two halves
_HELD = sa.text(
    "SELECT count(*) FROM pg_locks AS run JOIN pg_locks AS token ON run.pid = token.pid AND run.database = token.database "
    "JOIN pg_database ON pg_database.oid = run.database WHERE pg_database.datname = current_database() "
    "AND run.locktype = 'advisory' AND run.granted AND run.objsubid = 1 "
    "AND run.classid = CAST(:run_high AS oid) AND run.objid = CAST(:run_low AS oid) "
    "AND token.locktype = 'advisory' AND token.granted AND token.objsubid = 1 "
    "AND token.classid = CAST(:token_high AS oid) AND token.objid = CAST(:token_low AS oid)"
)


def _halves(name: str, number: int) -> dict[str, int]:
    unsigned = number % 2**64
    return {f"{name}_high": unsigned >> 32, f"{name}_low": unsigned & (2**32 - 1)}


@contextlib.contextmanager
def driver_lock(engine: sa.Engine, path: Path | None, run_id: str, fence: Fence) -> Iterator[None]:
    """Keep a second driver away from a run, by a file beside the ledger at `path` or by its database; one in memory has one driver."""
    if path is not None:
        with file_lock(Path(f"{path}.{run_id}.lock"), run_id):
            yield
    elif engine.dialect.name == "sqlite":
        yield
    else:
        with database_lock(engine, run_id) as token:
            fence.tokens[run_id] = token
            try:
                yield
            finally:
                del fence.tokens[run_id]


@contextlib.contextmanager
def database_lock(engine: sa.Engine, run_id: str) -> Iterator[int]:
    """PostgreSQL's advisory lock of a run and one of a new token, held by a connection of its own and outside of any transaction.

    The token. The connection is closed at the end, which gives both up; that it was ended before is told by `Fence.check`.
    """
    token = secrets.randbits(64) - 2**63
    connection = durable_connection(engine, lambda connection: _lock(connection, run_id, token))
    try:
        yield token
    finally:
        with contextlib.suppress(sa.exc.DBAPIError):
            connection.close()


def _lock(connection: sa.Connection, run_id: str, token: int) -> None:
    """Take the lock of a run, or refuse, and that of the token."""
    held = connection.execute(sa.select(sa.func.pg_try_advisory_lock(_number(run_id)))).scalar()
    if held:
        connection.execute(sa.select(sa.func.pg_advisory_lock(token)))
    connection.commit()
    if not held:
        raise LedgerError(_busy(run_id))


def _number(run_id: str) -> int:
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big", signed=True)


@contextlib.contextmanager
def file_lock(path: Path, run_id: str) -> Iterator[None]:
    """Lock a file, and remove it under the lock; whoever then holds the lock of a removed file opens it anew."""
    while True:
        with path.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LedgerError(_busy(run_id)) from None
            if not _same(handle.fileno(), path):
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _busy(run_id: str) -> str:
    return f"another process is working on run {run_id}: wait for it; if it was killed, its lock is already gone"
