"""What was charged when, read back from the chain: for plots, and for an outside accountant. Imports sqlalchemy."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import answers, chain, tables
from nightfit.ledger.database import durable
from nightfit.ledger.policy_migration import read_costs
from nightfit.ledger.store import Ledger
from nightfit.privacy.accounting import Cost, Currency, CurrencyError, cost
from nightfit.privacy.events import event_from_dict


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge:
    """What one run cost each of its accounts, after its refund.

    Parameters
    ----------
    seq, run, data_set, started
        Of the reservation.
    accounts
        What was charged.
    cost
        In the policy's currency.
    tight
        The same in exact mu^2; None if not all queries are Gaussian.
    """

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
        return [_charge(entry, abandoned, asked) for entry, abandoned, asked in _runs(connection) if entry.data_set == data_set]

    return durable(ledger.engine, read)


def migrated_balances(ledger: Ledger, data_set: str) -> list[tuple[int, dict[str, Cost]]]:
    """Number of each migration of a data set, oldest first, and what its accounts began with."""

    def read(connection: sa.Connection) -> list[tuple[int, dict[str, Cost]]]:
        entries = chain.each(connection, tables.entry.c.kind == "migrated", tables.entry.c.data_set == data_set)
        return [(entry.seq, read_costs(entry.body["balances"])) for entry in entries]

    return durable(ledger.engine, read)


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyChange:
    """A budget that was set or changed.

    Parameters
    ----------
    seq
        Of the entry: its place among the charges. The chain gives the order, and no clock.
    policy
        In words.
    override
        The recorded reason, where a promise was loosened.
    """

    seq: int
    policy: str
    override: str | None


def policy_changes(ledger: Ledger, data_set: str) -> list[PolicyChange]:
    """Every policy that a data set ever had, oldest first."""

    def read(connection: sa.Connection) -> list[PolicyChange]:
        entries = chain.read(connection, tables.entry.c.kind == "policy", tables.entry.c.data_set == data_set)
        return [
            PolicyChange(
                seq=entry.seq,
                policy=f"epsilon {entry.body['epsilon']:g} at delta {entry.body['delta']:g}, per {entry.body.get('per', 'life')}",
                override=entry.body.get("override"),
            )
            for entry in entries
        ]

    return durable(ledger.engine, read)


def exported(ledger: Ledger) -> list[dict[str, Any]]:
    """One record per query that was ever reserved, oldest first, with all that an accountant needs; see docs/reference/ledger.md."""

    def read(connection: sa.Connection) -> list[dict[str, Any]]:
        models = {row.run: row for row in connection.execute(sa.select(tables.run.c.run, tables.run.c.model))}
        answered = _labels(connection, "answered")
        records: list[dict[str, Any]] = []
        for entry, abandoned, asked in _runs(connection):
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
                        "state": "refunded" if abandoned is not None and state == "reserved" else state,
                        "event": stored,
                    }
                )
        return records

    return durable(ledger.engine, read)


def chain_records(ledger: Ledger) -> list[dict[str, Any]]:
    """Every entry of the chain, oldest first: enough to compute every digest anew. An answer that was pruned has no body."""
    entries, columns = answers.with_packed.order_by(tables.entry.c.seq), tables.entry.c.keys()

    def record(row: sa.Row[Any]) -> dict[str, Any]:
        return {name: row._mapping[name] for name in columns} | {"body": answers.body_of(row)}

    return durable(ledger.engine, lambda connection: [record(row) for row in connection.execute(entries)])


def _runs(connection: sa.Connection) -> Iterator[tuple[chain.Entry, chain.Entry | None, set[str | None]]]:
    """Each reservation, the entry that abandoned it if there is one, and the labels of the queries that were asked."""
    abandoned = {entry.run: entry for entry in chain.each(connection, tables.entry.c.kind == "abandoned")}
    asked = _labels(connection, "asked")
    for entry in chain.each(connection, tables.entry.c.kind == "reserved"):
        yield entry, abandoned.get(entry.run), asked[entry.run]


def _labels(connection: sa.Connection, kind: str) -> defaultdict[str | None, set[str | None]]:
    found: defaultdict[str | None, set[str | None]] = defaultdict(set)
    for run, label in connection.execute(sa.select(tables.entry.c.run, tables.entry.c.label).where(tables.entry.c.kind == kind)):
        found[run].add(label)
    return found


def _charge(entry: chain.Entry, abandoned: chain.Entry | None, asked: set[str | None]) -> Charge:
    refunded = chain.charge_of(abandoned) if abandoned is not None else Cost()
    paid = [event_from_dict(stored) for stored in entry.body["events"] if abandoned is None or stored["label"] in asked]
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
        cost=chain.charge_of(entry) + refunded,
        tight=tight,
    )
