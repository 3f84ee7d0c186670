"""One driver per run: a lock that the operating system or the database drops when its holder dies. Imports sqlalchemy."""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from nightfit.ledger.errors import LedgerError


@contextlib.contextmanager
def driver_lock(engine: sa.Engine, path: Path | None, run_id: str) -> Iterator[None]:
    """Keep a second driver away from a run, by a file beside the ledger at `path` or by its database; one in memory has one driver."""
    if path is not None:
        with file_lock(Path(f"{path}.{run_id}.lock"), run_id):
            yield
    elif engine.dialect.name == "sqlite":
        yield
    else:
        with database_lock(engine, run_id):
            yield


@contextlib.contextmanager
def database_lock(engine: sa.Engine, run_id: str) -> Iterator[None]:
    """PostgreSQL's advisory lock, held by a connection of its own and outside of any transaction."""
    number = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big", signed=True)
    with engine.connect() as connection:
        connection.detach()
        held = connection.execute(sa.select(sa.func.pg_try_advisory_lock(number))).scalar()
        connection.commit()
        if not held:
            raise LedgerError(_busy(run_id))
        yield


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
