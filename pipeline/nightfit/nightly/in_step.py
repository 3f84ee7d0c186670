"""Models that ask in step: their queries are charged in one commit, read in one reading and answered in one commit. Imports this package.

Each model's work runs in a thread of its own and asks through its own gate, one query after the other. Where every model waits, the
thread of the night serves them: what is to be charged or stored is committed, and what was charged is read.
"""

import contextvars
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from nightfit.ledger import Run
from nightfit.ledger.writes import Write, commit_together
from nightfit.numerics.keystream import Key
from nightfit.privacy.events import Event
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.queries.jointly import OfModel, jointly
from nightfit.queries.one_target import of_model
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.failures import ClusterError
from nightfit.types import Integers, NightfitError

MOST_MODELS = 32
"""Models that ask in step: each has a thread, and one message to the workers carries the queries of all."""


class Stopped(NightfitError):
    """The night ended before this model did."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What a model waits for: a write or a query."""

    wanted: Write | OfModel
    reply: "SimpleQueue[Any]" = field(default_factory=SimpleQueue)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A model's place in the night: its run as an `Account` of the gate, and the rows that it sees, as its `Records`.

    Guarantee: `asked` and `answered` return when their entry is on disk, and `aggregate` returns a query's own integers, so the order of
    the gate holds for each query: charged, read, given noise, stored, seen. Broken by
    test_a_query_that_is_asked_in_step_is_charged_before_the_rows_are_read.

    Parameters
    ----------
    run
        The model's reserved run.
    number
        Of its target among those that rows were decoded with.
    requests
        Where it asks to be served.
    """

    run: Run
    number: int
    requests: "SimpleQueue[_Request | Future[Any]]"

    @property
    def key(self) -> bytes:
        return self.run.key

    @property
    def secret(self) -> bytes:
        return self.run.secret

    @property
    def events(self) -> dict[str, Event]:
        return self.run.events

    def asked(self, event: Event) -> Integers | None:
        stored: Integers | None = self._served(Write(run=self.run, event=event))
        return stored

    def answered(self, event: Event, answer: Integers) -> None:
        self._served(Write(run=self.run, event=event, answer=answer))

    def aggregate(self, query: Query) -> Integers:
        integers: Integers = self._served(OfModel(query=query, place=self.number))
        return integers

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        """Never asked: a local report is about one model alone."""
        raise NotImplementedError("local reports are not shared")

    def _served(self, wanted: Write | OfModel) -> Any:
        request = _Request(wanted)
        self.requests.put(request)
        found = request.reply.get()
        if isinstance(found, Exception):
            raise found
        return found


def in_step(runs: Sequence[Run], records: ShardedDataset, works: Sequence[Callable[[Place], Any]]) -> Iterator[tuple[int, Any]]:
    """Do the work of every model, in step.

    Parameters
    ----------
    runs
        Of the models, in one ledger.
    records
        Decoded with the targets of all, in this order.
    works
        What each model does at its place.

    Yields
    ------
    tuple of int and object
        The number of each model, in order, and what its work returned, or the exception that ended it.
    """
    for first in range(0, len(runs), MOST_MODELS):
        numbers = range(first, min(first + MOST_MODELS, len(runs)))
        yield from _together(numbers, runs, records, works)


def _together(
    numbers: Sequence[int], runs: Sequence[Run], records: ShardedDataset, works: Sequence[Callable[[Place], Any]]
) -> Iterator[tuple[int, Any]]:
    arrived: SimpleQueue[_Request | Future[Any]] = SimpleQueue()
    waiting: list[_Request] = []
    done: dict[int, Any] = {}
    left = list(numbers)
    with ThreadPoolExecutor(len(numbers), thread_name_prefix="model") as threads:
        at_work: dict[Future[Any], int] = {}
        for number in numbers:
            place = Place(run=runs[number], number=number, requests=arrived)
            at_work[threads.submit(contextvars.copy_context().run, works[number], place)] = number
        for future in at_work:
            future.add_done_callback(arrived.put)
        try:
            while at_work:
                while len(waiting) < len(at_work):
                    came = arrived.get()
                    if isinstance(came, Future):
                        done[at_work.pop(came)] = came.exception() or came.result()
                    else:
                        waiting.append(came)
                while left and left[0] in done:
                    yield left[0], done.pop(left.pop(0))
                waiting = _serve(waiting, records)
        finally:
            _stop(waiting, arrived, len(at_work))


def _stop(waiting: Sequence[_Request], arrived: "SimpleQueue[_Request | Future[Any]]", at_work: int) -> None:
    """Refuse what is wanted until every model's work has ended: no thread is left behind."""
    for request in waiting:
        request.reply.put(Stopped("the night was stopped; run it again to resume"))
    while at_work:
        came = arrived.get()
        if isinstance(came, Future):
            at_work -= 1
        else:
            came.reply.put(Stopped("the night was stopped; run it again to resume"))


def _serve(waiting: Sequence[_Request], records: ShardedDataset) -> list[_Request]:
    """Commit what is to be committed, and return what still waits; where all wait for rows, read them."""
    writes = [(request, request.wanted) for request in waiting if isinstance(request.wanted, Write)]
    if writes:
        _reply([request for request, _ in writes], lambda: commit_together([write for _, write in writes]))
        return [request for request in waiting if isinstance(request.wanted, OfModel)]
    queries = [request.wanted for request in waiting if isinstance(request.wanted, OfModel)]
    _reply(waiting, lambda: _read(records, queries))
    return []


def _reply(requests: Sequence[_Request], serve: Callable[[], Sequence[Any]]) -> None:
    """Give each request its own answer, or all of them the failure."""
    try:
        answers = serve()
    except Exception as failure:
        answers = [failure] * len(requests)
    for request, answer in zip(requests, answers, strict=True):
        request.reply.put(answer)


def _read(records: ShardedDataset, queries: Sequence[OfModel]) -> list[Any]:
    """The integers of each query, in one reading. If that fails, each is read by itself, so that one model stops no other."""
    together = [number for number, one in enumerate(queries) if not isinstance(one.query, GroupedQuery)]
    found: dict[int, Any] = {}
    if len(together) > 1:
        try:
            answers: Any = records.aggregate(jointly([queries[number] for number in together]))
            found = dict(zip(together, answers, strict=True))
        except ClusterError:
            raise
        except Exception:
            found = {}
    return [found[number] if number in found else _alone(records, one) for number, one in enumerate(queries)]


def _alone(records: ShardedDataset, one: OfModel) -> Any:
    try:
        return records.aggregate(of_model(one.query, one.place))
    except Exception as failure:
        return failure
