"""The append-only chain of entries: each carries the digest of the one before. Imports sqlalchemy."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pipeline.privacy.ledger import tables

GENESIS = "0" * 64


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
    connection: sa.Connection, kind: str, data_set: str, body: dict[str, Any], run: str | None = None, label: str | None = None
) -> Entry:
    """Add the next entry inside the caller's transaction, which holds the write lock."""
    last = connection.execute(sa.select(tables.entry.c.seq, tables.entry.c.digest).order_by(tables.entry.c.seq.desc()).limit(1)).first()
    seq, previous = (last.seq + 1, last.digest) if last else (1, GENESIS)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = digest_of(seq, kind, data_set, run, label, text, previous)
    values = {"seq": seq, "kind": kind, "data_set": data_set, "run": run, "label": label, "body": text}
    connection.execute(tables.entry.insert().values(**values, previous=previous, digest=digest))
    return Entry(seq=seq, kind=kind, data_set=data_set, run=run, label=label, body=body, previous=previous, digest=digest)


def read(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
    """The entries that meet the conditions, oldest first."""
    rows = connection.execute(sa.select(tables.entry).where(*conditions).order_by(tables.entry.c.seq))
    return [Entry(**{**row._mapping, "body": json.loads(row.body)}) for row in rows]
