"""The append-only chain of entries: each carries the digest of the one before. Imports sqlalchemy."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import tables

_IDENTITY = sa.select(tables.identity.c.ledger_id, tables.identity.c.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    seq: int
    kind: str
    data_set: str
    run: str | None
    label: str | None
    body: dict[str, Any]
    previous: str
    digest: str


def digest_of(seq: int, kind: str, data_set: str, run: str | None, label: str | None, body: str, previous: str) -> str:
    """SHA-256 of the previous digest and everything the entry says."""
    said = json.dumps([previous, seq, kind, data_set, run, label, body], separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def append(
    connection: sa.Connection,
    kind: str,
    data_set: str,
    body: dict[str, Any],
    run: str | None = None,
    label: str | None = None,
    *,
    after: tuple[int, str] | None = None,
) -> Entry:
    """Add the next entry inside the caller's transaction, which holds the write lock; `after` is the last one if it was just read."""
    last, previous = after or end(connection)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = digest_of(last + 1, kind, data_set, run, label, text, previous)
    values = {"seq": last + 1, "kind": kind, "data_set": data_set, "run": run, "label": label, "body": text}
    connection.execute(tables.entry.insert(), {**values, "previous": previous, "digest": digest})
    return Entry(seq=last + 1, kind=kind, data_set=data_set, run=run, label=label, body=body, previous=previous, digest=digest)


def end(connection: sa.Connection) -> tuple[int, str]:
    """Number and digest of the last entry; before the first one, 0 and what the ledger's identity gives."""
    last = connection.execute(sa.select(tables.entry.c.seq, tables.entry.c.digest).order_by(tables.entry.c.seq.desc()).limit(1)).first()
    return (last.seq, last.digest) if last else (0, genesis(*connection.execute(_IDENTITY).one()))


def genesis(ledger_id: str, key: str) -> str:
    """What the first entry follows: SHA-256 of the ledger's id and key, so that neither can be changed unseen."""
    return hashlib.sha256(json.dumps([ledger_id, key]).encode()).hexdigest()


def read(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
    """The entries that meet the conditions, oldest first."""
    return list(each(connection, *conditions))


def each(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> Iterator[Entry]:
    """The same, one at a time."""
    for row in connection.execute(sa.select(tables.entry).where(*conditions).order_by(tables.entry.c.seq)):
        yield Entry(**{**row._mapping, "body": json.loads(row.body)})


def digest_of_row(row: dict[str, Any]) -> str:
    """SHA-256 of all that the table of runs keeps of one, but for its state, which changes, and its secret, which is erased."""
    said = {name: value for name, value in row.items() if name not in ("state", "secret")}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_of_secret(secret: str) -> str:
    """SHA-256 of a run's secret of 256 bits, which tells nothing about it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def accounts_of(body: dict[str, Any]) -> list[str]:
    """What a reservation charged or a refund gave back to; in entries of format 1 these were the blocks."""
    return list(body["accounts"] if "accounts" in body else body["blocks"])
