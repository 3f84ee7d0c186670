"""The append-only chain of entries: each carries the digest of the one before. Imports sqlalchemy."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import tables
from nightfit.privacy.accounting import Cost

_IDENTITY = sa.select(tables.identity.c.ledger_id, tables.identity.c.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One row of the chain; `kind` says what happened, `body` what exactly (docs/reference/ledger.md lists both)."""

    seq: int
    kind: str
    data_set: str
    run: str | None
    label: str | None
    body: dict[str, Any]
    previous: str
    digest: str


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN. Digests are taken of this."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(seq: int, kind: str, data_set: str, run: str | None, label: str | None, body: str, previous: str) -> str:
    """SHA-256 of the previous digest and everything that the entry records."""
    return sha256(json.dumps([previous, seq, kind, data_set, run, label, body], separators=(",", ":")))


def digest_is_right(row: sa.Row[Any]) -> bool:
    """Whether an entry, as it lies in the table, has the digest of what it records."""
    return digest_of(row.seq, row.kind, row.data_set, row.run, row.label, row.body, row.previous) == row.digest


def append(
    connection: sa.Connection,
    kind: str,
    data_set: str,
    body: dict[str, Any],
    run: str | None = None,
    label: str | None = None,
    *,
    after: tuple[int, str] | None = None,
    kept: str | None = None,
) -> Entry:
    """Add the next entry inside the caller's transaction, which holds the write lock.

    Parameters
    ----------
    connection
        Of the transaction.
    kind, data_set, body, run, label
        Of the entry.
    after
        Number and digest of the last entry, if they were just read.
    kept
        What lies in the table in the place of the body, which the digest is taken of; the body by default.
    """
    last, previous = after or end(connection)
    text = canonical(body)
    digest = digest_of(last + 1, kind, data_set, run, label, text, previous)
    values = {"seq": last + 1, "kind": kind, "data_set": data_set, "run": run, "label": label, "body": text if kept is None else kept}
    connection.execute(tables.entry.insert(), {**values, "previous": previous, "digest": digest})
    return Entry(seq=last + 1, kind=kind, data_set=data_set, run=run, label=label, body=body, previous=previous, digest=digest)


def end(connection: sa.Connection) -> tuple[int, str]:
    """Number and digest of the last entry; before the first one, 0 and the digest of the ledger's identity."""
    last = connection.execute(sa.select(tables.entry.c.seq, tables.entry.c.digest).order_by(tables.entry.c.seq.desc()).limit(1)).first()
    return (last.seq, last.digest) if last else (0, genesis(*connection.execute(_IDENTITY).one()))


def genesis(ledger_id: str, key: str) -> str:
    """What the first entry follows: SHA-256 of the ledger's id and key, so that neither can be changed unseen."""
    return sha256(json.dumps([ledger_id, key]))


def read(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
    """The entries that meet the conditions, oldest first."""
    return list(each(connection, *conditions))


def each(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> Iterator[Entry]:
    """The same, one at a time."""
    for row in connection.execute(sa.select(tables.entry).where(*conditions).order_by(tables.entry.c.seq)):
        yield parsed(row)


def parsed(row: sa.Row[Any]) -> Entry:
    """A row of the table as an entry; the body of an answer is empty, because answers are packed (`nightfit.ledger.answers`)."""
    return Entry(**{**row._mapping, "body": json.loads(row.body or "{}")})


def digest_of_row(row: dict[str, Any]) -> str:
    """SHA-256 of a row of the table of runs, but for its state, which changes, and its secret, which is erased."""
    return sha256(canonical({name: value for name, value in row.items() if name not in ("state", "secret")}))


def digest_of_secret(secret: str) -> str:
    """SHA-256 of a run's secret: it has 256 random bits, so the digest reveals nothing."""
    return sha256(secret)


def accounts_of(body: dict[str, Any]) -> list[str]:
    """The accounts that a reservation charged or a refund was given to; in entries of format 1 these were the blocks."""
    return list(body["accounts"] if "accounts" in body else body["blocks"])


def charge_of(entry: Entry) -> Cost:
    """What an entry adds to each of its accounts: the cost of a reservation, the refund of an abandoned run with a minus."""
    if entry.kind == "reserved":
        return Cost(*map(int, entry.body["cost"]))
    return Cost() - Cost(*map(int, entry.body["refund"])) if entry.kind == "abandoned" else Cost()
