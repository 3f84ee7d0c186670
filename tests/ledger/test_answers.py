"""Answers are packed without loss, and those of finished runs can be removed: their digests stay, and the chain stays whole."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from nightfit.ledger import Binding, Claim, Ledger, LedgerError, Policy, Reservation, Run, answers, chain, tables, verify
from nightfit.ledger.database import durable
from nightfit.ledger.history import chain_records, exported
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency, Integers
from nightfit.verifier.document import check_chain

pytestmark = pytest.mark.unit

EVENTS = tuple(
    GaussianEvent(label=label, sensitivity=2.0**30, sigma=2.0**36, coordinates=3, adjacency=Adjacency.ZERO_OUT) for label in ("a", "b")
)
LEAST, MOST = -(2**63), 2**63 - 1


def order(model: str = "m") -> Reservation:
    return Reservation(model=model, data_set="d", unit="record", plan="p", events=EVENTS, window="w", manifest="m", files=())


def finish(run: Run) -> dict[str, object]:
    for event in EVENTS:
        run.asked(event)
        run.answered(event, np.array([7, -8, 9]))
    content: dict[str, object] = {
        "run": run.run_id,
        "private": True,
        "plan_digest": "p",
        "plan": {"data_set": "d"},
        "events": [event.as_dict() for event in EVENTS],
    }
    return {**content, "receipt": run.finish(Binding.of(content)).as_dict()}


@pytest.fixture
def kept(ledger: Ledger) -> tuple[Ledger, Run, dict[str, object]]:
    """A ledger with a finished run, and the run's release."""
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=1.0, delta=1e-6))
    run = ledger.reserve(order())
    return ledger, run, finish(run)


@given(st.lists(st.integers(LEAST, MOST) | st.integers(-300, 300), max_size=40))
def test_what_is_packed_is_unpacked_and_has_the_text_of_json(numbers: list[int]) -> None:
    answer = np.array(numbers, dtype=np.int64)
    assert answers.unpack(answers.pack(answer)).tolist() == numbers
    assert answers.text_of(answer) == json.dumps({"answer": numbers}, separators=(",", ":"))


def test_the_edges_of_64_bits_are_kept() -> None:
    edges = [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST]
    assert answers.unpack(answers.pack(np.array(edges))).tolist() == edges


def test_packed_noise_takes_less_than_half_of_its_text() -> None:
    noise: Integers = np.rint(np.random.default_rng(0).normal(scale=2.0**50, size=20_000)).astype(np.int64)
    entropy = 50 + np.log2(np.sqrt(2 * np.pi * np.e))  # bits of a Gaussian that is rounded
    size = 8 * len(answers.pack(noise)) / len(noise)
    assert entropy < size < 1.1 * entropy
    assert len(answers.pack(noise)) < len(answers.text_of(noise)) / 2


def test_the_digest_of_an_answer_is_that_of_its_text(kept: tuple[Ledger, Run, dict[str, object]]) -> None:
    """As it was before answers were packed: an older ledger's chain, and receipts that name its digests, hold on."""
    entry = next(record for record in chain_records(kept[0]) if record["kind"] == "answered")
    text = '{"answer":[7,-8,9]}'
    assert entry["body"] == text
    facts = (entry["seq"], "answered", "d", kept[1].run_id, "a", text, entry["previous"])
    assert entry["digest"] == chain.digest_of(*facts)


def test_a_pruned_run_is_never_asked_again(kept: tuple[Ledger, Run, dict[str, object]]) -> None:
    ledger, run, release = kept
    spent, before = ledger.spent("d"), ledger.run_record(run.run_id)
    assert ledger.prune(run.run_id) == 2
    assert ledger.prune(run.run_id) == 0, "once"
    assert (ledger.spent("d"), ledger.run_record(run.run_id)) == (spent, before)
    again = ledger.reserve(order())
    assert again.run_id == run.run_id
    assert again.complete()
    assert again.pruned()
    for event in EVENTS:
        with pytest.raises(LedgerError, match=f"answers of run {run.run_id} were pruned"):
            again.asked(event)
        with pytest.raises(LedgerError, match="were pruned"):
            again.answered(event, np.array([7, -8, 9]))
    assert {record["state"] for record in exported(ledger)} == {"answered"}
    assert verify(ledger, [("release", Claim.of(release))]) == []


def test_an_unfinished_run_is_not_pruned(kept: tuple[Ledger, Run, dict[str, object]]) -> None:
    ledger = kept[0]
    run = ledger.reserve(order("other"))
    with pytest.raises(LedgerError, match="unfinished and is resumed from its answers"):
        ledger.prune(run.run_id)
    ledger.abandon(run.run_id)
    assert ledger.prune(run.run_id) == 0


def test_an_answer_removed_by_hand_is_not_a_pruned_one(kept: tuple[Ledger, Run, dict[str, object]], ledger_path: Path) -> None:
    ledger, run, release = kept
    with closing(sqlite3.connect(ledger_path)) as connection, connection:
        connection.execute("DELETE FROM answer WHERE seq = 4")
    lacks = "entry 4 (answered) lacks its answer, or was edited: nothing says that it was pruned"
    assert verify(ledger) == [lacks]
    assert check_chain(release, chain_records(ledger))[1] == ["entry 4 of the chain lacks its answer, and nothing says that it was pruned"]
    ledger.prune(run.run_id)
    assert verify(ledger) == [lacks], "pruning does not cover what was not there"


@pytest.mark.parametrize("column", ["label", "data_set", "run", "digest"])
def test_a_pruned_entry_is_covered_in_every_column(kept: tuple[Ledger, Run, dict[str, object]], ledger_path: Path, column: str) -> None:
    ledger, run, release = kept
    ledger.prune(run.run_id)
    assert verify(ledger) == []
    assert check_chain(release, chain_records(ledger))[1] == []
    with closing(sqlite3.connect(ledger_path)) as connection, connection:
        connection.execute(f"UPDATE entry SET {column} = 'other' WHERE seq = 4")
    assert any("entry 4" in problem or "entry 5" in problem for problem in verify(ledger))
    assert check_chain(release, chain_records(ledger))[1]


def test_an_answer_that_cannot_be_packed_stays_text(kept: tuple[Ledger, Run, dict[str, object]]) -> None:
    """An upgrade packs what gives the same text back, and leaves the rest as it is."""
    ledger, run, _ = kept

    def unpacked(connection: sa.Connection) -> None:
        for seq, text in ((4, '{"answer":[7,-8,9]}'), (6, '{"answer": [7, -8, 9]}')):
            connection.execute(tables.answer.delete().where(tables.answer.c.seq == seq))
            connection.execute(tables.entry.update().where(tables.entry.c.seq == seq).values(body=text))
        answers.pack_all(connection)

    durable(ledger.engine, unpacked)
    assert [row["body"] for row in chain_records(ledger) if row["kind"] == "answered"] == ['{"answer":[7,-8,9]}', '{"answer": [7, -8, 9]}']
    for event in EVENTS:
        answer = ledger.reserve(order()).asked(event)
        assert answer is not None
        assert answer.tolist() == [7, -8, 9]
    assert ledger.prune(run.run_id) == 2
