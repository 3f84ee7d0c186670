"""The one door: paid before reading, stored before seen, answered once, refused when it is not what was reserved."""

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightfit.ledger import Ledger, LedgerError, Policy, Reservation, Run, answers
from nightfit.privacy.account import InMemoryAccount, pack, unpack
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise, SeededNoise
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import SumQuery
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.parts import Division, OfPart
from nightfit.types import WHOLE, Adjacency, Block, Draw, Integers, Part

BLOCK = Block(np.array([[0.5, 1.0], [-1.0, 1.0], [0.25, 1.0]]), np.array([1.0, -2.0, 0.5]))
QUERY = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.array([0.5, 0.0]), bits=30)
STEP = GaussianEvent(
    label="step 1", sensitivity=QUERY.sensitivity(Adjacency.ZERO_OUT), sigma=2.0**36, coordinates=2, adjacency=Adjacency.ZERO_OUT
)
EXACT = QUERY.chunk(BLOCK)[0]


@dataclass
class Recorder:
    """An account, records and noise that write down what happens to them, in one list."""

    happened: list[str] = field(default_factory=list)
    stored: dict[str, Integers] = field(default_factory=dict)
    events: dict[str, GaussianEvent] = field(default_factory=lambda: {STEP.label: STEP})
    private: bool = False

    def asked(self, event: GaussianEvent) -> Integers | None:
        self.happened.append("asked")
        return self.stored.get(event.label)

    def answered(self, event: GaussianEvent, answer: Integers) -> None:
        self.happened.append("answered")
        self.stored[event.label] = answer

    def aggregate(self, query: SumQuery) -> Integers:
        self.happened.append("read")
        return query.chunk(BLOCK)

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        self.happened.append(f"noise {sigma}")
        return values + 5


@dataclass
class Watched:
    """Records that call a function when they are read."""

    on_read: Callable[[], Any] = lambda: None
    reads: int = 0

    def aggregate(self, query: SumQuery) -> Integers:
        self.reads += 1
        self.on_read()
        return query.chunk(BLOCK)


@dataclass
class Counted:
    """Seeded noise that counts its draws."""

    noise: SeededNoise = field(default_factory=lambda: SeededNoise(np.random.default_rng(3)))
    draws: int = 0
    private: bool = False

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        self.draws += 1
        return self.noise.discrete_gaussian(values, sigma)


def recorded(recorder: Recorder) -> Gate:
    return Gate(account=recorder, records=recorder, noise=recorder)


@pytest.fixture
def order() -> Reservation:
    steps = (STEP, replace(STEP, label="step 2"))
    return Reservation(model="m", data_set="clinic", unit="record", plan="p", events=steps, window="w", manifest="m", files=())


@pytest.fixture
def run(ledger: Ledger, order: Reservation) -> Run:
    ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=1.0, delta=1e-6))
    return ledger.reserve(order)


def committed(path: Path) -> list[tuple[str, str | None, Any]]:
    """What another process would find: the questions' entries as a second connection sees them."""
    with closing(sqlite3.connect(path)) as connection:
        stored = "SELECT kind, label, packed FROM entry LEFT JOIN answer USING (seq) WHERE kind IN ('asked', 'answered') ORDER BY seq"
        return [
            (kind, label, None if packed is None else answers.unpack(packed).tolist()) for kind, label, packed in connection.execute(stored)
        ]


def test_a_question_is_asked_read_noised_and_answered_in_this_order() -> None:
    recorder = Recorder()
    seen = recorded(recorder).ask("step 1", QUERY)
    assert recorder.happened == ["asked", "read", f"noise {STEP.sigma}", "answered"]
    assert recorder.stored["step 1"].tolist() == (EXACT + 5).tolist()
    assert seen.tolist() == ((EXACT + 5) * QUERY.grid).tolist()


def test_asked_is_on_disk_before_rows_are_read_and_the_answer_before_it_is_seen(run: Run, ledger_path: Path) -> None:
    found: list[Any] = []
    records = Watched(on_read=lambda: found.append(committed(ledger_path)))
    seen = Gate(account=run, records=records, noise=Counted()).ask("step 1", QUERY)
    assert found == [[("asked", "step 1", None)]]
    asked, answered = committed(ledger_path)
    assert asked == ("asked", "step 1", None)
    assert answered[:2] == ("answered", "step 1")
    assert seen.tolist() == (np.array(answered[2]) * QUERY.grid).tolist()
    assert answered[2] != EXACT.tolist()


def test_an_answer_that_cannot_be_stored_is_seen_by_nobody() -> None:
    class Broken(Recorder):
        def answered(self, event: GaussianEvent, answer: Integers) -> None:
            raise LedgerError("disk full")

    seen = []
    with pytest.raises(LedgerError, match="disk full"):
        seen.append(recorded(Broken()).ask("step 1", QUERY))
    assert seen == []


def test_a_question_that_cannot_be_recorded_reads_nothing() -> None:
    class Broken(Recorder):
        def asked(self, event: GaussianEvent) -> Integers | None:
            raise LedgerError("disk full")

    recorder = Broken()
    with pytest.raises(LedgerError, match="disk full"):
        recorded(recorder).ask("step 1", QUERY)
    assert recorder.happened == []


def test_when_reading_fails_nothing_is_answered_and_the_question_can_be_asked_again(run: Run, ledger_path: Path) -> None:
    def fail() -> None:
        raise OSError("a shard is gone")

    noise = Counted()
    with pytest.raises(OSError, match="a shard is gone"):
        Gate(account=run, records=Watched(on_read=fail), noise=noise).ask("step 1", QUERY)
    assert committed(ledger_path) == [("asked", "step 1", None)]
    assert noise.draws == 0
    Gate(account=run, records=Watched(), noise=noise).ask("step 1", QUERY)
    assert [entry[:2] for entry in committed(ledger_path)] == [("asked", "step 1"), ("answered", "step 1")]
    assert noise.draws == 1


def test_a_second_ask_returns_the_stored_answer_without_reading_or_noise(run: Run, ledger: Ledger, order: Reservation) -> None:
    records, noise = Watched(), Counted()
    gate = Gate(account=run, records=records, noise=noise)
    first = gate.ask("step 1", QUERY)
    resumed = Gate(account=ledger.reserve(order), records=records, noise=noise)
    assert gate.ask("step 1", QUERY).tolist() == resumed.ask("step 1", QUERY).tolist() == first.tolist()
    assert (records.reads, noise.draws) == (1, 1)


def test_noise_is_drawn_exactly_once_per_question(run: Run) -> None:
    records, noise = Watched(), Counted()
    gate = Gate(account=run, records=records, noise=noise)
    answers = [gate.ask(label, QUERY).tolist() for label in ("step 1", "step 2", "step 1", "step 2")]
    assert answers[:2] == answers[2:]
    assert answers[0] != answers[1]
    assert (records.reads, noise.draws) == (2, 2)


def test_a_question_that_was_not_reserved_is_refused_before_anything_happens(run: Run, ledger_path: Path) -> None:
    recorder, records = Recorder(), Watched()
    with pytest.raises(GateError, match="'step 9' is not in the plan"):
        recorded(recorder).ask("step 9", QUERY)
    assert recorder.happened == []
    with pytest.raises(GateError, match="'step 9' is not in the plan"):
        Gate(account=run, records=records, noise=NoNoise()).ask("step 9", QUERY)
    assert records.reads == 0
    assert committed(ledger_path) == []


@dataclass(frozen=True)
class Claims:
    """A query of this sensitivity and length."""

    claimed: float
    coordinates: int = 2
    grid: float = 1.0
    draw: Draw = WHOLE

    def sensitivity(self, adjacency: Adjacency) -> float:
        return self.claimed

    def chunk(self, block: Block) -> Integers:
        return np.zeros((1, self.coordinates), dtype=np.int64)

    def finalise(self, total: Integers) -> Integers:
        return total[0]


@pytest.mark.parametrize(
    "query",
    [
        replace(QUERY, bits=31),
        replace(QUERY, weights=np.zeros(3)),
        replace(QUERY, weights=np.zeros(1)),
        Claims(math.nextafter(STEP.sensitivity, math.inf)),
        Claims(math.inf),
        Claims(math.nan),
        Claims(STEP.sensitivity, coordinates=1),
    ],
    ids=["finer grid", "wider", "narrower", "one ulp more", "infinite", "not a number", "shorter"],
)
def test_a_query_more_sensitive_than_was_reserved_is_refused_before_reading(query: SumQuery) -> None:
    recorder = Recorder()
    with pytest.raises(GateError, match=r"than the plan reserved for|coordinates, the plan reserved for"):
        recorded(recorder).ask("step 1", query)
    assert recorder.happened == []


def test_the_sensitivity_is_that_of_the_reserved_adjacency() -> None:
    recorder = Recorder(events={"step 1": replace(STEP, adjacency=Adjacency.REPLACE_ONE)})
    with pytest.raises(GateError, match="more sensitive"):
        recorded(recorder).ask("step 1", QUERY)
    assert recorder.happened == []


def test_a_query_exactly_as_sensitive_as_reserved_is_answered() -> None:
    assert recorded(Recorder()).ask("step 1", Claims(STEP.sensitivity)).tolist() == [5.0, 5.0]


@pytest.mark.parametrize("total", [np.zeros((1, 2)), np.zeros((1, 3), dtype=np.int64), np.zeros((1, 2), dtype=np.int32)])
def test_what_is_not_the_promised_integers_gets_no_answer(total: Any) -> None:
    class Strange(Recorder):
        def aggregate(self, query: SumQuery) -> Integers:
            return total

    recorder = Strange()
    with pytest.raises(GateError, match="did not sum to 2 integers"):
        recorded(recorder).ask("step 1", QUERY)
    assert recorder.happened == ["asked"]
    assert recorder.stored == {}


def test_nothing_is_read_when_the_budget_does_not_hold_the_plan(ledger: Ledger, order: Reservation) -> None:
    ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=0.01, delta=1e-6))
    records = Watched()
    with pytest.raises(LedgerError, match="Nothing was read or charged"):
        Gate(account=ledger.reserve(order), records=records, noise=NoNoise()).ask("step 1", QUERY)
    assert records.reads == 0


def test_a_gate_cannot_be_made_without_an_account() -> None:
    with pytest.raises(TypeError, match="account"):
        Gate(records=Watched(), noise=NoNoise())  # type: ignore[call-arg]


def test_the_stored_answers_of_an_attempt_can_be_asked_for_and_nothing_else() -> None:
    """A winner's gate must not read records: whatever it would answer beyond what is stored was never paid for."""
    stored = InMemoryAccount(events={STEP.label: STEP, "step 2": replace(STEP, label="step 2")}, secret=bytes(32), open=False)
    stored.answers["step 1"] = np.array([1, 2])
    records, noise = Watched(), Counted()
    gate = Gate(account=stored, records=records, noise=noise)
    assert gate.ask("step 1", QUERY).tolist() == [QUERY.grid, 2 * QUERY.grid]
    with pytest.raises(GateError, match="the stored attempt has no answer to 'step 2'"):
        gate.ask("step 2", QUERY)
    assert (records.reads, noise.draws) == (0, 0)


def test_an_attempt_survives_being_packed() -> None:
    events = tuple(replace(STEP, label=label, coordinates=n) for label, n in (("a", 1), ("b", 3), ("c", 2)))
    answers = {"a": np.array([5]), "b": np.array([-1, 2**62, 0])}
    packed = pack(7, events, answers)
    assert packed[0] == 7
    found = unpack(events, packed)
    assert {label: answer.tolist() for label, answer in found.items()} == {"a": [5], "b": [-1, 2**62, 0]}


def test_a_gate_of_one_part_refuses_what_was_reserved_for_another() -> None:
    """Nothing is read unless the event was reserved for this very part, and then of its units only."""
    parts = Part(0, 2**31), Part(2**31, 2**32)
    block = Block(BLOCK.X, BLOCK.y, np.array([1, 2, 3], dtype=np.uint64))

    @dataclass
    class Slotted(Recorder):
        def aggregate(self, query: SumQuery) -> Integers:
            self.happened.append("read")
            return query.chunk(block)

    for reserved in (*parts, WHOLE):
        recorder = Slotted(events={STEP.label: replace(STEP, draw=reserved)})
        gate: Any = Gate(account=recorder, records=recorder, noise=recorder)  # type: ignore[arg-type]
        for part in parts:
            division = Division(part=part, key=bytes(16))
            if part == reserved != WHOLE:
                answer = replace(gate, division=division).ask(STEP.label, QUERY)
                assert answer.tolist() == ((OfPart(query=QUERY, division=division).chunk(block)[0] + 5) * QUERY.grid).tolist()
                recorder.happened.clear()
                continue
            with pytest.raises(GateError, match="other records"):
                replace(gate, division=division).ask(STEP.label, QUERY)
            assert recorder.happened == []
    with pytest.raises(GateError, match="know no parts"):
        replace(gate, division=Division(part=parts[0], key=bytes(16))).report("labels", None, 1, lambda _: np.zeros(1, dtype=np.int64))
