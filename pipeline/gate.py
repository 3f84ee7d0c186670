"""The one door through which data becomes a number. Imports query, privacy and shards' shape only.

Order of one question: the plan's whole cost was reserved before; `asked` commits; rows are read and summed to exact integers;
noise is drawn once, here; `answered` commits with the noisy answer; only then does the caller see it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.privacy.events import GaussianEvent
from pipeline.privacy.noise import Noise
from pipeline.query import Query
from pipeline.types import Array, Integers, NightfitError


class Account(Protocol):
    """A reserved run of a ledger."""

    @property
    def key(self) -> bytes: ...

    @property
    def events(self) -> dict[str, GaussianEvent]: ...

    def asked(self, event: GaussianEvent) -> Integers | None: ...

    def answered(self, event: GaussianEvent, answer: Integers) -> None: ...


class Records(Protocol):
    """Something that sums a query over records."""

    def total(self, query: Query) -> Integers: ...


class GateError(NightfitError):
    """A question that was not reserved as it is put: refused before anything is read."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Guarantee: what `ask` returns is the query's exact integers plus discrete Gaussian noise of the reserved event's sigma, and
    the query's sensitivity is at most the event's, so the whole of a run's answers costs no more than its reservation. A question
    has one answer for ever: a second `ask` returns the stored one. Broken by tests/test_gate.py.
    """

    account: Account
    records: Records
    noise: Noise

    def ask(self, label: str, query: Query) -> Array:
        """The noisy answer to a reserved question, in the query's units."""
        event = self.account.events.get(label)
        if event is None:
            raise GateError(f"the question {label!r} is not in the plan")
        if not query.sensitivity(event.adjacency) <= event.sensitivity or query.coordinates != event.coordinates:
            raise GateError(f"the question {label!r} is more sensitive than the plan reserved for")
        answer = self.account.asked(event)
        if answer is None:
            exact = query.finish(self.records.total(query))
            if exact.dtype != np.int64 or exact.shape != (event.coordinates,):
                raise GateError(f"the question {label!r} did not sum to {event.coordinates} integers")
            answer = self.noise.discrete_gaussian(exact, event.sigma)
            self.account.answered(event, answer)
        return answer.astype(np.float64) * query.grid
