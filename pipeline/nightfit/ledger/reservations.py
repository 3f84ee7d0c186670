"""The transaction that reserves: one plan's whole cost is charged to all its blocks, or the run that did so before is found.

Imports sqlalchemy.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import balances, chain, checkpoints, files, policies, refunds, runs, sharing
from nightfit.ledger.errors import DoesNotFit, LedgerError
from nightfit.ledger.identity import Identity
from nightfit.ledger.policy import ALL, Policy, buckets_of
from nightfit.ledger.reservation import Reservation, Shared, check_fits_policy, price, refusal
from nightfit.ledger.runs import RunRow
from nightfit.privacy.accounting import Cost


def reserve(
    connection: sa.Connection, identity: Identity, reservation: Reservation, *, again: bool, resume: str | None, first: Policy | None = None
) -> RunRow:
    """See `Ledger.reserve`; inside the caller's transaction, so that a refusal leaves no policy behind."""
    policy = policies.read(connection, reservation.data_set)
    if policy is None and first is not None:
        first.check()
        policies.change(connection, first, None)
        policy = policies.read(connection, first.data_set)
    if policy is None:
        raise LedgerError(
            f"the ledger has no lifetime budget for {reservation.data_set!r}: add `privacy: lifetime:` to the configuration, or set one "
            f"with `nightfit ledger policy set {reservation.data_set} --epsilon 8 --delta 1e-5 "
            f"--adjacency {reservation.events[0].adjacency}`"
        )
    policies.check_recorded(connection, policy)
    check_fits_policy(reservation, policy)
    homes = _homes(identity, reservation, policy)
    new_files = files.unknown(connection, reservation.data_set, homes)
    if resume is not None:
        return _resumed_by_id(connection, identity, reservation, resume)
    latest = runs.latest(connection, window_key(identity, reservation.model, reservation.data_set, reservation.window))
    if latest is not None and latest.state != "abandoned" and not (latest.state == "finished" and again):
        return _unchanged(connection, identity, reservation, latest)
    sharing.check(connection, identity, reservation)
    files.record(connection, reservation.data_set, homes, new_files)
    row = _new_row(connection, identity, reservation, latest.counter + 1 if latest else 0)
    _charge(connection, reservation, policy, row, [[name, homes[name]] for name in new_files])
    runs.insert(connection, row)
    return row


def reserve_together(
    connection: sa.Connection,
    identity: Identity,
    shared: Reservation,
    sharing_it: Sequence[Reservation],
    *,
    again: bool,
    first: Policy | None = None,
) -> list[RunRow]:
    """The run of the shared queries, then the runs of all that share them, inside one transaction: all are charged, or none is."""
    paying = reserve(connection, identity, shared, again=again, resume=None, first=first)
    taking = [replace(one, shared=Shared(run=paying.run, events=shared.events)) for one in sharing_it]
    return [paying, *(reserve(connection, identity, one, again=again, resume=None, first=first) for one in taking)]


def tried(connection: sa.Connection, identity: Identity, reservation: Reservation, *, first: Policy | None = None) -> None:
    """Raise what `reserve` would raise after a refit has given back what earlier runs of the model reserved and did not ask."""
    undone = connection.begin_nested()
    _give_back(connection, identity, reservation)
    reserve(connection, identity, reservation, again=True, resume=None, first=first)
    undone.rollback()


def tried_together(
    connection: sa.Connection, identity: Identity, shared: Reservation, sharing_it: Sequence[Reservation], *, first: Policy | None = None
) -> None:
    """The same for `reserve_together`."""
    undone = connection.begin_nested()
    for one in (shared, *sharing_it):
        _give_back(connection, identity, one)
    reserve_together(connection, identity, shared, sharing_it, again=True, first=first)
    undone.rollback()


def _give_back(connection: sa.Connection, identity: Identity, reservation: Reservation) -> None:
    """What runs of a model on other windows reserved and did not ask."""
    latest = runs.latest(connection, window_key(identity, reservation.model, reservation.data_set, reservation.window))
    for run_id in refunds.unasked(connection, reservation.model, reservation.data_set):
        if latest is None or run_id != latest.run:
            refunds.abandon_unasked(connection, run_id, token="")


def window_key(identity: Identity, model: str, data_set: str, window: str) -> str:
    """By which the runs of a model on a window are found."""
    return identity.keyed("run", model, data_set, window)


def accounts_of(policy: Policy | None, blocks: Sequence[str], charged: Iterable[str]) -> list[str]:
    """The accounts of blocks: their own names, with the year if the budget is renewed.

    Parameters
    ----------
    policy
        Of the data set.
    blocks
        Of the data set.
    charged
        Every account that was ever charged: a clock that is set back does not reopen a year that has ended.
    """
    if policy is None or policy.per == "life":
        return list(blocks)
    years = [int(match[1]) for name in charged if (match := re.search(r" in (\d+)$", name))]
    year = max([datetime.now(UTC).year, *years])
    return [policy.account(block, year) for block in blocks]


def _homes(identity: Identity, reservation: Reservation, policy: Policy) -> dict[str, str]:
    """The hive block of each keyed fingerprint; empty where blocks are not folders."""
    hive = policy.blocks != ALL and buckets_of(policy.blocks) is None
    homes = reservation.homes if hive and reservation.homes else ("",) * len(reservation.files)
    return {identity.keyed("file", name): home for name, home in zip(reservation.files, homes, strict=True)}


def _charge(connection: sa.Connection, reservation: Reservation, policy: Policy, row: RunRow, new_files: list[list[str]]) -> None:
    """Charge every account, or refuse.

    Guarantee: no account's sum exceeds the policy's limit: the sum is recomputed from the chain and compared, in whole units, while the
    write lock is held, and the policy is the one that the chain recorded last. Broken by
    test_the_last_unit_of_a_budget_is_granted_and_one_unit_more_is_refused, test_a_reservation_is_refused_where_a_balance_was_edited and
    test_a_reservation_is_refused_where_a_policy_was_edited.
    """
    needed, limit = price(reservation, policy), policy.limit()
    spending = checkpoints.recompute(connection, reservation.data_set)
    accounts = accounts_of(policy, reservation.blocks, spending.balances)
    kept = balances.read(connection, reservation.data_set, accounts)
    checkpoints.check_balances(reservation.data_set, accounts, kept, spending)
    for block, account in zip(reservation.blocks, accounts, strict=True):
        spent = spending.balances.get(account, Cost())
        if not (spent + needed).fits(limit):
            order = policy.renyi_order if reservation.single_order or spending.single_order else None
            waiting = refunds.unfinished(connection, reservation.data_set)
            raise DoesNotFit(partial(refusal, reservation, policy, block, spent, needed, order, waiting))
    balances.charge(connection, reservation.data_set, accounts, kept, needed)
    body = _body(reservation, policy, row, needed, accounts, new_files)
    checkpoints.append(connection, "reserved", reservation.data_set, body, row.run, spending)


def _new_row(connection: sa.Connection, identity: Identity, reservation: Reservation, counter: int) -> RunRow:
    seq, _ = chain.end(connection)
    return RunRow(
        run=f"{reservation.model}-{secrets.token_hex(4)}",
        seq=seq + 1,
        key=window_key(identity, reservation.model, reservation.data_set, reservation.window),
        counter=counter,
        secret=secrets.token_hex(32),
        model=reservation.model,
        data_set=reservation.data_set,
        plan=reservation.plan,
        manifest=identity.keyed("manifest", reservation.manifest),
        manifest_id=secrets.token_hex(8),
        private=reservation.private,
        state="reserved",
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _body(
    reservation: Reservation, policy: Policy, row: RunRow, needed: Cost, accounts: list[str], new_files: list[list[str]]
) -> dict[str, Any]:
    """Of the `reserved` entry."""
    return {
        "cost": [str(needed.amount), str(needed.mass)],
        "currency": str(policy.currency),
        "blocks": list(reservation.blocks),
        "accounts": accounts,
        "plan": reservation.plan,
        "private": reservation.private,
        "started": row.started,
        "events": [event.as_dict() for event in reservation.events],
        **({} if reservation.shared is None else {"shared": sharing.as_dict(reservation.shared)}),
        "single_order": reservation.single_order,
        "files": new_files,
        "row": row.digest(),
        "secret": chain.digest_of_secret(row.secret),
    }


def _resumed_by_id(connection: sa.Connection, identity: Identity, reservation: Reservation, run_id: str) -> RunRow:
    row = runs.read(connection, run_id)
    if (row.model, row.data_set) != (reservation.model, reservation.data_set):
        raise LedgerError(
            f"run {run_id} is of the model {row.model} on {row.data_set}, "
            f"this configuration of {reservation.model} on {reservation.data_set}"
        )
    if row.state == "abandoned":
        raise LedgerError(f"run {run_id} is abandoned: it cannot be resumed; run the refit without --resume")
    return _unchanged(connection, identity, reservation, row)


def _unchanged(connection: sa.Connection, identity: Identity, reservation: Reservation, row: RunRow) -> RunRow:
    """The run, if it is that of the reservation; refused if plan or data changed since."""
    same_data = row.manifest == identity.keyed("manifest", reservation.manifest)
    same_blocks = tuple(runs.reservation_of(connection, row.run)["blocks"]) == reservation.blocks
    if row.plan == reservation.plan and row.private == reservation.private and same_data and same_blocks:
        return row
    changed = "plan" if same_data and same_blocks else "data"
    if row.state == "finished":
        raise LedgerError(f"run {row.run} of this window is finished and the {changed} changed since: to spend on it once more use --again")
    raise LedgerError(
        f"run {row.run} of this window is unfinished and the {changed} changed since: restore what it had to resume it, "
        f"or give it up with `nightfit ledger abandon {row.run}` (refunds only queries never asked)"
    )
