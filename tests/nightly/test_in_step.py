"""Models that ask in step: one commit and one reading for all, each query charged before it is read, and no model waits for ever."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from nightfit.ledger import Ledger, LedgerError, Policy, Reservation, Run
from nightfit.ledger.history import chain_records
from nightfit.nightly.in_step import MOST_MODELS, Place, Stopped, in_step
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.jointly import Jointly
from nightfit.shards.failures import ClusterError
from nightfit.types import Adjacency, Block

QUERY = GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.array([0.5]), bits=30)


def event(label: str) -> GaussianEvent:
    return GaussianEvent(label=label, adjacency=Adjacency.ZERO_OUT, coordinates=1, sensitivity=2.0**30, sigma=2.0**36)


class Rows:
    """Rows of several targets in memory, which note each reading and what was charged before it."""

    def __init__(self, ledger: Ledger, models: int) -> None:
        rng = np.random.default_rng(3)
        self.block = Block(rng.normal(size=(50, 1)), rng.normal(size=(50, models)), np.arange(50, dtype=np.uint64))
        self.ledger, self.readings, self.fails = ledger, list[tuple[int, list[str]]](), list[Any]()

    def aggregate(self, query: Any) -> Any:
        entries = [one for one in chain_records(self.ledger) if one["kind"] in ("asked", "answered")]
        answered = {(one["run"], one["label"]) for one in entries if one["kind"] == "answered"}
        open_ = [one["run"] for one in entries if one["kind"] == "asked" and (one["run"], one["label"]) not in answered]
        self.readings.append((len(query.queries) if isinstance(query, Jointly) else 1, sorted(open_)))
        for fails in self.fails:
            fails(query)
        return query.chunk(self.block)


@pytest.fixture
def runs(ledger: Ledger) -> Callable[..., list[Run]]:
    def reserved(*labels: Sequence[str]) -> list[Run]:
        ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=10.0, delta=1e-6))
        return [
            ledger.reserve(
                Reservation(
                    model=f"m{number}",
                    data_set="d",
                    unit="record",
                    plan=f"plan {number}",
                    events=tuple(map(event, each)),
                    window="w",
                    manifest="files",
                    files=("f",),
                )
            )
            for number, each in enumerate(labels)
        ]

    return reserved


def asking(labels: Sequence[str]) -> Callable[[Place], list[float]]:
    """Work that asks these queries through a gate."""

    def work(place: Place) -> list[float]:
        gate = Gate(account=place, records=place, noise=NoNoise())
        return [float(gate.ask(label, QUERY)[0]) for label in labels]

    return work


def results(runs: Sequence[Run], rows: Rows, works: Sequence[Callable[[Place], Any]]) -> list[Any]:
    found = list(in_step(runs, rows, works))  # type: ignore[arg-type]
    assert [number for number, _ in found] == list(range(len(runs)))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("model")]
    return [result for _, result in found]


@pytest.mark.unit
def test_a_query_that_is_asked_in_step_is_charged_before_the_rows_are_read(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    labels = [["a", "b", "c"], ["a"], ["a", "b"]]
    made, rows = runs(*labels), Rows(ledger, 3)
    found = results(made, rows, [asking(each) for each in labels])
    named = sorted(run.run_id for run in made)
    short = sorted((made[0].run_id, made[2].run_id))
    assert rows.readings == [(3, named), (2, short), (1, [made[0].run_id])], "each reading is of all that were charged and wait"
    assert [len(each) for each in found] == [3, 1, 2]
    assert all(run.complete() for run in made)
    writes = len([one for one in chain_records(ledger) if one["kind"] in ("asked", "answered")])
    assert writes == 12
    alone = results(made, rows, [asking(each) for each in labels])
    assert alone == found, "stored answers are taken, and no row is read again"
    assert len(rows.readings) == 3


@pytest.mark.unit
def test_models_in_step_commit_once_for_all(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    labels = [["a", "b"]] * 5
    made, rows, begun = runs(*labels), Rows(ledger, 5), list[None]()
    sa.event.listen(ledger.engine, "begin", lambda _: begun.append(None))
    rows.aggregate = lambda query: query.chunk(rows.block)  # type: ignore[method-assign]
    results(made, rows, [asking(each) for each in labels])
    assert len(begun) == 4, "two queries of five models: each step is asked in one commit and answered in one"


@pytest.mark.unit
def test_one_model_s_failure_in_step_stops_no_other(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    def broken(place: Place) -> None:
        asking(["a"])(place)
        raise ZeroDivisionError

    def unreserved(place: Place) -> None:
        place.asked(event("never reserved"))

    labels = [["a", "b"], ["a", "b"], ["a"]]
    made, rows = runs(*labels), Rows(ledger, 3)
    found = results(made, rows, [asking(labels[0]), broken, unreserved])
    assert len(found[0]) == 2
    assert [type(each) for each in found[1:]] == [ZeroDivisionError, LedgerError]


@pytest.mark.unit
def test_a_query_that_cannot_be_read_with_others_is_read_alone(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    labels = [["a"], ["a"]]
    made, rows = runs(*labels), Rows(ledger, 2)

    def bad(query: Any) -> None:
        places = [one.place for one in query.queries] if isinstance(query, Jointly) else [query.place]
        if 1 in places:
            raise ValueError("cannot be read")

    rows.fails.append(bad)
    found = results(made, rows, [asking(each) for each in labels])
    assert len(found[0]) == 1
    assert isinstance(found[1], ValueError)
    assert [len(each) for _, each in rows.readings] == [2, 2, 2]


@pytest.mark.unit
def test_a_lost_cluster_is_not_asked_again_for_each_model(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    labels = [["a"], ["a"]]
    made, rows = runs(*labels), Rows(ledger, 2)

    def lost(_: Any) -> None:
        raise ClusterError("gone")

    rows.fails.append(lost)
    assert [type(each) for each in results(made, rows, [asking(each) for each in labels])] == [ClusterError] * 2
    assert len(rows.readings) == 1


@pytest.mark.unit
def test_a_night_that_is_left_stops_every_model(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    labels = [["a"], ["a", "b", "c"]]
    made, rows, ended = runs(*labels), Rows(ledger, 2), list[Exception]()

    def noted(place: Place) -> None:
        try:
            asking(labels[1])(place)
        except Exception as error:
            ended.append(error)
            raise

    night: Iterator[Any] = in_step(made, rows, [asking(labels[0]), noted])  # type: ignore[arg-type,assignment]
    assert next(night)[0] == 0
    night.close()  # type: ignore[attr-defined]
    assert [type(error) for error in ended] == [Stopped]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("model")]
    assert not made[1].complete()


@pytest.mark.unit
def test_more_models_than_ask_at_once_are_served_in_turns(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    labels = [["a"]] * (MOST_MODELS + 1)
    made, rows = runs(*labels), Rows(ledger, MOST_MODELS + 1)
    assert len(results(made, rows, [asking(each) for each in labels])) == MOST_MODELS + 1
    assert [count for count, _ in rows.readings] == [MOST_MODELS, 1]


@pytest.mark.unit
def test_a_model_that_is_resumed_falls_in_step(ledger: Ledger, runs: Callable[..., list[Run]]) -> None:
    """It is ahead by a stored answer: its next query is charged before the others are read, and read with them."""
    labels = [["a", "b"], ["a", "b"]]
    made, rows = runs(*labels), Rows(ledger, 2)
    made[0].asked(event("a"))
    made[0].answered(event("a"), np.array([7]))
    found = results(made, rows, [asking(each) for each in labels])
    assert found[0][0] == 7 * QUERY.grid
    assert rows.readings == [(2, sorted(run.run_id for run in made)), (1, [made[1].run_id])]
