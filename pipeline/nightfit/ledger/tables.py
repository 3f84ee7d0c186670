"""The ledger's tables, and opening one so that a committed charge survives a power cut. Imports sqlalchemy."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from nightfit.ledger.errors import LedgerError

VERSION = 2
PATIENCE = 60.0
TURNSTILE = 7_231_889_401
PAUSES = (0.02, 0.1, 0.5, 2.0)
AT_ONCE = 500
T = TypeVar("T")


class Whole(sa.types.TypeDecorator[int]):
    """A Python integer of any size, kept as decimal text: SQL numbers are too narrow for exact sums."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Any) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Any) -> int | None:
        return None if value is None else int(value)


metadata = sa.MetaData()
identity = sa.Table(
    "identity",
    metadata,
    sa.Column("ledger_id", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
)
entry = sa.Table(
    "entry",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("data_set", sa.Text, nullable=False),
    sa.Column("run", sa.Text),
    sa.Column("label", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Index("entry_by_question", "run", "kind", "label"),
)
policy = sa.Table(
    "policy",
    metadata,
    sa.Column("data_set", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
balance = sa.Table(
    "balance",
    metadata,
    sa.Column("data_set", sa.Text, primary_key=True),
    sa.Column("block", sa.Text, primary_key=True),
    sa.Column("amount", Whole, nullable=False),
    sa.Column("mass", Whole, nullable=False),
)
run = sa.Table(
    "run",
    metadata,
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("counter", sa.Integer, nullable=False),
    sa.Column("secret", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("data_set", sa.Text, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("manifest", sa.Text, nullable=False),
    sa.Column("manifest_id", sa.Text, nullable=False),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("started", sa.Text, nullable=False),
    sa.UniqueConstraint("key", "counter"),
)
file = sa.Table(
    "file",
    metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("data_set", sa.Text, nullable=False),
    sa.Column("block", sa.Text, nullable=False, server_default=""),
)


def path_of(url: str) -> Path | None:
    """The file of an SQLite URL; None for one in memory or another database."""
    parsed = parse(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))


def parse(url: str) -> sa.URL:
    try:
        return sa.engine.make_url(url)
    except sa.exc.ArgumentError:
        raise LedgerError("the ledger's URL is not one: write sqlite:///ledger.db or postgresql+psycopg://user@host/database") from None


def shown(url: str) -> str:
    """The URL without its password."""
    return parse(url).render_as_string(hide_password=True)


def connect(url: str) -> sa.Engine:
    """An engine whose transactions take the write lock at once and reach the disk before they return."""
    parsed = parse(url)
    if parsed.get_backend_name() != "sqlite":
        return _one_at_a_time(_engine(parsed))
    path = path_of(url)
    if path is None:
        engine = sa.create_engine("sqlite://", hide_parameters=True, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = sa.create_engine(
            f"sqlite:///file:{quote(str(path.resolve()))}?mode=rw&uri=true", hide_parameters=True, connect_args={"timeout": PATIENCE}
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


def _engine(parsed: sa.URL) -> sa.Engine:
    if parsed.get_backend_name() != "postgresql":
        raise LedgerError(f"a ledger lives in SQLite or PostgreSQL, not in {parsed.get_backend_name()}")
    try:
        return sa.create_engine(parsed, hide_parameters=True, isolation_level="READ COMMITTED")
    except ModuleNotFoundError:
        raise LedgerError(
            "a ledger in PostgreSQL needs its driver: pip install 'nightfit[postgresql]', and postgresql+psycopg:// in the URL"
        ) from None


def _one_at_a_time(engine: sa.Engine) -> sa.Engine:
    """PostgreSQL's transactions in single file, as SQLite's are: none can fail for another, and each sees all before it.

    Nobody waits longer than PATIENCE for a turn, and a driver that was lost in the middle of its own gives it up as soon.
    """

    @sa.event.listens_for(engine, "connect")
    def _open(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(1000 * PATIENCE)}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {int(1000 * PATIENCE)}")
        connection.commit()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({TURNSTILE})")

    return engine


def durable(engine: sa.Engine, change: Callable[[sa.Connection], T]) -> T:
    """One durable change or none; a database that cannot write becomes a LedgerError that says the cure.

    Where the connection was cut or the database asks to try again, whether the change was made is not known, so `change` is run
    again and must find by its key what it did before: every change of this room does. Broken by
    test_a_connection_cut_at_commit_is_retried_and_charged_once.
    """
    pauses = iter(PAUSES)
    interrupted = False
    while True:
        try:
            with engine.begin() as connection:
                return change(connection)
        except sa.exc.DBAPIError as error:
            pause = next(pauses, None)
            interrupted = interrupted or _passing(error)
            if not interrupted or pause is None:
                raise LedgerError(
                    f"the ledger could not be used ({_reason(error)}); nothing more was read or released: {_cure(error)}"
                ) from error
            time.sleep(pause)


def _passing(error: sa.exc.DBAPIError) -> bool:
    """A connection that was cut or not made, a serialisation failure (40001) or a deadlock (40P01): PostgreSQL may yet answer."""
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
