"""What a data set has spent, recomputed from the chain since its last checkpoint. Imports sqlalchemy.

Reservations, refunds, checkpoints and migrations of a data set name the one before them (`follows`), so a few entries prove a balance: the
last checkpoint or migration and the charges since.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import chain, tables
from nightfit.ledger.errors import LedgerError
from nightfit.privacy.accounting import Cost

SUMMARIES = ("checkpoint", "migrated")  # which say what every account of a data set has spent
CHARGING = ("reserved", "abandoned", *SUMMARIES)
CHARGES_BETWEEN = 32  # a reservation reads that many charges at most; a checkpoint is as long as the list of a data set's accounts


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """What the chain says that a data set has spent.

    Parameters
    ----------
    balances
        By account.
    last
        Number and digest of the data set's last charging entry; None before the first.
    charges
        How many there were since the last checkpoint.
    single_order
        Whether any charge was priced at the policy's one Renyi order.
    """

    balances: dict[str, Cost]
    last: tuple[int, str] | None
    charges: int
    single_order: bool


def recompute(connection: sa.Connection, data_set: str) -> Spending:
    """Add up a data set's charges from the chain.

    Guarantee: every entry that is read has its own digest, and names the digest of the one before it, back to the checkpoint; so a charge
    that was edited or removed is noticed, unless the whole tail of the chain was removed or rewritten. Broken by
    test_a_reservation_notices_an_edited_or_removed_charge.

    Raises
    ------
    LedgerError
        If an entry was edited or removed.
    """
    entry, here = tables.entry, (tables.entry.c.data_set == data_set)
    start = connection.execute(sa.select(sa.func.max(entry.c.seq)).where(here, entry.c.kind.in_(SUMMARIES))).scalar()
    since = sa.select(entry).where(here, entry.c.kind.in_(CHARGING), entry.c.seq >= (start or 0)).order_by(entry.c.seq)
    balances: defaultdict[str, Cost] = defaultdict(Cost)
    last: tuple[int, str] | None = None
    charges, single_order = 0, False
    for row in connection.execute(since):
        if not chain.digest_is_right(row):
            raise _changed(data_set, row.seq)
        charge = chain.parsed(row)
        if charge.kind in SUMMARIES:
            balances.update({account: Cost(*map(int, cost)) for account, cost in charge.body["balances"].items()})
        elif charge.body.get("follows", ()) != (list(last) if last else None):
            raise _changed(data_set, row.seq)
        else:
            charges += 1
            for account in chain.accounts_of(charge.body):
                balances[account] += chain.charge_of(charge)
        single_order = single_order or charge.body.get("single_order", False)
        last = (charge.seq, charge.digest)
    _check_is_followed(connection, data_set, last)
    return Spending(balances=dict(balances), last=last, charges=charges, single_order=single_order)


def append(connection: sa.Connection, kind: str, data_set: str, body: dict[str, Any], run: str, before: Spending) -> None:
    """Append a charging entry, and a checkpoint where one is due.

    Parameters
    ----------
    connection
        Of the caller's transaction, which holds the write lock.
    kind, data_set, body, run
        Of the entry.
    before
        What `recompute` found in the same transaction.
    """
    charge = chain.append(connection, kind, data_set, {**body, "follows": before.last}, run)
    if before.charges + 1 < CHARGES_BETWEEN:
        return
    balances = defaultdict(Cost, before.balances)
    for account in chain.accounts_of(body):
        balances[account] += chain.charge_of(charge)
    append_checkpoint(connection, data_set, balances, before.single_order or body.get("single_order", False), (charge.seq, charge.digest))


def append_checkpoint(
    connection: sa.Connection, data_set: str, balances: dict[str, Cost], single_order: bool, follows: tuple[int, str]
) -> None:
    """Record what a data set has spent so far."""
    stored = {account: [str(cost.amount), str(cost.mass)] for account, cost in balances.items()}
    chain.append(connection, "checkpoint", data_set, {"balances": stored, "single_order": single_order, "follows": follows})


def check_balances(data_set: str, accounts: Sequence[str], kept: dict[str, Cost], spending: Spending) -> None:
    """Refuse to spend where the table of balances is not what the chain adds to.

    Raises
    ------
    LedgerError
        Naming the first block that differs.
    """
    for account in accounts:
        if kept.get(account, Cost()) != spending.balances.get(account, Cost()):
            raise LedgerError(
                f"the balance of {data_set!r} (block {account}) is not what its entries add to: it was changed by hand. Nothing was read "
                "or charged; restore the ledger from a backup (`nightfit ledger verify` lists what is wrong)"
            )


def _check_is_followed(connection: sa.Connection, data_set: str, last: tuple[int, str] | None) -> None:
    """The entry after a data set's last charge, if there is one, carries the charge's digest."""
    if last is None:
        return
    follower = connection.execute(sa.select(tables.entry.c.previous).where(tables.entry.c.seq == last[0] + 1)).scalar()
    if follower not in (None, last[1]):
        raise _changed(data_set, last[0])


def _changed(data_set: str, seq: int) -> LedgerError:
    return LedgerError(
        f"a charge of {data_set!r} was edited or removed by hand (at entry {seq}). Nothing was read or charged; restore the ledger from a "
        "backup (`nightfit ledger verify` lists what is wrong)"
    )
