"""One run's account: each question is asked, then answered, each in its own durable transaction. Imports sqlalchemy."""

import json
from dataclasses import asdict, dataclass, field

import numpy as np
import sqlalchemy as sa

from nightfit.ledger import chain, tables
from nightfit.ledger.errors import LedgerError
from nightfit.privacy.events import Event
from nightfit.types import Integers

ERASED = "00" * 32


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where in which ledger a release was paid for; a ledger that lacks this entry is not the one that paid."""

    ledger_id: str
    seq: int
    digest: str

    def as_dict(self) -> dict[str, str | int]:
        return asdict(self)


def _of_question(kind: str, column: sa.Column[str]) -> sa.ScalarSelect[str]:
    here = (tables.entry.c.run == sa.bindparam("run_id")) & (tables.entry.c.label == sa.bindparam("question"))
    return sa.select(column).where(here, tables.entry.c.kind == kind).scalar_subquery()


_LAST = sa.select(tables.entry.c.seq, tables.entry.c.digest).order_by(tables.entry.c.seq.desc()).limit(1).subquery()
_QUESTION = sa.select(
    _LAST.c.seq,
    _LAST.c.digest,
    sa.select(tables.run.c.state).where(tables.run.c.run == sa.bindparam("run_id")).scalar_subquery().label("state"),
    _of_question("asked", tables.entry.c.digest).label("asked"),
    _of_question("answered", tables.entry.c.body).label("answered"),
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A reserved run: the questions of its plan and nothing else may be asked through it.

    `secret` is the run's: groups, samples and local reports are drawn from it, the same ones when the run is resumed. It is erased
    when the run ends, because who has it can undo every local report. Broken by test_the_secret_of_a_run_is_erased_when_it_ends.
    """

    engine: sa.Engine = field(repr=False)
    ledger_id: str
    run_id: str
    secret: bytes = field(repr=False)
    data_set: str
    manifest_id: str
    started: str
    events: dict[str, Event]

    @property
    def key(self) -> bytes:
        """The half of the secret that groups, parts and samples are drawn from."""
        return self.secret[:16]

    def asked(self, event: Event) -> Integers | None:
        """Record durably that the question is about to be put; the stored answer if it was answered before."""
        if self.events.get(event.label) != event:
            raise LedgerError(f"run {self.run_id} reserved nothing for the question {event.label!r} as now put: the plan changed under it")

        def ask(connection: sa.Connection) -> Integers | None:
            at = self._question(connection, event)
            if at.answered is not None:
                return np.array(json.loads(at.answered)["answer"], dtype=np.int64)
            if at.state != "reserved":
                raise LedgerError(f"run {self.run_id} is {at.state}: no more questions may be asked through it")
            if at.asked is None:
                body = {"event": event.as_dict()}
                chain.append(connection, "asked", self.data_set, body, self.run_id, event.label, after=(at.seq, at.digest))
            return None

        return tables.durable(self.engine, ask)

    def answered(self, event: Event, answer: Integers) -> None:
        """Store the noisy answer durably; only after this returns may anyone see it, and only one answer is ever stored."""
        body = {"answer": answer.tolist()}

        def store(connection: sa.Connection) -> None:
            at = self._question(connection, event)
            if at.answered is not None and json.loads(at.answered) == body:
                return  # stored by this call, before the connection was cut
            if at.asked is None or at.answered is not None:
                raise LedgerError(f"run {self.run_id}: the question {event.label!r} is not waiting for an answer")
            chain.append(connection, "answered", self.data_set, body, self.run_id, event.label, after=(at.seq, at.digest))

        tables.durable(self.engine, store)

    def complete(self) -> bool:
        """Whether every question of the plan has its stored answer."""
        return tables.durable(self.engine, lambda connection: not self._missing(connection))

    def finish(self) -> Receipt:
        """Close the run and give the receipt for its release; closing again gives the same receipt."""

        def close(connection: sa.Connection) -> Receipt:
            done = chain.read(connection, tables.entry.c.run == self.run_id, tables.entry.c.kind == "finished")
            if not done:
                missing = self._missing(connection)
                if missing:
                    raise LedgerError(f"run {self.run_id} cannot finish: {len(missing)} questions have no answer yet")
                done = [chain.append(connection, "finished", self.data_set, {}, self.run_id)]
                connection.execute(tables.run.update().where(tables.run.c.run == self.run_id).values(state="finished", secret=ERASED))
            return Receipt(self.ledger_id, done[0].seq, done[0].digest)

        return tables.durable(self.engine, close)

    def _question(self, connection: sa.Connection, event: Event) -> sa.Row[tuple[int, str, str, str, str]]:
        """In one statement: the chain's end, the run's state, and what is stored for the question."""
        return connection.execute(_QUESTION, {"run_id": self.run_id, "question": event.label}).one()

    def _missing(self, connection: sa.Connection) -> set[str]:
        stored = sa.select(tables.entry.c.label).where(tables.entry.c.run == self.run_id, tables.entry.c.kind == "answered")
        return set(self.events) - set(connection.execute(stored).scalars())
