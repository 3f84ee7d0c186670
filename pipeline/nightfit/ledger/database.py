"""Opening a ledger's database so that a committed charge survives a power cut, and one durable transaction. Imports sqlalchemy."""

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from nightfit.ledger.errors import LedgerError, NoLedger

LOCK_SECONDS = 60.0  # how long a transaction waits for its turn: far longer than any transaction of ours, shorter than a user's patience
PAUSES = (0.02, 0.1, 0.5, 2.0)  # before each retry of an interrupted transaction: a restarting PostgreSQL answers within seconds
ADVISORY_LOCK = 7_231_889_401  # names our lock among those of other users of the same PostgreSQL server; any fixed number does
T = TypeVar("T")


class _OfSqlite(sqlite3.Connection):
    """Closed when nobody holds it any more, with the engine that pooled it: Python 3.13 warns of a connection that is only forgotten."""

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.ProgrammingError):  # one that could not be opened cannot be closed
            self.close()


def path_of(url: str) -> Path | None:
    """The file of an SQLite URL; None for one in memory or another database."""
    parsed = parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))


def parse(url: str) -> sa.URL:
    """The URL's parts; a LedgerError if it is none."""
    try:
        return sa.engine.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise LedgerError("the ledger's URL is not one: write sqlite:///ledger.db or postgresql+psycopg://user@host/database") from None


def check_url(url: str) -> None:
    """Refuse a URL that no ledger can have: of another database, of an unknown driver, or with a port that does not exist."""
    parsed = parse(url)
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise LedgerError(f"a ledger lives in SQLite or PostgreSQL, not in {parsed.get_backend_name()}")
    if parsed.port is not None and not 0 < parsed.port < 2**16:
        raise LedgerError(f"the ledger's URL has the port {parsed.port}: ports are from 1 to 65535")
    try:
        parsed.get_dialect()
    except sa.exc.ArgumentError:
        raise LedgerError(
            f"there is no driver {parsed.drivername}: write sqlite:///ledger.db or postgresql+psycopg://user@host/database"
        ) from None


def shown(url: str) -> str:
    """The URL without its passwords: in its user part, and in any query parameter whose name says so (`password`, `sslpassword`).

    Broken by test_f46_no_password_of_a_url_is_shown.
    """
    parsed = parse(url)
    hidden = {name: "***" for name in parsed.query if re.search("pass|secret|token|key", name, re.IGNORECASE)}
    return parsed.update_query_dict(hidden).render_as_string(hide_password=True)


def connect(url: str) -> sa.Engine:
    """An engine whose transactions take the write lock at once and reach the disk before they return."""
    check_url(url)
    parsed = parse(url)
    if parsed.get_backend_name() != "sqlite":
        return _serialised(_postgresql(parsed))
    path, kept = path_of(url), {"factory": _OfSqlite}
    if path is None:
        engine = sa.create_engine(
            "sqlite://", hide_parameters=True, poolclass=StaticPool, connect_args={**kept, "check_same_thread": False}
        )
    else:
        engine = sa.create_engine(
            f"sqlite:///file:{quote(str(path.resolve()))}?mode=rw&uri=true",
            hide_parameters=True,
            connect_args={**kept, "timeout": LOCK_SECONDS},
        )

    @sa.event.listens_for(engine, "connect")
    def _open(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")
        if connection.execute("PRAGMA synchronous").fetchone()[0] < 2:
            raise LedgerError(
                "SQLite refuses synchronous=FULL here: a charge could be lost in a power cut; move the ledger to a local disk"
            )

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def create_file(path: Path) -> None:
    """Make an empty file that its owner alone may read; refused where one exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise LedgerError(f"{path} exists already: a ledger is never overwritten; use it, or name another file") from None
    except OSError as error:
        raise LedgerError(f"{path} cannot be made ({error.strerror}): choose a writable folder on a local disk") from None


def existing(url: str) -> sa.Engine:
    """Connect to a database that is there; nothing is ever made here."""
    path = path_of(url)
    if path is not None and not path.exists():
        raise NoLedger(
            f"there is no ledger at {path}; if this is a new data set make one with "
            f"`nightfit ledger init --ledger {shown(url)}`; if one was there before, restore it: "
            "a new ledger would forget what was spent"
        )
    if path is not None and not os.access(path, os.W_OK):
        raise LedgerError(f"the ledger {path} is read-only: make its file and folder writable for this user")
    return connect(url)


def _postgresql(parsed: sa.URL) -> sa.Engine:
    try:
        return sa.create_engine(parsed, hide_parameters=True, isolation_level="READ COMMITTED")
    except ModuleNotFoundError:
        raise LedgerError(
            "a ledger in PostgreSQL needs its driver: pip install 'nightfit[postgresql]', and postgresql+psycopg:// in the URL"
        ) from None


def _serialised(engine: sa.Engine) -> sa.Engine:
    """Run PostgreSQL's transactions one at a time, as SQLite's are: none can fail for another, and each sees all before it.

    Nobody waits longer than LOCK_SECONDS for the lock, and a driver that is lost inside a transaction gives it up as soon.
    """

    @sa.event.listens_for(engine, "connect")
    def _open(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(1000 * LOCK_SECONDS)}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {int(1000 * LOCK_SECONDS)}")
        connection.commit()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")

    return engine


def durable(engine: sa.Engine, change: Callable[[sa.Connection], T]) -> T:
    """Run a change in one durable transaction.

    Parameters
    ----------
    engine
        Of the ledger.
    change
        What to do with the connection. Where the connection is cut, nobody knows whether the change was made, so it is run again and must
        find by its key what it did before: every change of this package does. Broken by
        test_a_connection_cut_at_commit_is_retried_and_charged_once.

    Returns
    -------
    object
        What `change` returned.

    Raises
    ------
    LedgerError
        If the database cannot be used; it says the cure.
    """

    def attempt() -> T:
        with engine.begin() as connection:
            return change(connection)

    return _retried(attempt)


def durable_connection(engine: sa.Engine, prepare: Callable[[sa.Connection], None]) -> sa.Connection:
    """A connection outside of the pool, prepared; made again where it is cut meanwhile. Raises like `durable`."""

    def attempt() -> sa.Connection:
        connection = engine.connect()
        connection.detach()
        try:
            prepare(connection)
        except BaseException:
            with contextlib.suppress(sa.exc.DBAPIError):
                connection.close()
            raise
        return connection

    return _retried(attempt)


def _retried(attempt: Callable[[], T]) -> T:
    """The result of an attempt, which is repeated after PAUSES where its connection was cut; else a LedgerError."""
    pauses = iter(PAUSES)
    interrupted = False
    while True:
        try:
            return attempt()
        except sa.exc.DBAPIError as error:
            pause = next(pauses, None)
            interrupted = interrupted or _transient(error)
            if not interrupted or pause is None:
                raise LedgerError(
                    f"the ledger could not be used ({_reason(error)}); nothing more was read or released: {_cure(error)}"
                ) from error
            time.sleep(pause)


def compact(engine: sa.Engine) -> str:
    """Give free pages back to the disk; why it could not be done, or nothing. PostgreSQL does it by itself."""
    if engine.dialect.name != "sqlite":
        return ""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("VACUUM")
    except engine.dialect.loaded_dbapi.Error as error:
        return str(error)
    finally:
        connection.close()
    return ""


def weakness(connection: sa.Connection) -> str:
    """Settings of the database by which a committed change may be lost in a power cut; empty if there are none.

    SQLite's are set, and looked at, whenever it is opened.
    """
    if connection.dialect.name == "sqlite":
        return ""
    found = {name: str(connection.exec_driver_sql(f"SHOW {name}").scalar()) for name in ("fsync", "synchronous_commit")}
    return ", ".join(f"{name} is {value}" for name, value in found.items() if value == "off")


def _transient(error: sa.exc.DBAPIError) -> bool:
    """Whether a retry may help: the connection was cut or not made, a serialisation failure (40001), a deadlock (40P01)."""
    state = getattr(error.orig, "sqlstate", "not PostgreSQL")
    if state == "not PostgreSQL":
        return False
    return error.connection_invalidated or state in ("40001", "40P01") or (state is None and isinstance(error, sa.exc.OperationalError))


def _reason(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig else "database error"


def _cure(error: sa.exc.DBAPIError) -> str:
    reason = _reason(error)
    cures = {
        "lock timeout": "another process holds it; wait for that run to end, then start this refit again: it resumes",
        "locked": "another process holds it; wait for that run to end, then start this refit again: it resumes",
        "full": "free space on its disk, then start the same refit again: it resumes",
        "readonly": "make its file and folder writable for this user",
        "unable to open": "check its path and permissions, or make one with `nightfit ledger init`",
        "not a database": "the file is damaged or not a ledger: restore it from a backup and run `nightfit ledger verify`",
    }
    return next(
        (cure for word, cure in cures.items() if word in reason), "check its disk and database, then start the same refit again: it resumes"
    )
