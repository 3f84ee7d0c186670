"""What several runs ask and answer at the same time, in one durable transaction. Imports run and below."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nightfit.ledger.database import durable
from nightfit.ledger.errors import LedgerError
from nightfit.ledger.run import Run
from nightfit.privacy.events import Event
from nightfit.types import Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """A query of a run that is about to be asked, or was answered.

    Parameters
    ----------
    run
        Reserved in the same ledger as the others.
    event
        As it was reserved.
    answer
        The noisy integers; None where the query is about to be asked.
    """

    run: Run
    event: Event
    answer: Integers | None = None

    def made(self, connection: sa.Connection) -> Integers | LedgerError | None:
        """The stored answer if there is one; the refusal where the run may not write this: it has written nothing then."""
        try:
            if self.answer is None:
                return self.run.ask(connection, self.event)
            self.run.store(connection, self.event, self.answer)
        except LedgerError as refused:
            return refused
        return None


def commit_together(writes: Sequence[Write]) -> list[Integers | LedgerError | None]:
    """Commit an entry for each write, in one durable transaction.

    Guarantee: when this returns, what was not refused is on disk: each entry is the one that `Run.asked` and `Run.answered` write, so a
    query that is read afterwards was charged before. Broken by test_queries_that_are_committed_together_are_each_in_the_chain.

    Returns
    -------
    list
        For each write the stored answer of a query that is asked, if there is one, or its refusal: one run's refusal stops no other.

    Raises
    ------
    LedgerError
        If the database cannot be used: nothing was written.
    """
    return durable(writes[0].run.engine, lambda connection: [write.made(connection) for write in writes])
