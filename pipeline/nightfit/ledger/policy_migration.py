"""Another unit or another division of a data set that was spent on already: what was spent counts for everybody. Imports sqlalchemy.

A person may have been in every run, and so may a record of a data set that was one block. So everybody starts with what all runs cost
together.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from nightfit.ledger import balances, chain, checkpoints, files, policies, refunds, tables
from nightfit.ledger.database import durable
from nightfit.ledger.errors import LedgerError
from nightfit.ledger.policy import ALL, Policy, buckets_of
from nightfit.ledger.store import Ledger
from nightfit.ledger.windows import bucket_names
from nightfit.privacy.accounting import UNIT, Cost, Currency, CurrencyError, epsilon_of
from nightfit.privacy.events import event_from_dict
from nightfit.types import RECORD

YEAR = re.compile(r" in \d+$")  # how the account of a renewed budget ends
MOST_ROWS = 10_000  # of a person: the square of more is beyond any lifetime budget


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """What the policy of a data set becomes.

    Parameters
    ----------
    data_set
        Its name.
    unit
        Whom it protects from now on: record, or the column of a person.
    blocks
        How it is divided from now on.
    row_id
        For hash:N buckets of records: the column that identifies a record for life.
    rows
        If records become persons: the largest number of rows that any person has in all that was ever read, as is publicly known.
    existing
        If blocks become hive folders: all that exist now.
    homes
        If blocks become hive folders: the folder of each file, by its fingerprint.
    """

    data_set: str
    unit: str
    blocks: str
    row_id: str | None = None
    rows: int | None = None
    existing: tuple[str, ...] = ()
    homes: Mapping[str, str] = field(default_factory=dict)

    @property
    def hive(self) -> bool:
        """Whether blocks become hive folders."""
        return self.blocks != ALL and buckets_of(self.blocks) is None


def migrate(ledger: Ledger, migration: Migration) -> dict[str, Cost]:
    """Change a policy in one transaction.

    Guarantee: a unit's cost under the new policy is at most what its block starts with and what is charged afterwards. Let c_i be what run
    i was charged: no record meets more of it. A person with at most k rows is k records that change one after the other, so run i costs the
    person at most k^2 c_i (mu^2 and rho; Bun and Steinke 2016, prop. 1.9), and all runs sum k^2 c_i, in whichever blocks the rows were.
    A record without a new unit was in some block of the old division, or in several that a run read: at most sum c_i. Every new block
    starts with that sum. Masses are those of the events, as each proves it. Broken by the tests in tests/ledger/test_policy_migration.py.

    Returns
    -------
    dict
        What every block starts with; by year if the budget is renewed.

    Raises
    ------
    LedgerError
        With the reason; nothing is changed.
    """
    homes = {ledger.identity.keyed("file", name): home for name, home in migration.homes.items()}
    return durable(ledger.engine, lambda connection: _migrate(connection, migration, homes))


def _migrate(connection: sa.Connection, migration: Migration, homes: Mapping[str, str]) -> dict[str, Cost]:
    earlier = policies.read(connection, migration.data_set)
    if earlier is None:
        raise LedgerError(f"the ledger has no policy for {migration.data_set!r}: there is nothing to migrate; `nightfit ledger show` lists")
    policies.check_recorded(connection, earlier)
    policy = _checked(earlier, migration)
    spending = checkpoints.recompute(connection, migration.data_set)
    kept = balances.read_all(connection, migration.data_set)
    checkpoints.check_balances(migration.data_set, sorted({*kept, *spending.balances}), kept, spending)
    _check_nothing_is_open(connection, migration.data_set, spending.single_order)
    charging = chain.read(connection, tables.entry.c.data_set == migration.data_set, tables.entry.c.kind.in_((*checkpoints.CHARGING,)))
    try:
        started = totals(charging, earlier, migration.rows)
    except CurrencyError as error:
        raise LedgerError(f"{migration.data_set}: {error}: this data set cannot be migrated") from None
    _check_fits(policy, started)
    found = files.rehome(connection, migration.data_set, homes)
    if migration.hive and charging and not found:
        raise LedgerError(
            f"none of the files that were charged for {migration.data_set!r} lies under this path: name the configuration that reads them"
        )
    begun = starting_balances(starting_blocks(migration.blocks, migration.existing), started)
    body = {
        "before": earlier.as_dict(),
        "after": policy.as_dict(),
        "rows": migration.rows,
        "totals": _stored(started),
        "existing": list(migration.existing),
        "balances": _stored(begun),
        "files": found,
        "single_order": False,
        "follows": spending.last,
    }
    chain.append(connection, "migrated", migration.data_set, body)
    balances.replace_all(connection, migration.data_set, begun)
    policies.record(connection, policy, {})
    return started


def totals(charging: Iterable[chain.Entry], policy: Policy, rows: int | None) -> dict[str, Cost]:
    """What all runs cost one unit together, by the year of the account ("" if budgets are not renewed).

    Parameters
    ----------
    charging
        Every entry of the data set that reserved, refunded or migrated, oldest first.
    policy
        Under which they were charged.
    rows
        Of a person, if records become persons; None if the unit stays.
    """
    found: defaultdict[str, Cost] = defaultdict(Cost)
    runs: dict[str | None, tuple[chain.Entry, Cost]] = {}
    for entry in charging:
        if entry.kind == "migrated" and rows is None:  # a person's runs before that are in it, at a person's price
            runs = {}
            found = defaultdict(Cost, read_costs(entry.body["totals"]))
        elif entry.kind in ("reserved", "abandoned"):
            first, cost = runs.get(entry.run, (entry, Cost()))
            runs[entry.run] = first, cost + chain.charge_of(entry)
    for reserved, charged in runs.values():
        if charged != Cost():
            found[year_of(reserved, policy)] += charged if rows is None else _of_person(reserved, charged, policy.currency, rows)
    return dict(found)


def starting_blocks(blocks: str, existing: Sequence[str]) -> tuple[str, ...]:
    """Every block of a division when it is made: all buckets, or the hive folders that exist."""
    count = buckets_of(blocks)
    return bucket_names(count) if count is not None else (ALL,) if blocks == ALL else tuple(existing)


def starting_balances(blocks: Sequence[str], started: Mapping[str, Cost]) -> dict[str, Cost]:
    """The balance of every account that a migration makes."""
    return {f"{block}{year}": cost for year, cost in started.items() for block in blocks}


def year_of(reserved: chain.Entry, policy: Policy) -> str:
    """in 2026, if the budget of its accounts is renewed; all accounts of an entry have the same."""
    match = YEAR.search(chain.accounts_of(reserved.body)[0]) if policy.per == "year" else None
    return match[0] if match else ""


def read_costs(stored: Mapping[str, Sequence[str]]) -> dict[str, Cost]:
    """Costs by account, from their stored form."""
    return {account: Cost(*map(int, cost)) for account, cost in stored.items()}


def _stored(costs: Mapping[str, Cost]) -> dict[str, list[str]]:
    return {account: [str(cost.amount), str(cost.mass)] for account, cost in costs.items()}


def _of_person(reserved: chain.Entry, charged: Cost, currency: Currency, rows: int) -> Cost:
    """rows^2 times the amount, and the masses of all events: rows of one person may lie in several parts, so no part's maximum serves."""
    events = [event_from_dict(stored) for stored in reserved.body["events"]]
    mass = sum(math.ceil(event.mass_of_group(currency, rows) / UNIT) for event in events)
    return Cost(rows**2 * charged.amount, max(mass, charged.mass))


def _checked(earlier: Policy, migration: Migration) -> Policy:
    """The new policy; refused if it is none, or no migration leads there."""
    becomes_person = earlier.unit == RECORD and migration.unit != RECORD
    if migration.unit != earlier.unit and not becomes_person:
        raise LedgerError(
            f"{migration.data_set} protects one {earlier.unit}: only records can become persons, because what was promised to a "
            f"{earlier.unit} cannot be taken back"
        )
    if migration.unit == "label" or earlier.currency is Currency.PURE:
        raise LedgerError(f"{migration.data_set} has the policy {earlier.describe()}: local reports protect records only")
    rows = migration.rows
    if becomes_person != (rows is not None) or (rows is not None and not 1 <= rows <= MOST_ROWS):
        raise LedgerError(
            f"state how many rows one person has at most in all that was ever read, as is public (--rows-per-person, 1 to {MOST_ROWS:,})"
            if becomes_person
            else "the number of rows per person is for records that become persons: leave it out"
        )
    row_id = migration.row_id if migration.blocks != earlier.blocks or earlier.row_id is None else (migration.row_id or earlier.row_id)
    policy = replace(
        earlier,
        unit=migration.unit,
        blocks=migration.blocks,
        row_id=row_id if migration.unit == RECORD else None,
        earlier_rows=earlier.earlier_rows if rows is None else rows,
    )
    try:
        policy.check()
    except ValueError as error:
        raise LedgerError(str(error)) from None
    if (policy.unit, policy.blocks) == (earlier.unit, earlier.blocks):
        raise LedgerError(f"{migration.data_set} has the policy {earlier.describe()} already: neither unit nor blocks would change")
    if migration.hive and not migration.existing:
        raise LedgerError(f"there is no folder {migration.blocks}=... under the path of the data: nothing could be charged")
    return policy


def _check_nothing_is_open(connection: sa.Connection, data_set: str, single_order: bool) -> None:
    if single_order:
        raise LedgerError(
            f"{data_set} was spent on by Poisson samples, a repeated search or a discovery of levels, of which nothing is proved for a "
            "group of records or another division: it cannot be migrated"
        )
    waiting = refunds.unfinished(connection, data_set)
    if waiting:
        raise LedgerError(
            f"{data_set} has unfinished runs: {', '.join(waiting)}. Finish them by running their refits again, or give them up with "
            "`nightfit ledger abandon RUN`: they were planned for the policy as it is"
        )


def _check_fits(policy: Policy, started: Mapping[str, Cost]) -> None:
    """Refuse a promise that is broken already."""
    for cost in started.values():
        if not cost.fits(policy.limit()):
            spent = epsilon_of(cost, policy.delta, policy.currency)
            raise LedgerError(
                f"what was released so far costs one {policy.unit} epsilon {spent:.4g} at delta {policy.delta:g}, and the policy promises "
                f"{policy.epsilon:g}: nothing is changed. Widen the policy first, with a recorded reason (`nightfit ledger policy set "
                "--override REASON`), or begin a new data set with new records"
            )
