"""The one door through which data becomes a number. Imports query, privacy and shards' shape only.

Order of one question: the plan's whole cost was reserved before; `asked` commits; rows are read and summed to exact integers;
noise is drawn once, here; `answered` commits with the noisy answer; only then does the caller see it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from nightfit.numerics.keystream import Key
from nightfit.privacy.accounting import UNIT, Currency, cost
from nightfit.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent, SelectionEvent, SmoothEvent, SmoothGaussianEvent
from nightfit.privacy.local.protocol import LocalProtocol, ReportQuery
from nightfit.privacy.noise import Noise
from nightfit.queries.base import Query, SelectionQuery, SmoothQuery, SumQuery
from nightfit.types import Array, Integers, NightfitError, Sample


class Account(Protocol):
    """A reserved run of a ledger."""

    @property
    def key(self) -> bytes: ...

    @property
    def secret(self) -> bytes: ...

    @property
    def events(self) -> dict[str, Event]: ...

    def asked(self, event: Event) -> Integers | None: ...

    def answered(self, event: Event, answer: Integers) -> None: ...


class Records(Protocol):
    """Something that merges a question's integers over records."""

    def aggregate(self, query: Query) -> Integers: ...

    def reported(self, question: ReportQuery, key: Key) -> Integers: ...


Ask = Callable[[ReportQuery], Integers]
LABELS = "labels"


class Attempt(Protocol):
    """A whole fit and its score, asked through the gate that it is given."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Every question of it, whatever the answers are."""

    def score(self, gate: "Gate") -> float:
        """Ask them all; the smaller the better. A number made of the answers, infinite where they lead to none."""


class GateError(NightfitError):
    """A question that was not reserved as it is put: refused before anything is read."""


@dataclass(frozen=True, kw_only=True)
class Unwritten:
    """The account of one attempt, in memory alone: what it was answered is kept if it is the best, and forgotten if not."""

    events: dict[str, Event]
    secret: bytes = field(repr=False)
    answers: dict[str, Integers] = field(default_factory=dict, repr=False)
    open: bool = True

    @property
    def key(self) -> bytes:
        return self.secret[:16]

    def asked(self, event: Event) -> Integers | None:
        if not self.open and event.label not in self.answers:
            raise GateError(f"the stored attempt has no answer to {event.label!r}")
        return self.answers.get(event.label)

    def answered(self, event: Event, answer: Integers) -> None:
        self.answers[event.label] = answer


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Guarantee: what leaves is what the reserved event says: exact integers plus discrete Gaussian noise (`ask`), places after
    Gumbel noise (`select`), numbers with noise scaled by a smooth bound (`smooth_release`), what a server makes of reports that are
    private already (`report`), or the best of repeated attempts (`repeat`), of a question that is no more sensitive than its event and
    concerns the same records; so the whole of a run's answers costs no more than its reservation. A question has one answer for ever:
    putting it again returns the stored one. Broken by tests/test_gate.py and, of smooth noise, by
    test_the_gate_asks_for_noise_of_the_smooth_bound_over_the_reserved_shift.
    """

    account: Account
    records: Records
    noise: Noise

    def ask(self, label: str, query: SumQuery) -> Array:
        """The noisy sum that was reserved, in the query's units."""
        event = self._reserved(label, query)
        if not isinstance(event, GaussianEvent) or not query.sensitivity(event.adjacency) <= event.sensitivity:
            raise GateError(f"the question {label!r} is more sensitive than the plan reserved for")

        def noisy(total: Integers) -> Integers:
            exact = query.finalise(total)
            if exact.dtype != np.int64 or exact.shape != (event.coordinates,):
                raise GateError(f"the question {label!r} did not sum to {event.coordinates} integers")
            return self.noise.discrete_gaussian(exact, event.sigma)

        return self._once(event, query, noisy).astype(np.float64) * query.grid

    def select(self, label: str, choice: SelectionQuery) -> Integers:
        """The places of the largest scores after noise, as many as were reserved, in no order that tells more."""
        event = self._reserved(label, choice)
        if not isinstance(event, SelectionEvent) or not choice.score_sensitivity(event.adjacency) <= event.sensitivity:
            raise GateError(f"the question {label!r} is more sensitive than the plan reserved for")

        def chosen(total: Integers) -> Integers:
            scores = choice.finalise(total)
            if scores.dtype != np.int64 or scores.shape != (event.coordinates,):
                raise GateError(f"the question {label!r} did not give {event.coordinates} scores")
            return self.noise.largest(scores, event.chosen, event.scale)

        return self._once(event, choice, chosen)

    def smooth_release(self, label: str, smooth: SmoothQuery) -> Array:
        """The numbers with noise in proportion to their smooth bounds, on the public grid."""
        event = self._reserved(label, smooth)
        if not isinstance(event, SmoothEvent | SmoothGaussianEvent) or not smooth.smoothness <= event.smoothness:
            raise GateError(f"the question {label!r} is less smooth than the plan reserved for")

        def noisy(total: Integers) -> Integers:
            values, bounds = smooth.finalise(total)
            if values.shape != (event.coordinates,) or bounds.shape != values.shape:
                raise GateError(f"the question {label!r} did not give {event.coordinates} numbers")
            return self.noise.smooth(values, bounds / event.shift, event.family, event.spread, smooth.grid)

        return self._once(event, smooth, noisy).astype(np.float64) * smooth.grid

    def report(self, label: str, protocol: LocalProtocol, coordinates: int, exchange: Callable[[Ask], Integers]) -> Integers:
        """What a server makes of the reports that were reserved under `label`: `exchange` asks the owners, a cell at a time.

        Guarantee: rows reach `exchange` through reports of the protocol alone, each as private as the event says, and every cell is asked
        once, so nobody reports more often than the event says; no noise is added. A crashed exchange is held again from the start
        and hears the same reports, because they are functions of the run's secret. Broken by
        test_the_gate_asks_a_cell_once_and_only_what_was_reserved.
        """
        event = self.account.events.get(label)
        if not isinstance(event, PureEvent) or event.coordinates != coordinates:
            raise GateError(f"the reports {label!r} are not in the plan")
        if protocol.epsilon > event.epsilon or protocol.reports > event.reports:
            raise GateError(f"the reports {label!r} cost more than the plan reserved for")
        flipped = self.account.events.get(LABELS)
        if protocol.label_epsilon > (flipped.epsilon if isinstance(flipped, PureEvent) else 0.0):
            raise GateError("the flipped labels cost more than the plan reserved for")
        if flipped is not None:
            self.account.asked(flipped)
        answer = self.account.asked(event)
        if answer is None:
            heard: set[tuple[int, int]] = set()

            def ask(question: ReportQuery) -> Integers:
                cell = (question.epoch, question.cell)
                if question.protocol != protocol or cell in heard:
                    raise GateError(f"the reports {label!r} are asked for twice, or in another way than the plan reserved for")
                heard.add(cell)
                return self.records.reported(question, Key(self.account.secret))

            answer = exchange(ask)
            self.account.answered(event, answer)
        if flipped is not None and self.account.asked(flipped) is None:
            self.account.answered(flipped, np.zeros(1, dtype=np.int64))  # the labels themselves stay with their owners
        return answer

    def repeat(self, label: str, attempts: Sequence[Attempt]) -> tuple[int, "Gate"]:
        """The best of a random number of attempts, each one of `attempts` by lot: its place, and a gate that gives its answers again.

        Guarantee: every attempt is drawn alike, with fresh coins, and costs no more than the event's attempt_rho (a lottery of
        mechanisms costs no more than the worst of them); after each one a coin of the event's mean ends the search. Only the best
        one's answers are ever written, in one entry, and nothing is shown before; a crash forgets all and begins anew under the same
        charge. So what leaves is what the event says. Broken by test_a_repeated_search_keeps_nothing_but_the_winner and
        test_the_number_of_attempts_is_geometric.
        """
        event = self.account.events.get(label)
        if not isinstance(event, RepeatedEvent) or any(_dearer(attempt, event) for attempt in attempts):
            raise GateError(f"the attempts {label!r} are not in the plan, or cost more than it reserved for")
        answer = self.account.asked(event)
        if answer is None:
            answer = self._best(event, attempts)
            self.account.answered(event, answer)
        place = int(answer[0])
        stored = Unwritten(events=_named(attempts[place]), secret=bytes(32), answers=_unpacked(attempts[place], answer), open=False)
        return place, replace(self, account=stored)

    def _best(self, event: RepeatedEvent, attempts: Sequence[Attempt]) -> Integers:
        best: tuple[float, Integers] | None = None
        while best is None or self.noise.uniform_integer(event.mean) > 0:
            place = self.noise.uniform_integer(len(attempts))
            secret = b"".join(self.noise.uniform_integer(2**32).to_bytes(4) for _ in range(8))
            account = Unwritten(events=_named(attempts[place]), secret=secret)
            score = attempts[place].score(replace(self, account=account))
            if best is None or score < best[0]:
                best = score, _packed(place, attempts[place], account.answers)
        return best[1]

    def _reserved(self, label: str, question: Query) -> Event:
        event = self.account.events.get(label)
        if event is None:
            raise GateError(f"the question {label!r} is not in the plan")
        if question.coordinates != event.coordinates:
            raise GateError(f"the question {label!r} has {question.coordinates} coordinates, the plan reserved for {event.coordinates}")
        if question.draw != event.draw:
            raise GateError(f"the question {label!r} concerns other records than the plan reserved for")
        return event

    def _once(self, event: Event, question: Query, noisy: Callable[[Integers], Integers]) -> Integers:
        answer = self.account.asked(event)
        if answer is None:
            answer = noisy(self.records.aggregate(question))
            self.account.answered(event, answer)
        return answer


def _named(attempt: Attempt) -> dict[str, Event]:
    return {event.label: event for event in attempt.events}


def _dearer(attempt: Attempt, event: RepeatedEvent) -> bool:
    """Whether an attempt costs more than the event says, concerns other neighbours, or has more than its rho to account for."""
    if any(isinstance(asked.draw, Sample) or asked.adjacency != event.adjacency for asked in attempt.events):
        return True
    spent = cost(attempt.events, Currency.ZCDP)
    return spent.amount * UNIT > event.attempt_rho or spent.mass > 0


def _packed(place: int, attempt: Attempt, answers: Mapping[str, Integers]) -> Integers:
    """The place, then each answer after its length, in the order of the attempt's questions."""
    given = [answers.get(event.label, ()) for event in attempt.events]
    return np.concatenate([[place], *([len(answer), *answer] for answer in given)]).astype(np.int64)


def _unpacked(attempt: Attempt, stored: Integers) -> dict[str, Integers]:
    answers, at = {}, 1
    for event in attempt.events:
        answers[event.label] = stored[at + 1 : at + 1 + stored[at]]
        at += 1 + int(stored[at])
    return answers
