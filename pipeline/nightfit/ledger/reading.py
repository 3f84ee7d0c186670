"""What can be read of an opened ledger; nothing here changes it. Imports sqlalchemy."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import balances, chain, checkpoints, database, policies, refunds, releases, reservations, runs, tables
from nightfit.ledger.database import durable
from nightfit.ledger.identity import Identity
from nightfit.ledger.lock import Fence
from nightfit.ledger.policy import ALL, Policy
from nightfit.ledger.receipt import Claim
from nightfit.ledger.releases import ReleaseCheck
from nightfit.ledger.runs import RunRecord
from nightfit.privacy.accounting import Cost


class ReadableLedger:
    """Policies, balances and runs of an opened ledger.

    Parameters
    ----------
    url
        An SQLAlchemy URL of SQLite or PostgreSQL.
    engine
        Connected to it.
    identity
        The ledger's id and key.
    """

    def __init__(self, url: str, engine: sa.Engine, identity: Identity) -> None:
        self.url, self.engine, self.identity, self.fence = url, engine, identity, Fence()

    @property
    def ledger_id(self) -> str:
        """Random; in every receipt."""
        return self.identity.ledger_id

    @property
    def place(self) -> str:
        """Its URL, without a password."""
        return database.shown(self.url)

    @property
    def path(self) -> Path | None:
        """Its file; None for a database."""
        return database.path_of(self.url)

    def durability(self) -> str:
        """What may lose a committed charge in a power cut; empty if nothing does."""
        return durable(self.engine, database.weakness)

    def bucket_key(self, data_set: str) -> bytes:
        """The key by which a data set's ids are hashed to buckets: one for life, because a unit must stay in its bucket."""
        return bytes.fromhex(self.identity.keyed("buckets", data_set))[:16]

    def division_key(self, data_set: str, run: str | None = None) -> bytes:
        """The key by which units are divided into those that are fitted on and those that are held out: the data set's, for life.

        With a run it is that run's own, for reservations that renumber; runs that share answers about rows divide as the one that paid.
        """
        return bytes.fromhex(self.identity.keyed("division", data_set, *([] if run is None else [run])))[:16]

    def policies(self) -> dict[str, Policy]:
        """All policies, by data set."""
        return durable(self.engine, policies.read_all)

    def spent(self, data_set: str, block: str = ALL) -> Cost:
        """What a block has spent, in the current year if its policy is renewed."""
        return self.spent_by_block(data_set, [block])[block]

    def spent_by_block(self, data_set: str, blocks: Sequence[str]) -> dict[str, Cost]:
        """What each of the blocks has spent, in the current year if their policy is renewed."""

        def read(connection: sa.Connection) -> dict[str, Cost]:
            policy = policies.read(connection, data_set)
            charged = balances.read_all(connection, data_set) if policy is not None and policy.per == "year" else {}
            accounts = reservations.accounts_of(policy, blocks, charged)
            kept = balances.read(connection, data_set, accounts)
            return {block: kept.get(account, Cost()) for block, account in zip(blocks, accounts, strict=True)}

        return durable(self.engine, read)

    def accounts(self, data_set: str) -> dict[str, Cost]:
        """Every account of a data set that was ever charged: its blocks, with the year if they are renewed."""
        return durable(self.engine, lambda connection: balances.read_all(connection, data_set))

    def single_order(self, data_set: str) -> bool:
        """Whether Poisson samples or repeated attempts were charged: their price holds at the policy's one Renyi order only."""
        return durable(self.engine, lambda connection: checkpoints.recompute(connection, data_set).single_order)

    def runs(self) -> list[dict[str, Any]]:
        """Every run, oldest first, as rows of the table."""
        return durable(self.engine, runs.read_all)

    def run_record(self, run_id: str) -> RunRecord:
        """The run of an id.

        Raises
        ------
        LedgerError
            If there is none.
        """
        return durable(self.engine, lambda connection: runs.record_of(connection, runs.read(connection, run_id)))

    def taking_from(self, run_id: str) -> list[RunRecord]:
        """The runs that take answers which this one pays for."""
        return durable(self.engine, lambda connection: runs.taking_from(connection, run_id))

    def latest_run(self, model: str, data_set: str, window: str) -> RunRecord | None:
        """The latest run of a model on a window, unless it was abandoned."""

        def read(connection: sa.Connection) -> RunRecord | None:
            row = runs.latest(connection, reservations.window_key(self.identity, model, data_set, window))
            return runs.record_of(connection, row) if row is not None and row.state != "abandoned" else None

        return durable(self.engine, read)

    def newest(self) -> tuple[int, str]:
        """Number and digest of the last entry."""
        return durable(self.engine, chain.end)

    def holds(self, seq: int, digest: str) -> bool:
        """Whether the chain has this entry: a receipt that is not held was issued by another ledger or a later copy of this one."""
        entry = sa.select(tables.entry.c.seq).filter_by(seq=seq, digest=digest)
        return durable(self.engine, lambda connection: connection.execute(entry).first() is not None)

    def check_release(self, claim: Claim) -> ReleaseCheck:
        """Compare a release with what its run paid for."""
        return durable(self.engine, lambda connection: releases.check(connection, self.ledger_id, claim))

    def unasked_runs(self, model: str, data_set: str) -> list[str]:
        """Runs of a model that reserved and have asked nothing, oldest first."""
        return durable(self.engine, partial(refunds.unasked, model=model, data_set=data_set))
