"""Queries that one run pays for and others take: charged once, all or nothing, and taken only of a run that asked the same records."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from nightfit.ledger import Binding, BudgetExceeded, Claim, Ledger, LedgerError, Policy, Reservation, Run, Shared, chain, tables, verify
from nightfit.ledger.database import durable
from nightfit.ledger.history import chain_records, exported
from nightfit.ledger.writes import Write, commit_together
from nightfit.privacy.accounting import Cost
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency
from nightfit.verifier.document import check_chain

pytestmark = pytest.mark.unit


def event(label: str) -> GaussianEvent:
    return GaussianEvent(label=label, sensitivity=2.0**30, sigma=2.0**32, coordinates=2, adjacency=Adjacency.ZERO_OUT)


ROWS, OWN = (event("scales"), event("moment")), (event("gradient 1"),)


def order(model: str, events: tuple[GaussianEvent, ...] = OWN, **changes: Any) -> Reservation:
    fields: dict[str, Any] = {"data_set": "d", "unit": "record", "plan": f"plan of {model}", "window": "w", "manifest": "m", "files": ()}
    return Reservation(model=model, events=events, **(fields | changes))


def share(run: Run, events: tuple[GaussianEvent, ...] = ROWS) -> Shared:
    return Shared(run=run.run_id, events=events)


@pytest.fixture
def book(ledger: Ledger) -> Ledger:
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=3.0, delta=1e-6))
    return ledger


def ask(run: Run, *events: GaussianEvent) -> None:
    for number, one in enumerate(events):
        assert run.asked(one) is None
        run.answered(one, np.array([number, -7]))


def released(run: Run) -> dict[str, Any]:
    events = [one.as_dict() for one in run.events.values()]
    content = {"run": run.run_id, "private": True, "plan_digest": f"plan of {run.run_id[:-9]}", "events": events, "plan": {"data_set": "d"}}
    return {**content, "receipt": run.finish(Binding.of(content)).as_dict()}


def test_what_is_shared_is_charged_once(book: Ledger) -> None:
    rows, a, b = book.reserve_together(order("rows", ROWS), [order("a"), order("b")])
    each = Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=3.0, delta=1e-6).made()
    assert book.spent("d") == each.cost(ROWS) + each.cost(OWN) + each.cost(OWN)
    with pytest.raises(LedgerError, match=rf"takes the answer to 'scales' from run {rows.run_id}, which has none yet"):
        a.asked(ROWS[0])
    ask(rows, *ROWS)
    for run in (a, b):
        assert [taken.tolist() for one in ROWS if (taken := run.asked(one)) is not None] == [[0, -7], [1, -7]]
        with pytest.raises(LedgerError, match="not waiting for an answer"):
            run.answered(ROWS[0], np.array([1, 1]))
        assert not run.complete()
        ask(run, *OWN)
        assert run.complete()
        with pytest.raises(LedgerError, match=f"run {rows.run_id}, whose answers it takes, is not finished"):
            released(run)
    paid = released(rows)
    releases = [released(run) for run in (a, b)]
    assert [[one["label"] for one in content["events"]] for content in releases] == [["scales", "moment", "gradient 1"]] * 2
    assert verify(book, [(content["run"], Claim.of(content)) for content in (paid, *releases)]) == []
    for content in (paid, *releases):
        assert check_chain(content, chain_records(book))[1] == []
    assert sorted(record["event"]["label"] for record in exported(book)) == ["gradient 1", "gradient 1", "moment", "scales"]
    assert [run["kind"] for run in chain_records(book)].count("asked") == 4


def test_a_night_is_reserved_whole_or_not_at_all(book: Ledger) -> None:
    models = [order(f"m{number}") for number in range(1000)]
    with pytest.raises(BudgetExceeded, match="does not fit the lifetime budget"):
        book.reserve_together(order("rows", ROWS), models)
    assert book.spent("d") == Cost()
    assert book.runs() == []


def test_reserving_again_finds_the_same_runs(book: Ledger) -> None:
    first = book.reserve_together(order("rows", ROWS), [order("a")])
    spent = book.spent("d")
    again = book.reserve_together(order("rows", ROWS), [order("a")])
    assert [run.run_id for run in again] == [run.run_id for run in first]
    assert again[1].shared == Shared(run=first[0].run_id, events=ROWS)
    assert book.spent("d") == spent
    joined = book.reserve_together(order("rows", ROWS), [order("a"), order("c")])
    assert [run.run_id for run in joined[:2]] == [run.run_id for run in first]
    assert book.taking_from(first[0].run_id) == [book.run_record(run.run_id) for run in joined[1:]]


WRONG: dict[str, tuple[Callable[[Reservation], Reservation], str]] = {
    "other records": (lambda one: replace(one, manifest="other"), "reads other records"),
    "other noise": (lambda one: replace(one, private=False), "has other noise"),
    "fewer queries": (lambda one: replace(one, shared=replace(one.shared, events=ROWS[:1])), "did not reserve the queries"),  # type: ignore[type-var]
    "no queries": (lambda one: replace(one, shared=replace(one.shared, events=())), "did not reserve the queries"),  # type: ignore[type-var]
    "another query": (lambda one: replace(one, shared=replace(one.shared, events=(event("x"),))), "did not reserve the queries"),  # type: ignore[type-var]
    "asked too": (lambda one: replace(one, events=(*OWN, ROWS[0])), "scales would be asked and taken"),
    "no run": (lambda one: replace(one, shared=replace(one.shared, run="")), "knows no run"),  # type: ignore[type-var]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_run_takes_only_what_another_run_of_the_same_records_reserved(book: Ledger, wrong: str) -> None:
    rows = book.reserve(order("rows", ROWS))
    spent = book.spent("d")
    change, words = WRONG[wrong]
    with pytest.raises(LedgerError, match=words):
        book.reserve(change(order("a", shared=share(rows))))
    assert book.spent("d") == spent
    taking = book.reserve(order("a", shared=share(rows)))
    with pytest.raises(LedgerError, match="reads other records"):
        book.reserve(order("b", shared=share(taking, OWN)))


def test_a_run_that_was_abandoned_shares_nothing(book: Ledger) -> None:
    rows, a = book.reserve_together(order("rows", ROWS), [order("a")])
    ask(rows, ROWS[0])
    book.abandon(rows.run_id)
    assert a.asked(ROWS[0]) is not None, "it was paid"
    with pytest.raises(LedgerError, match="has none yet"):
        a.asked(ROWS[1])
    with pytest.raises(LedgerError, match="was abandoned"):
        book.reserve(order("b", shared=share(rows)))
    book.abandon(a.run_id)
    assert book.spent("d") == Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=3.0, delta=1e-6).made().cost(ROWS[:1])


@pytest.mark.parametrize("forge", ["another run", "a query less", "a query more"])
def test_a_reservation_that_says_it_shares_what_was_not_paid_is_found(book: Ledger, forge: str) -> None:
    rows, a = book.reserve_together(order("rows", ROWS), [order("a")])
    ask(rows, *ROWS)
    ask(a, *OWN)
    released(rows)
    content = released(a)
    entries = chain_records(book)
    body = chain.read(durable_connection := book.engine.connect(), tables.entry.c.run == a.run_id, tables.entry.c.kind == "reserved")[
        0
    ].body
    durable_connection.close()
    shared = body["shared"]
    if forge == "another run":
        shared["run"] = a.run_id
    else:
        shared["events"] = shared["events"][1:] if forge == "a query less" else [*shared["events"], event("x").as_dict()]
    durable(book.engine, lambda connection: chain.append(connection, "reserved", "d", body, "forged-0badcafe"))
    assert f"run forged-0badcafe takes answers of run {shared['run']}, which did not pay for them before" in verify(book)
    if forge == "another run":
        reserved = next(entry["seq"] for entry in entries if (entry["kind"], entry["run"]) == ("reserved", a.run_id))
        forged = _chained([entry | ({"body": chain.canonical(body)} if entry["seq"] == reserved else {}) for entry in entries])
        content["receipt"]["digest"] = forged[content["receipt"]["seq"] - 1]["digest"]
        assert f"run {a.run_id}, whose answers its run took, did not pay for them" in check_chain(content, forged)[1]


def _chained(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same chain with digests made anew, as a forger would, but for the receipt's entry."""
    previous, made = entries[0]["previous"], []
    for entry in entries:
        facts = [entry[name] for name in ("seq", "kind", "data_set", "run", "label", "body")]
        digest = chain.digest_of(*facts, previous)
        made.append({**entry, "previous": previous, "digest": digest})
        previous = digest
    return made


def test_queries_that_are_committed_together_are_each_in_the_chain(book: Ledger) -> None:
    rows, a, b = book.reserve_together(order("rows", ROWS), [order("a"), order("b")])
    ask(rows, *ROWS)
    commits: list[None] = []
    sa.event.listen(book.engine, "commit", lambda _: commits.append(None))
    stranger = replace(OWN[0], sigma=OWN[0].sigma / 2)
    asked = commit_together([Write(run=a, event=OWN[0]), Write(run=b, event=stranger), Write(run=b, event=ROWS[1])])
    assert asked[0] is None
    assert "the plan changed under it" in str(asked[1]), "one that is refused stops no other"
    assert asked[2].tolist() == [1, -7]
    kept = np.array([5, 6])
    stored = commit_together([Write(run=a, event=OWN[0], answer=kept), Write(run=b, event=OWN[0], answer=kept)])
    assert stored[0] is None
    assert "not waiting for an answer" in str(stored[1]), "it was never asked"
    assert len(commits) == 2
    assert [(one["kind"], one["run"]) for one in chain_records(book)][-2:] == [("asked", a.run_id), ("answered", a.run_id)]
    (again,) = commit_together([Write(run=a, event=OWN[0])])
    assert again.tolist() == kept.tolist()
    assert verify(book, []) == []
