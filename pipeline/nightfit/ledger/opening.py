"""Making, opening and upgrading the database of a ledger. Imports sqlalchemy."""

import secrets
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import database, migrate, tables
from nightfit.ledger.database import durable
from nightfit.ledger.errors import LedgerError, NoLedger
from nightfit.ledger.identity import Identity


def made(url: str) -> tuple[sa.Engine, Identity]:
    """A new, empty ledger; a LedgerError where one exists."""
    path = database.path_of(url)
    if path is not None:
        database.create_file(path)
    engine = database.connect(url)
    ledger_id, key = secrets.token_hex(8), secrets.token_hex(32)

    def make(connection: sa.Connection) -> None:
        if not sa.inspect(connection).has_table("identity"):
            migrate.to_newest(connection)
            connection.execute(tables.identity.insert().values(ledger_id=ledger_id, version=tables.VERSION, key=key))
        elif connection.execute(sa.select(tables.identity.c.ledger_id)).scalar() != ledger_id:
            raise LedgerError("this database holds a ledger already: use it, or name another database")

    try:
        durable(engine, make)
    except LedgerError:
        engine.dispose()
        if path is not None:
            path.unlink(missing_ok=True)
        raise
    return engine, Identity(ledger_id, bytes.fromhex(key))


def opened(url: str) -> tuple[sa.Engine, Identity]:
    """An existing ledger of this format; a LedgerError if there is none, or it has another."""
    engine = database.existing(url)
    try:
        row = durable(engine, lambda connection: _identity_row(connection, url))
        _check_format(row.version, url)
    except LedgerError:
        engine.dispose()
        raise
    return engine, Identity(row.ledger_id, bytes.fromhex(row.key))


def upgraded(url: str) -> tuple[int, int]:
    """The format of a ledger before, and now; a LedgerError if it is newer than this version knows."""
    engine = database.existing(url)

    def change(connection: sa.Connection) -> int:
        version = int(_identity_row(connection, url).version)
        if version > tables.VERSION:
            raise LedgerError(f"the ledger has format {version}, this nightfit knows up to {tables.VERSION}: use a newer nightfit")
        if version < tables.VERSION:
            migrate.to_newest(connection)
        return version

    try:
        before = durable(engine, change)
        if before < tables.VERSION:
            database.compact(engine)
        return before, tables.VERSION
    finally:
        engine.dispose()


def _identity_row(connection: sa.Connection, url: str) -> sa.Row[Any]:
    if not sa.inspect(connection).has_table("identity"):
        raise NoLedger(
            f"{database.shown(url)} is not a nightfit ledger: check the URL, or make one with "
            f"`nightfit ledger init --ledger {database.shown(url)}`"
        )
    return connection.execute(sa.select(tables.identity)).one()


def _check_format(version: int, url: str) -> None:
    if version == tables.VERSION:
        return
    upgrade = f"bring it up with `nightfit ledger upgrade --ledger {database.shown(url)}`"
    cure = upgrade if version < tables.VERSION else "use the matching nightfit version"
    raise LedgerError(f"the ledger has format {version}, this nightfit reads format {tables.VERSION}: {cure}")
