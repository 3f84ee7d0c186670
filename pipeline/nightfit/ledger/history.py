"""What was charged when, read back from the chain: for plots, and for an accountant from outside. Imports sqlalchemy."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import chain, tables
from nightfit.ledger.store import Ledger
from nightfit.privacy.accounting import Cost, Currency, CurrencyError, cost
from nightfit.privacy.events import event_from_dict


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge:
    """What one run cost each of its accounts, refunds taken off; `tight` is the same in exact mu^2, None if not all is Gaussian."""

    seq: int
    run: str
    data_set: str
    started: str
    accounts: tuple[str, ...]
    cost: Cost
    tight: Cost | None


def charges(ledger: Ledger, data_set: str) -> list[Charge]:
    """Every charge of a data set, oldest first."""

    def read(connection: sa.Connection) -> list[Charge]:
        return [_charge(entry, given_up, asked) for entry, given_up, asked in _runs(connection) if entry.data_set == data_set]

    return tables.durable(ledger.engine, read)


def exported(ledger: Ledger) -> list[dict[str, Any]]:
    """One record per question that was ever reserved, oldest first, with all that an accountant needs; documented in docs/ledger.md."""

    def read(connection: sa.Connection) -> list[dict[str, Any]]:
        models = {row.run: row for row in connection.execute(sa.select(tables.run.c.run, tables.run.c.model))}
        answered = _labels(connection, "answered")
        records: list[dict[str, Any]] = []
        for entry, given_up, asked in _runs(connection):
            for stored in entry.body["events"]:
                label = stored["label"]
                state = "answered" if label in answered[entry.run] else "asked" if label in asked else "reserved"
                records.append(
                    {
                        "ledger": ledger.ledger_id,
                        "entry": entry.seq,
                        "run": entry.run,
                        "model": models[entry.run].model,
                        "started": entry.body["started"],
                        "private": entry.body["private"],
                        "data_set": entry.data_set,
                        "blocks": chain.accounts_of(entry.body),
                        "currency": entry.body["currency"],
                        "state": "refunded" if given_up is not None and state == "reserved" else state,
                        "event": stored,
                    }
                )
        return records

    return tables.durable(ledger.engine, read)


def _runs(connection: sa.Connection) -> Iterator[tuple[chain.Entry, dict[str, Any] | None, set[str | None]]]:
    """Each reservation, the body of its abandonment if there is one, and which of its questions were asked."""
    given_up = {entry.run: entry.body for entry in chain.each(connection, tables.entry.c.kind == "abandoned")}
    asked = _labels(connection, "asked")
    for entry in chain.each(connection, tables.entry.c.kind == "reserved"):
        yield entry, given_up.get(entry.run), asked[entry.run]


def _labels(connection: sa.Connection, kind: str) -> defaultdict[str | None, set[str | None]]:
    found: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for run, label in connection.execute(sa.select(tables.entry.c.run, tables.entry.c.label).where(tables.entry.c.kind == kind)):
        found[run].add(label)
    return found


def _charge(entry: chain.Entry, given_up: dict[str, Any] | None, asked: set[str | None]) -> Charge:
    refund = Cost(*map(int, given_up["refund"])) if given_up is not None else Cost()
    paid = [event_from_dict(stored) for stored in entry.body["events"] if given_up is None or stored["label"] in asked]
    try:
        tight = cost(paid, Currency.GAUSSIAN)
    except CurrencyError:
        tight = None
    return Charge(
        seq=entry.seq,
        run=str(entry.run),
        data_set=entry.data_set,
        started=entry.body["started"],
        accounts=tuple(chain.accounts_of(entry.body)),
        cost=Cost(*map(int, entry.body["cost"])) - refund,
        tight=tight,
    )
