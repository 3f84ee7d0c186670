"""Whether a ledger is whole: the chain unbroken, balances what the chain says, every release paid. Imports sqlalchemy."""

import json
from collections import defaultdict
from collections.abc import Iterable

import sqlalchemy as sa

from pipeline.privacy.accounting import Cost
from pipeline.privacy.ledger import chain, tables
from pipeline.privacy.ledger.book import Ledger
from pipeline.privacy.ledger.run import Receipt


def verify(ledger: Ledger, receipts: Iterable[tuple[str, Receipt | None]] = ()) -> list[str]:
    """Everything that is wrong, in words; empty if nothing is. `receipts` are (name of a release, its receipt).

    Guarantee: an edited, inserted or removed entry breaks a digest or the sequence; a removed tail or an older copy is found
    against receipts only; against a forger who rewrites the whole database nothing but receipts kept elsewhere helps.
    Balances are recomputed from a whole chain only.
    """
    with tables.transaction(ledger.engine) as connection:
        broken = _chain(connection)
        return [*broken, *([] if broken else _balances(connection)), *_receipts(connection, ledger, receipts)]


def _chain(connection: sa.Connection) -> list[str]:
    problems: list[str] = []
    previous = chain.GENESIS
    for number, row in enumerate(connection.execute(sa.select(tables.entry).order_by(tables.entry.c.seq)), start=1):
        if row.seq != number or row.previous != previous:
            return [*problems, f"entry {number} was removed or reordered: entry {row.seq} does not follow it"]
        if chain.digest_of(row.seq, row.kind, row.data_set, row.run, row.label, row.body, row.previous) != row.digest:
            problems.append(f"entry {row.seq} ({row.kind}) was edited")
        previous = row.digest
    return problems


def _balances(connection: sa.Connection) -> list[str]:
    expected: defaultdict[tuple[str, str], Cost] = defaultdict(Cost)
    policies, states = {}, {}
    for entry in chain.read(connection):
        if entry.kind == "reserved":
            for block in entry.body["blocks"]:
                expected[entry.data_set, block] += Cost(*map(int, entry.body["cost"]))
        elif entry.kind == "abandoned":
            for block in entry.body["blocks"]:
                expected[entry.data_set, block] -= Cost(*map(int, entry.body["refund"]))
        elif entry.kind == "policy":
            policies[entry.data_set] = {name: value for name, value in entry.body.items() if name != "override"}
        if entry.kind in ("reserved", "finished", "abandoned"):
            states[entry.run] = entry.kind
    held = {(row.data_set, row.block): Cost(row.amount, row.mass) for row in connection.execute(sa.select(tables.balance))}
    problems = [
        f"the balance of {name} (block {block}) is not what its entries add to"
        for name, block in expected.keys() | held.keys()
        if expected.get((name, block), Cost()) != held.get((name, block), Cost())
    ]
    stored = {row.data_set: _parsed(row.body) for row in connection.execute(sa.select(tables.policy))}
    problems += [
        f"the policy of {name} is not the one recorded"
        for name in stored.keys() | policies.keys()
        if stored.get(name) != policies.get(name)
    ]
    runs = {row.run: row.state for row in connection.execute(sa.select(tables.run.c.run, tables.run.c.state))}
    return problems + [
        f"run {name} is not in the state recorded" for name in runs.keys() | states.keys() if runs.get(name) != states.get(name)
    ]


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


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
