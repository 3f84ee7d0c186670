"""Whether a ledger is whole: the chain unbroken, what is kept beside it as the chain says, every release paid. Imports sqlalchemy."""

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import chain, tables
from nightfit.ledger.run import ERASED, Receipt
from nightfit.ledger.store import Ledger
from nightfit.privacy.accounting import Cost

BEFORE_FORMAT_2 = "0" * 64


def verify(ledger: Ledger, receipts: Iterable[tuple[str, Receipt | None]] = ()) -> list[str]:
    """Everything that is wrong, in words; empty if nothing is. `receipts` are (name of a release, its receipt).

    Guarantee: an edited, inserted or removed entry breaks a digest or the sequence; a removed tail or an older copy is found
    against receipts only; against a forger who rewrites the whole database nothing but receipts kept elsewhere helps.
    Identity, balances, policies, runs and files are compared with a whole chain only.
    """
    receipts = list(receipts)

    def read(connection: sa.Connection) -> list[str]:
        broken = _chain(connection)
        return [*broken, *([] if broken else _beside(connection)), *_receipts(connection, ledger, receipts)]

    return tables.durable(ledger.engine, read)


def _chain(connection: sa.Connection) -> list[str]:
    problems: list[str] = []
    previous: str | None = None
    for number, row in enumerate(connection.execute(sa.select(tables.entry).order_by(tables.entry.c.seq)), start=1):
        if row.seq != number or (previous is not None and row.previous != previous):
            return [*problems, f"entry {number} was removed or reordered: entry {row.seq} does not follow it"]
        if chain.digest_of(row.seq, row.kind, row.data_set, row.run, row.label, row.body, row.previous) != row.digest:
            problems.append(f"entry {row.seq} ({row.kind}) was edited")
        previous = row.digest
    return problems


class _Told:
    """What a whole chain says of everything that is kept beside it."""

    def __init__(self, entries: Iterable[chain.Entry]) -> None:
        self.balances: defaultdict[tuple[str, str], Cost] = defaultdict(Cost)
        self.policies: dict[str, Any] = {}
        self.states: dict[str | None, str] = {}
        self.rows: dict[str | None, str] = {}
        self.secrets: dict[str | None, str] = {}
        self.files: dict[str, tuple[str, str]] = {}
        self.first: str | None = None
        self.identity: str | None = None
        for entry in entries:
            self.first = self.first or entry.previous
            self._hear(entry)

    def _hear(self, entry: chain.Entry) -> None:
        body = entry.body
        if entry.kind == "reserved":
            for account in chain.accounts_of(body):
                self.balances[entry.data_set, account] += Cost(*map(int, body["cost"]))
            self.files |= {name: (entry.data_set, block) for name, block in body.get("files", [])}
            if "row" in body:
                self.rows[entry.run] = body["row"]
                self.secrets[entry.run] = body["secret"]
        elif entry.kind == "abandoned":
            for account in chain.accounts_of(body):
                self.balances[entry.data_set, account] -= Cost(*map(int, body["refund"]))
        elif entry.kind == "policy":
            self.policies[entry.data_set] = {"per": "life"} | {name: value for name, value in body.items() if name != "override"}
        elif entry.kind == "upgraded":
            self.identity = body["identity"]
            self.files |= {name: (data_set, "") for name, data_set in body["files"]}
            self.rows |= body["rows"]
        if entry.kind in ("reserved", "finished", "abandoned"):
            self.states[entry.run] = entry.kind
        if entry.kind in ("finished", "abandoned") and entry.run in self.secrets:
            self.secrets[entry.run] = chain.digest_of_secret(ERASED)


def _beside(connection: sa.Connection) -> list[str]:
    told = _Told(chain.each(connection))
    return [
        *_identity(connection, told),
        *_differing(
            told.balances,
            {(row.data_set, row.block): Cost(row.amount, row.mass) for row in connection.execute(sa.select(tables.balance))},
            lambda at: f"the balance of {at[0]} (block {at[1]}) is not what its entries add to",
            Cost(),
        ),
        *_differing(
            told.policies,
            {row.data_set: _policy(row.body) for row in connection.execute(sa.select(tables.policy))},
            lambda name: f"the policy of {name} is not the one recorded",
        ),
        *_runs(connection, told),
        *_differing(
            told.files,
            {row.fingerprint: (row.data_set, row.block) for row in connection.execute(sa.select(tables.file))},
            lambda name: f"the file {name[:8]}... is not recorded as it is listed: it was added, removed or moved by hand",
        ),
    ]


def _differing(expected: dict[Any, Any], held: dict[Any, Any], said: Any, nothing: Any = None) -> list[str]:
    places = sorted(expected.keys() | held.keys())
    return [said(place) for place in places if expected.get(place, nothing) != held.get(place, nothing)]


def _identity(connection: sa.Connection, told: _Told) -> list[str]:
    """The first entry follows the identity; a ledger that began in format 1 recorded it when it was upgraded."""
    rows = connection.execute(sa.select(tables.identity)).all()
    given = [chain.genesis(row.ledger_id, row.key) for row in rows]
    recorded = told.identity if told.identity is not None and told.first == BEFORE_FORMAT_2 else told.first
    return [] if len(given) == 1 and recorded in (None, given[0]) else ["the identity of the ledger is not the one recorded"]


def _runs(connection: sa.Connection, told: _Told) -> list[str]:
    rows = {row.run: dict(row._mapping) for row in connection.execute(sa.select(tables.run))}
    problems = []
    for name in sorted(rows.keys() | told.states.keys(), key=str):
        if (rows[name]["state"] if name in rows else None) != told.states.get(name):
            problems.append(f"run {name} is not in the state recorded")
        elif chain.digest_of_row(rows[name]) != told.rows.get(name) or _other_secret(rows[name], told):
            problems.append(f"run {name} is not the one recorded")
    return problems


def _receipts(connection: sa.Connection, ledger: Ledger, receipts: Iterable[tuple[str, Receipt | None]]) -> list[str]:
    problems = []
    for name, receipt in receipts:
        if receipt is None:
            problems.append(f"{name} has no receipt: it was not paid for")
        elif receipt.ledger_id != ledger.ledger_id:
            problems.append(f"{name} was paid in another ledger ({receipt.ledger_id})")
        elif not connection.execute(sa.select(tables.entry.c.seq).filter_by(seq=receipt.seq, digest=receipt.digest)).first():
            problems.append(f"{name} was paid by entry {receipt.seq}, which this ledger does not have: it is an older copy or was edited")
    return problems


def _policy(text: str) -> object:
    try:
        stored = json.loads(text)
    except ValueError:
        return None
    return {"per": "life"} | stored if isinstance(stored, dict) else None


def _other_secret(row: dict[str, Any], told: _Told) -> bool:
    """Whether a run's secret is not the one that it was given, or not erased at its end; of runs before format 2 nothing is known."""
    recorded = told.secrets.get(row["run"])
    return recorded is not None and recorded != chain.digest_of_secret(row["secret"])
