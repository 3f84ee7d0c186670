"""The time to reserve in an old ledger over that in a new one: balances are kept beside the chain, so age must hardly matter. And the bytes
that an integer of an answer takes, as it is stored, as text, and at the least.
"""

import math
import tempfile
import time
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from nightfit.ledger import Binding, Ledger, Policy, Reservation, answers, chain, tables
from nightfit.ledger.database import durable
from nightfit.ledger.receipt import events_digest
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency

YOUNG, OLD, REPEATS = 10, 1_000_000, 200
ANSWERS, INTEGERS = 20, 50_000  # a million integers, as a refit of 1,000 columns asks for twice


def ratios() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        young, old = (_seconds(Path(folder) / f"{rows}.db", rows) for rows in (YOUNG, OLD))
        size = _bytes_an_integer(Path(folder) / "answers.db")
    return {f"reserve at {OLD:,} entries / at {YOUNG}": old / young, **size}


def _bytes_an_integer(path: Path) -> dict[str, float]:
    """What the file grows by when answers are stored, of the noise that a second moment of 1,000 columns gets at epsilon 1.

    Noise cannot be compressed below its entropy: a rounded Gaussian has log2(sigma sqrt(2 pi e)) bits.
    """
    sigma = 2.0**50
    ledger = Ledger.create(f"sqlite:///{path}")
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=10.0, delta=1e-6))
    events = tuple(
        GaussianEvent(label=str(number), sensitivity=2.0**20, sigma=sigma, coordinates=INTEGERS, adjacency=Adjacency.ZERO_OUT)
        for number in range(ANSWERS)
    )
    run = ledger.reserve(Reservation(model="m", data_set="d", unit="record", plan="p", events=events, window="w", manifest="m", files=()))
    rng, before, text = np.random.default_rng(0), path.stat().st_size, 0
    for event in events:
        answer = np.rint(rng.normal(scale=sigma, size=INTEGERS)).astype(np.int64)
        run.asked(event)
        run.answered(event, answer)
        text += len(answers.text_of(answer))
    of = ANSWERS * INTEGERS
    stored = (path.stat().st_size - before) / of
    run.finish(Binding(content="", private=True, plan="p", events=events_digest([event.as_dict() for event in events])))
    ledger.prune(run.run_id)
    ledger.compact()
    pruned = (path.stat().st_size - before) / of
    ledger.engine.dispose()
    return {
        "bytes an integer, stored": stored,
        "bytes an integer, as text": text / of,
        "bytes an integer, at the least": math.log2(sigma * math.sqrt(2 * math.pi * math.e)) / 8,
        "bytes an integer, pruned": pruned,
    }


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
