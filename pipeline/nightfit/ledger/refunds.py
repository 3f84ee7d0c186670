"""Giving up a run, and what it gives back: the queries that were never asked. Imports sqlalchemy."""

from typing import Any

import sqlalchemy as sa

from nightfit.ledger import balances, chain, checkpoints, policies, runs, tables
from nightfit.ledger.errors import LedgerError
from nightfit.privacy.accounting import Cost
from nightfit.privacy.events import event_from_dict


def abandon(connection: sa.Connection, run_id: str, token: str) -> Cost:
    """Give up an unfinished run, inside the caller's transaction.

    Parameters
    ----------
    connection
        Of the transaction.
    run_id
        Of the run.
    token
        Random, of this call: a retried transaction recognises its own entry by it.

    Returns
    -------
    Cost
        The refund: what was reserved, less the cost of the queries that were asked.

    Raises
    ------
    LedgerError
        If the run is not unfinished, or its data set's balances were changed by hand.
    """
    row = runs.read(connection, run_id)
    abandoned = chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "abandoned")
    if abandoned and abandoned[0].body.get("token") == token:
        return Cost() - chain.charge_of(abandoned[0])  # by this call, before the connection was cut
    if row.state != "reserved":
        raise LedgerError(f"run {run_id} is {row.state}: only an unfinished run can be abandoned")
    reserved = runs.reservation_of(connection, run_id)
    refund = _refund(connection, row, reserved)
    accounts = chain.accounts_of(reserved)
    before, spending = balances.read(connection, row.data_set, accounts), checkpoints.recompute(connection, row.data_set)
    checkpoints.check_balances(row.data_set, accounts, before, spending)
    balances.charge(connection, row.data_set, accounts, before, Cost() - refund)
    body = {"refund": [str(refund.amount), str(refund.mass)], "accounts": accounts, "token": token}
    checkpoints.append(connection, "abandoned", row.data_set, body, run_id, spending)
    runs.close(connection, run_id, "abandoned")
    return refund


def _refund(connection: sa.Connection, row: runs.RunRow, reserved: dict[str, Any]) -> Cost:
    policy = policies.read(connection, row.data_set)
    if policy is None:
        return Cost()
    asked = {entry.label for entry in _asked(connection, row.run)}
    used = [event for stored in reserved["events"] if (event := event_from_dict(stored)).label in asked]
    refund = Cost(*map(int, reserved["cost"])) - policy.cost(used)
    return Cost(max(0, refund.amount), max(0, refund.mass))  # an earlier version may have reserved less for parts than they cost now


def abandon_unasked(connection: sa.Connection, run_id: str, token: str) -> bool:
    """Give up a run that has asked nothing, and give its whole cost back; whether it did. Inside the caller's transaction.

    Guarantee: `asked` and this refund exclude each other. Both look at the run's state and entries and write while the write lock is held:
    after the refund the run is abandoned, and `Run.asked` refuses; after `asked` there is nothing to give back here. Broken by
    test_a_query_is_refused_after_the_refund_and_a_refund_after_the_query.
    """
    if runs.read(connection, run_id).state == "finished" or _asked(connection, run_id):
        return False
    abandon(connection, run_id, token)
    return True


def unasked(connection: sa.Connection, model: str, data_set: str) -> list[str]:
    """Runs of a model that reserved and have asked nothing, oldest first."""
    here = (tables.run.c.model == model) & (tables.run.c.data_set == data_set) & (tables.run.c.state == "reserved")
    found = connection.execute(sa.select(tables.run.c.run).where(here).order_by(tables.run.c.seq)).scalars()
    return [run_id for run_id in found if not _asked(connection, run_id)]


def unfinished(connection: sa.Connection, data_set: str) -> dict[str, Cost]:
    """Reserved runs of a data set that have not finished, and what abandoning each would give back."""
    here = (tables.run.c.data_set == data_set) & (tables.run.c.state == "reserved")
    found = connection.execute(sa.select(tables.run.c.run).where(here).order_by(tables.run.c.seq)).scalars().all()
    return {one: _refund(connection, runs.read(connection, one), runs.reservation_of(connection, one)) for one in found}


def _asked(connection: sa.Connection, run_id: str) -> list[chain.Entry]:
    return chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "asked")
