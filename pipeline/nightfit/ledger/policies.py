"""The table of policies: reading one, and the rules by which it changes. Imports sqlalchemy."""

import json
from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa

from nightfit.ledger import balances, chain, checkpoints, tables
from nightfit.ledger.errors import LedgerError
from nightfit.ledger.policy import Policy
from nightfit.privacy.accounting import Cost


def read(connection: sa.Connection, data_set: str) -> Policy | None:
    """The policy of a data set, if it has one."""
    body = connection.execute(sa.select(tables.policy.c.body).where(tables.policy.c.data_set == data_set)).scalar()
    return Policy.from_dict(json.loads(body)) if body else None


def check_recorded(connection: sa.Connection, policy: Policy) -> None:
    """Refuse a policy that is not the one that the chain recorded last.

    Raises
    ------
    LedgerError
        If the table of policies, or the entry, was changed by hand.
    """
    ours = (tables.entry.c.data_set == policy.data_set) & (tables.entry.c.kind == "policy")
    row = connection.execute(sa.select(tables.entry).where(ours).order_by(tables.entry.c.seq.desc()).limit(1)).first()
    if row is None or not chain.digest_is_right(row) or Policy.from_dict(chain.parsed(row).body) != policy:
        raise LedgerError(
            f"the policy of {policy.data_set!r} is not the one that was recorded: it was changed by hand. Nothing was read or charged; "
            "restore the ledger from a backup (`nightfit ledger verify` lists what is wrong), and change a policy with "
            "`nightfit ledger policy set`"
        )


def read_all(connection: sa.Connection) -> dict[str, Policy]:
    """All policies, by data set."""
    rows = connection.execute(sa.select(tables.policy).order_by(tables.policy.c.data_set))
    return {row.data_set: Policy.from_dict(json.loads(row.body)) for row in rows}


def change(connection: sa.Connection, policy: Policy, override: str | None) -> None:
    """Set or change the policy of a data set, inside the caller's transaction.

    Raises
    ------
    LedgerError
        If what was spent means nothing under the new policy, or it loosens the earlier one without a reason.
    """
    earlier = read(connection, policy.data_set)
    if earlier is not None:
        policy = replace(policy, earlier_rows=earlier.earlier_rows)
        if replace(earlier, lattice_share=None) == replace(policy, lattice_share=None):
            return
    policy = policy.made()
    if earlier is not None:
        _check_change(connection, earlier, policy, override)
    record(connection, policy, {"override": override} if override else {})


def record(connection: sa.Connection, policy: Policy, more: Mapping[str, str]) -> None:
    """Write a policy, and what else its entry says, inside the caller's transaction."""
    chain.append(connection, "policy", policy.data_set, {**policy.as_dict(), **more})
    connection.execute(tables.policy.delete().where(tables.policy.c.data_set == policy.data_set))
    connection.execute(tables.policy.insert().values(data_set=policy.data_set, body=json.dumps(policy.as_dict())))


def _check_change(connection: sa.Connection, earlier: Policy, policy: Policy, override: str | None) -> None:
    data_set = policy.data_set
    spent = any(cost != Cost() for cost in balances.read_all(connection, data_set).values())
    if (policy.kind != earlier.kind or policy.renames_buckets(earlier)) and spent:
        raise LedgerError(
            f"{data_set} was spent on under {earlier.describe()}, and what was spent means nothing under {policy.describe()}: "
            "only epsilon and delta of it can change here; `nightfit ledger policy migrate` takes records to persons and makes other blocks"
        )
    if checkpoints.recompute(connection, data_set).single_order:
        raise LedgerError(
            f"{data_set} was spent on by Poisson samples or a repeated search, which were priced at the Renyi order of "
            f"{earlier.describe()}: this policy cannot be changed any more"
        )
    if policy.loosens(earlier) and not override:
        raise LedgerError(
            f"{data_set} has the policy {earlier.describe()}; {policy.describe()} would loosen it: "
            "a promise once made is kept; a recorded override (--override REASON) is the only way"
        )
