"""The time to reserve in an old ledger over that in a new one: balances are kept beside the chain, so age must hardly matter."""

import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from nightfit.ledger import Ledger, Policy, Reservation, chain, tables
from nightfit.ledger.database import durable
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency

YOUNG, OLD, REPEATS = 10, 1_000_000, 200


def ratios() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        young, old = (_seconds(Path(folder) / f"{rows}.db", rows) for rows in (YOUNG, OLD))
    return {f"reserve at {OLD:,} entries / at {YOUNG}": old / young}


def _seconds(path: Path, rows: int) -> float:
    """The median time of a reservation, after so many entries were loaded in one transaction."""
    ledger = Ledger.create(f"sqlite:///{path}")
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=10.0, delta=1e-6))
    durable(ledger.engine, lambda connection: _load(connection, rows))
    event = GaussianEvent(label="g", sensitivity=2.0**20, sigma=2.0**40, coordinates=1, adjacency=Adjacency.ZERO_OUT)
    taken = []
    for number in range(REPEATS):
        order = Reservation(model="m", data_set="d", unit="record", plan="p", events=(event,), window=str(number), manifest="m", files=())
        start = time.perf_counter()
        ledger.reserve(order)
        taken.append(time.perf_counter() - start)
    ledger.engine.dispose()
    return sorted(taken)[REPEATS // 2]


def _load(connection: sa.Connection, rows: int) -> None:
    seq, previous = chain.end(connection)
    loaded = []
    for number in range(seq + 1, seq + 1 + rows):
        said = {"seq": number, "kind": "asked", "data_set": "d", "run": f"r{number // 100}", "label": f"g{number % 100}", "body": "{}"}
        digest = chain.digest_of(*said.values(), previous)
        loaded.append({**said, "previous": previous, "digest": digest})
        previous = digest
    for start in range(0, rows, 50_000):
        connection.execute(tables.entry.insert(), loaded[start : start + 50_000])
