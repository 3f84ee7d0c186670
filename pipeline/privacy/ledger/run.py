"""One run's account: each question is asked, then answered, each in its own durable transaction. Imports sqlalchemy."""

from dataclasses import asdict, dataclass, field

import numpy as np
import sqlalchemy as sa

from pipeline.privacy.events import Event
from pipeline.privacy.ledger import chain, tables
from pipeline.privacy.ledger.errors import LedgerError
from pipeline.types import Integers

ERASED = "00" * 32


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where in which ledger a release was paid for; a ledger that lacks this entry is not the one that paid."""

    ledger_id: str
    seq: int
    digest: str

    def as_dict(self) -> dict[str, str | int]:
        return asdict(self)


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
        with tables.transaction(self.engine) as connection:
            answer = self._entries(connection, "answered", event.label)
            if answer:
                return np.array(answer[0].body["answer"], dtype=np.int64)
            if self._state(connection) != "reserved":
                raise LedgerError(f"run {self.run_id} is {self._state(connection)}: no more questions may be asked through it")
            if not self._entries(connection, "asked", event.label):
                chain.append(connection, "asked", self.data_set, {"event": event.as_dict()}, run=self.run_id, label=event.label)
        return None

    def answered(self, event: Event, answer: Integers) -> None:
        """Store the noisy answer durably; only after this returns may anyone see it, and only one answer is ever stored."""
        with tables.transaction(self.engine) as connection:
            if not self._entries(connection, "asked", event.label) or self._entries(connection, "answered", event.label):
                raise LedgerError(f"run {self.run_id}: the question {event.label!r} is not waiting for an answer")
            chain.append(connection, "answered", self.data_set, {"answer": answer.tolist()}, run=self.run_id, label=event.label)

    def complete(self) -> bool:
        """Whether every question of the plan has its stored answer."""
        with tables.transaction(self.engine) as connection:
            return {entry.label for entry in chain.read(connection, *self._of("answered"))} == set(self.events)

    def finish(self) -> Receipt:
        """Close the run and give the receipt for its release; closing again gives the same receipt."""
        with tables.transaction(self.engine) as connection:
            done = self._entries(connection, "finished", None)
            if not done:
                missing = sorted(set(self.events) - {entry.label for entry in chain.read(connection, *self._of("answered"))})
                if missing:
                    raise LedgerError(f"run {self.run_id} cannot finish: {len(missing)} questions have no answer yet")
                done = [chain.append(connection, "finished", self.data_set, {}, run=self.run_id)]
                connection.execute(tables.run.update().where(tables.run.c.run == self.run_id).values(state="finished", secret=ERASED))
            return Receipt(self.ledger_id, done[0].seq, done[0].digest)

    def _of(self, kind: str) -> tuple[sa.ColumnElement[bool], ...]:
        return tables.entry.c.run == self.run_id, tables.entry.c.kind == kind

    def _entries(self, connection: sa.Connection, kind: str, label: str | None) -> list[chain.Entry]:
        return chain.read(connection, *self._of(kind), tables.entry.c.label == label)

    def _state(self, connection: sa.Connection) -> str:
        return str(connection.execute(sa.select(tables.run.c.state).where(tables.run.c.run == self.run_id)).scalar_one())
