"""The one door through which data becomes a number. Imports queries and the rest of privacy.

Order of one query: the plan's whole cost was reserved before; `asked` commits; rows are read and summed to exact integers;
noise is drawn once, here; `answered` commits with the noisy answer; only then does the caller see it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nightfit.numerics.keystream import Key
from nightfit.privacy.account import Account, GateError, InMemoryAccount, by_label, pack, unpack
from nightfit.privacy.attempts import Attempt, exceeds, scored
from nightfit.privacy.events import (
    Event,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    SelectionEvent,
    SmoothEvent,
    SmoothGaussianEvent,
)
from nightfit.privacy.local.protocol import LocalProtocol, ReportQuery
from nightfit.privacy.noise import Noise
from nightfit.privacy.reading import Records
from nightfit.privacy.reserved import exceeds_declared, reserved, reserved_discovery
from nightfit.queries.base import Query, SelectionQuery, SmoothQuery, SumQuery
from nightfit.queries.level_counts import LevelCounts, largest_above, packed, unpacked
from nightfit.queries.parts import Division, of_part
from nightfit.types import Array, Integers

__all__ = ["LABELS", "Account", "Ask", "Attempt", "Gate", "GateError", "Records"]

LABELS = "labels"  # the event of the randomised responses that flip labels, once for a whole local fit
Ask = Callable[[ReportQuery], Integers]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Asks the queries of one reserved run.

    Parameters
    ----------
    account
        The reserved run.
    records
        What is read.
    noise
        The sampler.
    division
        The part of the data set that every query is asked of; None for all of it.

    Notes
    -----
    Guarantee: what leaves is what the reserved event says: exact integers plus discrete Gaussian noise (`ask`), indices after
    Gumbel noise (`select`), names of levels above a threshold after noise (`discover`), numbers with noise scaled by a smooth sensitivity
    (`smooth_release`), what a server makes of reports that are
    private already (`report`), or the best of repeated attempts (`repeat`), of a query that is no more sensitive than its event and
    concerns the same records; so all answers of a run together cost no more than its reservation. A query has one answer for ever:
    asking it again returns the stored one. Broken by tests/privacy/test_gate.py and, of smooth noise, by
    test_the_gate_asks_for_noise_of_the_smooth_bound_over_the_reserved_shift. A gate with a division asks nothing of other parts: the
    draw of a query is that of its part, and an event that was reserved for another is refused. Broken by
    test_a_gate_of_one_part_refuses_what_was_reserved_for_another.
    """

    account: Account
    records: Records
    noise: Noise
    division: Division | None = None

    def ask(self, label: str, query: SumQuery) -> Array:
        """The noisy sum, in the query's units.

        Parameters
        ----------
        label
            Of the reserved event.
        query
            The sum of bounded contributions.

        Raises
        ------
        GateError
            If the query is not the reserved one, is more sensitive, or reads other records. Nothing was read.
        """
        query = of_part(query, self.division)
        event = reserved(self.account, label, query)
        if not isinstance(event, GaussianEvent) or exceeds_declared(query.sensitivity, event):
            raise GateError(f"the query {label!r} is more sensitive than the plan reserved for, or of another kind")

        def noisy(total: Integers) -> Integers:
            exact = query.finalise(total)
            if exact.dtype != np.int64 or exact.shape != (event.coordinates,):
                raise GateError(f"the query {label!r} did not sum to {event.coordinates} integers")
            return self.noise.discrete_gaussian(exact, event.sigma)

        return self._once(event, query, noisy).astype(np.float64) * query.grid

    def select(self, label: str, query: SelectionQuery) -> Integers:
        """Indices of the largest noisy scores, as many as were reserved, unordered.

        Parameters
        ----------
        label
            Of the reserved event.
        query
            The scores.

        Raises
        ------
        GateError
            As of `ask`.
        """
        query = of_part(query, self.division)
        event = reserved(self.account, label, query)
        if not isinstance(event, SelectionEvent) or exceeds_declared(query.score_sensitivity, event):
            raise GateError(f"the query {label!r} is more sensitive than the plan reserved for, or of another kind")

        def chosen(total: Integers) -> Integers:
            scores = query.finalise(total)
            if scores.dtype != np.int64 or scores.shape != (event.coordinates,):
                raise GateError(f"the query {label!r} did not give {event.coordinates} scores")
            return self.noise.largest(scores, event.chosen, event.scale)

        return self._once(event, query, chosen)

    def discover(self, label: str, query: LevelCounts, count: Callable[[LevelCounts], Mapping[str, int]]) -> tuple[str, ...]:
        """Names of the levels whose noisy counts exceed the reserved threshold, sorted.

        Parameters
        ----------
        label
            Of the reserved event.
        query
            Whose levels, and how a unit counts in them.
        count
            Counts the units of every level that occurs.

        Raises
        ------
        GateError
            As of `ask`.

        Notes
        -----
        Guarantee: what is stored and told are names of told levels, sorted: neither the others, nor any count, nor how many there
        were or in which order they were found. Broken by test_only_told_levels_are_stored_whatever_was_counted_and_in_which_order.
        """
        if self.division is not None:
            raise GateError(f"the levels {label!r} are counted among everybody: they know no parts")
        event = reserved_discovery(self.account, label, query)
        answer = self.account.asked(event)
        if answer is None:
            levels, exact = query.steps(count(query))
            noisy = self.noise.discrete_gaussian(exact, event.sigma) if levels else exact
            answer = packed(largest_above(levels, noisy, event.threshold, event.most))
            self.account.answered(event, answer)
        return unpacked(answer)

    def smooth_release(self, label: str, query: SmoothQuery) -> Array:
        """The numbers with noise in proportion to their smooth sensitivities, on the public grid.

        Parameters
        ----------
        label
            Of the reserved event.
        query
            The numbers and their smooth sensitivities.

        Raises
        ------
        GateError
            As of `ask`; also if the sensitivities are less smooth than was reserved for.
        """
        query = of_part(query, self.division)
        event = reserved(self.account, label, query)
        if not isinstance(event, SmoothEvent | SmoothGaussianEvent) or not query.smoothness <= event.smoothness:
            raise GateError(f"the query {label!r} is less smooth than the plan reserved for, or of another kind")

        def noisy(total: Integers) -> Integers:
            values, bounds = query.finalise(total)
            if values.shape != (event.coordinates,) or bounds.shape != values.shape:
                raise GateError(f"the query {label!r} did not give {event.coordinates} numbers")
            return self.noise.smooth(values, bounds / event.shift, event.family, event.spread, query.grid)

        return self._once(event, query, noisy).astype(np.float64) * query.grid

    def report(self, label: str, protocol: LocalProtocol, coordinates: int, exchange: Callable[[Ask], Integers]) -> Integers:
        """What a server makes of randomised reports.

        Parameters
        ----------
        label
            Of the reserved event.
        protocol
            How the records' owners randomise, and when they are asked.
        exchange, coordinates
            The server: asks the owners, one cell at a time, and returns its result, which is of this length.

        Raises
        ------
        GateError
            If the reports were not reserved, cost more, or a cell is asked twice.

        Notes
        -----
        Guarantee: rows reach `exchange` through reports of the protocol alone, each as private as the event says, and every cell is asked
        once, so nobody reports more often than the event says; no noise is added. A crashed exchange starts again and receives the same
        reports: they are functions of the run's secret. Broken by test_the_gate_asks_a_cell_once_and_only_what_was_reserved.
        """
        if self.division is not None:
            raise GateError(f"the reports {label!r} are of everybody: local reports know no parts")
        event = self.account.events.get(label)
        if not isinstance(event, PureEvent) or event.coordinates != coordinates:
            raise GateError(f"the reports {label!r} are not in the plan")
        if protocol.epsilon > event.epsilon or protocol.reports > event.reports:
            raise GateError(f"the reports {label!r} cost more than the plan reserved for")
        flips = self.account.events.get(LABELS)
        if protocol.label_epsilon > (flips.epsilon if isinstance(flips, PureEvent) else 0.0):
            raise GateError("the flipped labels cost more than the plan reserved for")
        if flips is not None:
            self.account.asked(flips)
        answer = self.account.asked(event)
        if answer is None:
            answer = exchange(self._each_cell_once(label, protocol))
            self.account.answered(event, answer)
        if flips is not None and self.account.asked(flips) is None:
            self.account.answered(flips, np.zeros(1, dtype=np.int64))  # the labels themselves stay with their owners
        return answer

    def repeat(self, label: str, attempts: Sequence[Attempt]) -> tuple[int, "Gate"]:
        """The best of a random number of attempts, each one of `attempts` by lot.

        Parameters
        ----------
        label
            Of the reserved event.
        attempts
            What is drawn from; each costs no more than the event's attempt_rho.

        Returns
        -------
        tuple of int and Gate
            The winner's index, and a gate that returns its stored answers.

        Raises
        ------
        GateError
            If the attempts were not reserved, or cost more.

        Notes
        -----
        Guarantee: every attempt is drawn alike, with fresh coins, and costs no more than the event's attempt_rho (a lottery of
        mechanisms costs no more than the worst of them); after each one a coin of the event's mean ends the search. Only the best
        one's answers are ever written, in one entry, and nothing is shown before, not even that an attempt failed; a crash forgets all and
        begins anew under the same charge. So what leaves is what the event says. Broken by
        test_a_repeated_search_keeps_nothing_but_the_winner, test_an_attempt_that_fails_is_only_the_worst and
        test_the_number_of_attempts_is_geometric.
        """
        event = self.account.events.get(label)
        if not isinstance(event, RepeatedEvent) or any(exceeds(attempt, event) for attempt in attempts):
            raise GateError(f"the attempts {label!r} are not in the plan, or cost more than it reserved for")
        answer = self.account.asked(event)
        if answer is None:
            answer = self._best(event, attempts)
            self.account.answered(event, answer)
        index = int(answer[0])
        events = attempts[index].events
        stored = InMemoryAccount(events=by_label(events), secret=bytes(32), answers=unpack(events, answer), open=False)
        return index, replace(self, account=stored)

    def _best(self, event: RepeatedEvent, attempts: Sequence[Attempt]) -> Integers:
        best: tuple[float, Integers] | None = None
        while best is None or self.noise.uniform_integer(event.mean) > 0:
            index = self.noise.uniform_integer(len(attempts))
            secret = b"".join(self.noise.uniform_integer(2**32).to_bytes(4) for _ in range(8))
            account = InMemoryAccount(events=by_label(attempts[index].events), secret=secret)
            score = scored(attempts[index], replace(self, account=account))
            if best is None or score < best[0]:
                best = score, pack(index, attempts[index].events, account.answers)
        return best[1]

    def _each_cell_once(self, label: str, protocol: LocalProtocol) -> Ask:
        seen: set[tuple[int, int]] = set()

        def ask(query: ReportQuery) -> Integers:
            cell = (query.epoch, query.cell)
            if query.protocol != protocol or cell in seen:
                raise GateError(f"the reports {label!r} are asked for twice, or in another way than the plan reserved for")
            seen.add(cell)
            return self.records.reported(query, Key(self.account.secret))

        return ask

    def _once(self, event: Event, query: Query, noisy: Callable[[Integers], Integers]) -> Integers:
        answer = self.account.asked(event)
        if answer is None:
            answer = noisy(self.records.aggregate(query))
            self.account.answered(event, answer)
        return answer
