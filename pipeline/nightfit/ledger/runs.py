"""The table of runs: finding one, closing it. Imports sqlalchemy."""

from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import chain, tables
from nightfit.ledger.errors import LedgerError

ERASED = "00" * 32  # what a run's secret becomes when it ends


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """A row of the table; docs/reference/ledger.md explains the columns."""

    run: str
    seq: int
    key: str
    counter: int
    secret: str = field(repr=False)
    model: str
    data_set: str
    plan: str
    manifest: str
    manifest_id: str
    private: bool
    state: str
    started: str

    def digest(self) -> str:
        """What the chain records of it."""
        return chain.digest_of_row(asdict(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """A run that the ledger knows: its id, model, data set and state, its plan's digest, the blocks that it was reserved on, and the run
    that pays for the queries that it shares with others, if there is one.
    """

    run: str
    model: str
    data_set: str
    state: str
    plan: str
    blocks: tuple[str, ...]
    shares: str | None = None


def read(connection: sa.Connection, run_id: str) -> RunRow:
    """The run of an id.

    Raises
    ------
    LedgerError
        If there is none.
    """
    row = connection.execute(sa.select(tables.run).where(tables.run.c.run == run_id)).first()
    if row is None:
        raise LedgerError(f"the ledger knows no run {run_id!r}: `nightfit ledger show` lists them")
    return RunRow(**row._mapping)


def read_all(connection: sa.Connection) -> list[dict[str, Any]]:
    """Every run, oldest first."""
    return [dict(row._mapping) for row in connection.execute(sa.select(tables.run).order_by(tables.run.c.seq))]


def latest(connection: sa.Connection, key: str) -> RunRow | None:
    """The latest run of a model on a window, whose keyed hash is `key`."""
    row = connection.execute(sa.select(tables.run).where(tables.run.c.key == key).order_by(tables.run.c.counter.desc()).limit(1)).first()
    return None if row is None else RunRow(**row._mapping)


def insert(connection: sa.Connection, row: RunRow) -> None:
    """Add a run."""
    connection.execute(tables.run.insert(), asdict(row))


def close(connection: sa.Connection, run_id: str, state: str) -> None:
    """End a run and erase its secret."""
    connection.execute(tables.run.update().where(tables.run.c.run == run_id).values(state=state, secret=ERASED))


def reservation_of(connection: sa.Connection, run_id: str) -> dict[str, Any]:
    """The body of a run's `reserved` entry."""
    return chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "reserved")[0].body


def record_of(connection: sa.Connection, row: RunRow) -> RunRecord:
    """What others may know of a run."""
    reserved = reservation_of(connection, row.run)
    blocks, shares = tuple(reserved["blocks"]), reserved.get("shared", {}).get("run")
    return RunRecord(run=row.run, model=row.model, data_set=row.data_set, state=row.state, plan=row.plan, blocks=blocks, shares=shares)


def taking_from(connection: sa.Connection, run_id: str) -> list[RunRecord]:
    """The runs that take answers which this one pays for."""
    data_set = read(connection, run_id).data_set
    rows = connection.execute(sa.select(tables.run).where(tables.run.c.data_set == data_set).order_by(tables.run.c.seq)).all()
    records = (record_of(connection, RunRow(**row._mapping)) for row in rows)
    return [record for record in records if record.shares == run_id]
