"""The ledger: the one object that others learn. Imports sqlalchemy."""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from nightfit.ledger import (
    answers,
    database,
    opening,
    policies,
    refunds,
    reservations,
    runs,
    sharing,
)
from nightfit.ledger.database import durable
from nightfit.ledger.errors import BudgetExceeded, DoesNotFit
from nightfit.ledger.lock import driver_lock
from nightfit.ledger.notebook import as_html
from nightfit.ledger.policy import Policy
from nightfit.ledger.reading import ReadableLedger
from nightfit.ledger.reservation import Reservation
from nightfit.ledger.run import Run
from nightfit.ledger.runs import RunRow
from nightfit.privacy.accounting import Cost

T = TypeVar("T")


class Ledger(ReadableLedger):
    """An opened ledger: policies, reservations and balances of data sets.

    Made by `Ledger.create` or `Ledger.open`. Every change is one durable transaction that appends to the chain.

    Parameters
    ----------
    url
        An SQLAlchemy URL of SQLite or PostgreSQL.
    engine
        Connected to it.
    identity
        The ledger's id and key.
    """

    @classmethod
    def create(cls, url: str) -> "Ledger":
        """Make a new, empty ledger.

        Raises
        ------
        LedgerError
            Where one exists: a ledger is never overwritten.
        """
        return cls(url, *opening.made(url))

    @classmethod
    def open(cls, url: str) -> "Ledger":
        """Open an existing ledger; a missing one is never made, because a lost ledger must not become a fresh budget.

        Raises
        ------
        LedgerError
            If there is none, or it has another format.
        """
        return cls(url, *opening.opened(url))

    @classmethod
    def upgrade(cls, url: str) -> tuple[int, int]:
        """Bring a ledger of an older format to the newest, in one transaction.

        Returns
        -------
        tuple of int
            The formats before and after.

        Raises
        ------
        LedgerError
            If there is no ledger, or its format is newer than this version knows.
        """
        return opening.upgraded(url)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_html(self)

    def set_policy(self, policy: Policy, override: str | None = None) -> None:
        """Fix a data set's lifetime budget.

        Parameters
        ----------
        policy
            The budget. An existing one can be tightened.
        override
            The reason for which an existing one is loosened; it is recorded.

        Raises
        ------
        ValueError
            If this is no policy.
        LedgerError
            If it loosens the earlier one without a reason, or what was spent means nothing under it.
        """
        policy.check()
        durable(self.engine, lambda connection: policies.change(connection, policy, override))

    def reserve(self, reservation: Reservation, *, again: bool = False, resume: str | None = None, first: Policy | None = None) -> Run:
        """Set the whole cost of a plan aside in one transaction over all its blocks, or find the run that did so before.

        Parameters
        ----------
        reservation
            What the plan asks for.
        again
            Whether a finished run of the same window is followed by a new one, which pays in full.
        resume
            The id of the run to resume; without it, the latest of the window if it is not abandoned.
        first
            The policy of a data set that has none; it is kept if the reservation is granted.

        Raises
        ------
        BudgetExceeded
            If a block's budget does not hold the cost. Nothing was charged.
        LedgerError
            If the policy does not allow it, plan or data changed since the run, or the ledger was changed by hand.

        Notes
        -----
        Guarantee: a block's sum never exceeds its policy, because it is compared and raised while the write lock is held.
        Broken by test_processes_racing_for_the_last_budget_get_exactly_what_fits.
        """

        def kept(connection: sa.Connection) -> tuple[RunRow, dict[str, Any]]:
            row = reservations.reserve(connection, self.identity, reservation, again=again, resume=resume, first=first)
            return row, runs.reservation_of(connection, row.run)

        return self._run(*self._granted(kept), reservation)

    def reserve_together(
        self, shared: Reservation, sharing_it: Sequence[Reservation], *, again: bool = False, first: Policy | None = None
    ) -> list[Run]:
        """Reserve the queries that several runs share, and each of these runs, in one transaction: all of them, or nothing.

        Returns
        -------
        list of Run
            The run that pays for what is shared, then the others. Each may be one that reserved before.

        Raises
        ------
        BudgetExceeded, LedgerError
            As of `reserve`.
        """

        def kept(connection: sa.Connection) -> list[tuple[RunRow, dict[str, Any]]]:
            rows = reservations.reserve_together(connection, self.identity, shared, sharing_it, again=again, first=first)
            return [(row, runs.reservation_of(connection, row.run)) for row in rows]

        return [self._run(*found, one) for found, one in zip(self._granted(kept), (shared, *sharing_it), strict=True)]

    def _granted(self, ask: Callable[[sa.Connection], T]) -> T:
        """What is asked in one transaction; a refusal is put into words after it."""
        try:
            return durable(self.engine, ask)
        except DoesNotFit as refused:
            raise BudgetExceeded(refused.words()) from None

    def _run(self, row: RunRow, reserved: dict[str, Any], reservation: Reservation) -> Run:
        """The run of a reservation; one that was found takes its shared answers from where it took them when it was reserved."""
        shared = sharing.of_reservation(reserved)
        return Run(
            engine=self.engine,
            fence=self.fence,
            ledger_id=self.ledger_id,
            run_id=row.run,
            secret=bytes.fromhex(row.secret),
            data_set=row.data_set,
            manifest_id=row.manifest_id,
            started=row.started,
            events={event.label: event for event in (*(shared.events if shared else ()), *reservation.events)},
            division_key=self.division_key(row.data_set, (shared.run if shared else row.run) if reservation.renumbers else None),
            shared=shared,
        )

    def check(self, reservation: Reservation, *, first: Policy | None = None) -> None:
        """Raise what `reserve` would raise, and change nothing.

        A finished run of the window is no fault, and earlier runs that asked nothing count as given back, as a refit gives them back.
        """

        self._granted(lambda connection: reservations.tried(connection, self.identity, reservation, first=first))

    def check_together(self, shared: Reservation, sharing_it: Sequence[Reservation], *, first: Policy | None = None) -> None:
        """The same for `reserve_together`."""
        self._granted(lambda connection: reservations.tried_together(connection, self.identity, shared, sharing_it, first=first))

    @contextlib.contextmanager
    def hold(self, run_id: str) -> Iterator[None]:
        """Keep a second driver away from this run; released by the operating system or the database when the holder dies."""
        with driver_lock(self.engine, database.path_of(self.url), run_id, self.fence):
            yield

    def abandon(self, run_id: str) -> Cost:
        """Give up an unfinished run.

        Returns
        -------
        Cost
            The refund: what was reserved, less the cost of the queries that were asked.

        Raises
        ------
        LedgerError
            If the run is not unfinished, or another process works on it.
        """
        self.run_record(run_id)
        with self.hold(run_id):
            return durable(self.engine, partial(refunds.abandon, run_id=run_id, token=secrets.token_hex(8)))

    def abandon_unasked(self, run_id: str) -> bool:
        """Give up a run that has asked nothing, and give its whole cost back; whether it did. The caller holds the run."""
        return durable(self.engine, partial(refunds.abandon_unasked, run_id=run_id, token=secrets.token_hex(8)))

    def prune(self, run_id: str) -> int:
        """Remove the answers of a run that has ended; their digests stay in the chain, which stays whole.

        Returns
        -------
        int
            How many answers were removed.

        Raises
        ------
        LedgerError
            If there is no such run, or it is unfinished.
        """
        return durable(self.engine, lambda connection: answers.prune(connection, run_id))

    def compact(self) -> str:
        """Give the space of what was removed back to the disk; why it could not be done, or nothing."""
        return database.compact(self.engine)
