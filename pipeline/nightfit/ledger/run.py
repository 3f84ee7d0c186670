"""A reserved run: each query is asked, then answered, each in its own durable transaction. Imports sqlalchemy."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from nightfit.ledger import answers, chain, releases, runs, tables
from nightfit.ledger.database import durable
from nightfit.ledger.errors import LedgerError
from nightfit.ledger.lock import Fence
from nightfit.ledger.receipt import Binding, Receipt
from nightfit.ledger.reservation import Shared
from nightfit.privacy.events import Event
from nightfit.types import Integers


def _of_query(kind: str, column: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    here = (tables.entry.c.run == sa.bindparam("run_id")) & (tables.entry.c.label == sa.bindparam("query"))
    joined = tables.entry.outerjoin(tables.answer, tables.answer.c.seq == tables.entry.c.seq)
    return sa.select(column).select_from(joined).where(here, tables.entry.c.kind == kind).scalar_subquery()


_LAST = sa.select(tables.entry.c.seq, tables.entry.c.digest).order_by(tables.entry.c.seq.desc()).limit(1).subquery()
_STATUS = sa.select(
    _LAST.c.seq,
    _LAST.c.digest,
    sa.select(tables.run.c.state).where(tables.run.c.run == sa.bindparam("run_id")).scalar_subquery().label("state"),
    _of_query("asked", tables.entry.c.digest).label("asked"),
    _of_query("answered", tables.entry.c.body).label("answered"),
    _of_query("answered", tables.answer.c.packed).label("packed"),
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A reserved run: only the queries of its plan may be asked through it. An `Account` of the gate.

    Parameters
    ----------
    engine, ledger_id
        Of the ledger.
    run_id
        Of the run.
    secret
        Groups, samples and local reports are drawn from it, the same ones when the run is resumed. It is erased when the run ends, because
        whoever has it can undo every local report. Broken by test_the_secret_of_a_run_is_erased_when_it_ends.
    data_set, manifest_id, started
        Of the run; the manifest id is random and may be released.
    events
        The queries of its plan, by label, those that another run pays for too.
    shared
        What another run pays for.
    division_key
        Who is fitted on and who is held out: of the data set, for its life; of the run where records may come and go.
    fence
        Tells whether this process still holds the run.
    """

    engine: sa.Engine = field(repr=False)
    ledger_id: str
    run_id: str
    secret: bytes = field(repr=False)
    data_set: str
    manifest_id: str
    started: str
    events: dict[str, Event]
    division_key: bytes = field(repr=False)
    fence: Fence = field(default_factory=Fence, repr=False)
    shared: Shared | None = None

    @property
    def key(self) -> bytes:
        """The half of the secret that groups, parts and samples are drawn from."""
        return self.secret[:16]

    def asked(self, event: Event) -> Integers | None:
        """Record durably that a query is about to be asked.

        Parameters
        ----------
        event
            As it was reserved.

        Returns
        -------
        array of int64 or None
            The stored answer, if the query was answered before.

        Raises
        ------
        LedgerError
            If the query was not reserved like this, or the run has ended.
        """
        return durable(self.engine, lambda connection: self.ask(connection, event))

    def ask(self, connection: sa.Connection, event: Event) -> Integers | None:
        """What `asked` does, inside the caller's transaction. What is refused has written nothing."""
        if self.events.get(event.label) != event:
            raise LedgerError(
                f"run {self.run_id} reserved nothing for the query {event.label!r} as it is asked now: the plan changed under it"
            )
        if self.shared is not None and event in self.shared.events:
            return self._taken(connection, event, self.shared.run)
        status = self._status(connection, event)
        if status.answered is not None:
            return self._stored(status)
        self.fence.check(connection, self.run_id)
        if status.state != "reserved":
            raise LedgerError(f"run {self.run_id} is {status.state}: no more queries may be asked through it")
        if status.asked is None:
            body = {"event": event.as_dict()}
            chain.append(connection, "asked", self.data_set, body, self.run_id, event.label, after=(status.seq, status.digest))
        return None

    def _taken(self, connection: sa.Connection, event: Event, paid_by: str) -> Integers:
        """The answer that another run paid for. It is never asked here.

        Guarantee: what is shared is charged in the run that pays and nowhere else. Broken by test_what_is_shared_is_charged_once.
        """
        status = self._status(connection, event, paid_by)
        if status.answered is None:
            raise LedgerError(
                f"run {self.run_id} takes the answer to {event.label!r} from run {paid_by}, which has none yet: run the configurations "
                f"that share it together once more, or `nightfit ledger abandon {self.run_id}`"
            )
        return self._stored(status, paid_by)

    def answered(self, event: Event, answer: Integers) -> None:
        """Store the noisy answer durably: only after this returns may anyone see it, and only one answer is ever stored.

        Parameters
        ----------
        event
            As it was asked.
        answer
            The noisy integers.

        Raises
        ------
        LedgerError
            If the query was not asked, or has another answer.
        """

        durable(self.engine, lambda connection: self.store(connection, event, answer))

    def store(self, connection: sa.Connection, event: Event, answer: Integers) -> None:
        """What `answered` does, inside the caller's transaction. What is refused has written nothing."""
        status = self._status(connection, event)
        if status.answered is not None and np.array_equal(self._stored(status), answer):
            return  # stored by this call, before the connection was cut
        self.fence.check(connection, self.run_id)
        if status.asked is None or status.answered is not None:
            raise LedgerError(f"run {self.run_id}: the query {event.label!r} is not waiting for an answer")
        answers.append(connection, self.data_set, self.run_id, event.label, answer, (status.seq, status.digest))

    def pruned(self) -> bool:
        """Whether answers of the run were removed on request: its release cannot be made anew."""
        return durable(self.engine, lambda connection: bool(chain.read(connection, *self._entries(answers.KIND))))

    def complete(self) -> bool:
        """Whether every query of the plan has its stored answer."""
        return durable(self.engine, lambda connection: not self._missing(connection))

    def finish(self, binding: Binding) -> Receipt:
        """Close the run and bind its release to the chain.

        Parameters
        ----------
        binding
            Of the release, which is complete but for its receipt. Closing again with the same one returns the same receipt; a release that
            was made anew from the same answers (by other versions of libraries, say) is bound by an entry of its own.

        Raises
        ------
        LedgerError
            If a query has no answer, the run was abandoned, or the release claims what was not reserved.
        """

        def close(connection: sa.Connection) -> Receipt:
            closed = chain.read(connection, *self._entries("finished"))
            entry = next((one for one in closed if one.body == binding.as_dict()), None)
            if entry is None:
                self._check_may_close(connection, binding)
                entry = chain.append(connection, "finished", self.data_set, binding.as_dict(), self.run_id)
                runs.close(connection, self.run_id, "finished")
            return Receipt(self.ledger_id, entry.seq, entry.digest, binding.content)

        return durable(self.engine, close)

    def _check_may_close(self, connection: sa.Connection, binding: Binding) -> None:
        missing = self._missing(connection)
        if missing:
            raise LedgerError(f"run {self.run_id} cannot finish: {len(missing)} of its queries have no answer yet")
        if runs.read(connection, self.run_id).state == "abandoned":
            raise LedgerError(f"run {self.run_id} cannot finish: it was abandoned")
        if self.shared is not None and runs.read(connection, self.shared.run).state != "finished":
            raise LedgerError(f"run {self.run_id} cannot finish: run {self.shared.run}, whose answers it takes, is not finished")
        claimed = releases.overclaims(connection, self.run_id, binding)
        if claimed:
            raise LedgerError(f"run {self.run_id} cannot finish: {claimed} of its release is not what was reserved")

    def _entries(self, kind: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
        return tables.entry.c.run == self.run_id, tables.entry.c.kind == kind

    def _stored(self, status: sa.Row[Any], run_id: str | None = None) -> Integers:
        """The answer that is stored; in a ledger that was brought up, one that could not be packed is text still."""
        if status.packed is not None:
            return answers.unpack(status.packed)
        if not status.answered:
            raise LedgerError(
                f"the answers of run {run_id or self.run_id} were pruned: it is never asked again, and its release cannot be made anew; "
                "restore the release from a backup, or pay for a new one with --again"
            )
        return np.array(json.loads(status.answered)["answer"], dtype=np.int64)

    def _status(self, connection: sa.Connection, event: Event, run_id: str | None = None) -> sa.Row[Any]:
        """In one statement: the chain's end, the run's state, and what is stored for the query."""
        return connection.execute(_STATUS, {"run_id": run_id or self.run_id, "query": event.label}).one()

    def _missing(self, connection: sa.Connection) -> set[str]:
        stored = sa.select(tables.entry.c.label).where(*self._entries("answered"))
        taken = {event.label for event in self.shared.events} if self.shared is not None else set()
        return self.events.keys() - taken - set(connection.execute(stored).scalars())
