"""The ledger: never overspends, never forgets, never gives a question two answers, and says so when someone edits it."""

import json
import math
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from nightfit.ledger import (
    Binding,
    BudgetExceeded,
    Claim,
    Ledger,
    LedgerError,
    Policy,
    Reservation,
    Run,
    answers,
    database,
    tables,
    unbound,
    verify,
)
from nightfit.ledger.policy import Period
from nightfit.privacy.accounting import UNIT, Cost, Currency, cost, epsilon_of
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency

CLINIC = Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=1.0, delta=1e-6)
LIMIT = CLINIC.limit()


def event(label: str = "step 1", share: float = 0.1, coordinates: int = 3) -> GaussianEvent:
    """A question that costs this share of the clinic's lifetime budget."""
    sigma = 2.0**30 / math.sqrt(share * float(LIMIT.amount * UNIT))
    return GaussianEvent(label=label, sensitivity=2.0**30, sigma=sigma, coordinates=coordinates, adjacency=Adjacency.ZERO_OUT)


TWO_STEPS = (event("step 1"), event("step 2"))


def order(**changes: Any) -> Reservation:
    fields: dict[str, Any] = {
        "model": "visits",
        "data_set": "clinic",
        "unit": "record",
        "plan": "plan-hash",
        "events": TWO_STEPS,
        "window": "/data/clinic",
        "manifest": "manifest of the night",
        "files": ("1000:aaaa", "1000:bbbb"),
    }
    return Reservation(**(fields | changes))


@pytest.fixture
def clinic(ledger: Ledger) -> Ledger:
    """A ledger with a lifetime budget for the data set clinic."""
    ledger.set_policy(CLINIC)
    return ledger


def answer(run: Run, *labels: str) -> None:
    for label in labels:
        run.asked(run.events[label])
        run.answered(run.events[label], np.array([1, -2, 3]))


def content_of(run: Run, **changes: Any) -> dict[str, Any]:
    """A release of a run, complete but for its receipt."""
    events = [event.as_dict() for event in run.events.values()]
    content = {"run": run.run_id, "private": True, "plan_digest": "plan-hash", "events": events, "coef": {"age": 0.25}}
    return content | changes


def close(run: Run, **changes: Any) -> Claim:
    """Finish a run; what its release says then."""
    content = content_of(run, **changes)
    return Claim.of({**content, "receipt": run.finish(Binding.of(content)).as_dict()})


def finished(ledger: Ledger, **changes: Any) -> tuple[Run, Claim]:
    run = ledger.reserve(order(**changes))
    answer(run, *run.events)
    return run, close(run)


@contextmanager
def by_hand(path: Path) -> Iterator[sqlite3.Connection]:
    """The database as someone with sqlite3 sees it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def everything(path: Path) -> list[str]:
    with by_hand(path) as connection:
        return list(connection.iterdump())


def kinds(path: Path) -> list[str]:
    with by_hand(path) as connection:
        return [kind for (kind,) in connection.execute("SELECT kind FROM entry ORDER BY seq")]


SHARED = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("shared", sys.argv[1])
shared = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shared)
"""


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SHARED + script, __file__, *map(str, arguments)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def said(script: str, *arguments: object) -> str:
    """What a script prints, in which `shared` is this file; its failure is ours."""
    process = python(script, *arguments)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


# reservations


def test_a_reservation_raises_the_balance_by_the_whole_plan(clinic: Ledger) -> None:
    clinic.reserve(order())
    assert clinic.spent("clinic") == cost(TWO_STEPS, Currency.GAUSSIAN)
    clinic.reserve(order(model="costs"))
    assert clinic.spent("clinic") == cost(TWO_STEPS * 2, Currency.GAUSSIAN)


def test_reservations_are_granted_up_to_the_limit_and_not_beyond(clinic: Ledger) -> None:
    sixth = event(share=1 / 6 - 1e-9)
    for number in range(6):
        clinic.reserve(order(model=f"model{number}", events=(sixth,)))
    with pytest.raises(BudgetExceeded):
        clinic.reserve(order(model="one too many", events=(event(share=1e-6),)))
    assert clinic.spent("clinic").fits(LIMIT)


def test_a_refused_charge_writes_nothing(clinic: Ledger, ledger_path: Path) -> None:
    before = everything(ledger_path)
    with pytest.raises(BudgetExceeded):
        clinic.reserve(order(events=(event(share=1.01),), files=("7:new", "8:new")))
    assert everything(ledger_path) == before


def test_a_refusal_says_what_is_spent_and_what_would_fit(clinic: Ledger) -> None:
    clinic.reserve(order(events=(event(share=0.6),)))
    spent = epsilon_of(clinic.spent("clinic"), CLINIC.delta, Currency.GAUSSIAN)
    with pytest.raises(BudgetExceeded) as refused:
        clinic.reserve(order(model="costs", events=(event(share=0.8),)))
    text = str(refused.value)
    assert f"epsilon {spent:.4g} of 1 is spent at delta 1e-06" in text
    assert "would pay 50% of it" in text
    assert "Nothing was read or charged" in text


def test_noise_too_coarse_for_the_mass_of_delta_is_refused_and_not_called_affordable(clinic: Ledger) -> None:
    coarse = GaussianEvent(label="step 1", sensitivity=1.0, sigma=100.0, coordinates=1, adjacency=Adjacency.ZERO_OUT)
    with pytest.raises(BudgetExceeded, match=r"would pay \d% of it"):
        clinic.reserve(order(events=(coarse,)))


def test_every_block_of_a_plan_is_charged_and_one_full_block_refuses_all(ledger: Ledger) -> None:
    ledger.set_policy(replace(CLINIC, blocks="day"))
    ledger.reserve(order(events=(event(share=0.7),), blocks=("day=1", "day=2")))
    ledger.reserve(order(events=(event(share=0.7),), blocks=("day=3",), model="costs"))
    with pytest.raises(BudgetExceeded, match="block day=2"):
        ledger.reserve(order(events=(event(share=0.7),), blocks=("day=4", "day=2"), model="stays"))
    assert ledger.spent("clinic", "day=4") == Cost()
    assert ledger.spent("clinic", "day=1") == ledger.spent("clinic", "day=3") == cost([event(share=0.7)], Currency.GAUSSIAN)
    assert verify(ledger) == []


@pytest.mark.parametrize("over", [Cost(), Cost(1, 0), Cost(0, 1)])
@pytest.mark.parametrize("full", ["day=1", "day=2", "day=3"])
@pytest.mark.parametrize("per", ["life", "year"])
def test_the_last_unit_of_a_budget_is_granted_and_one_unit_more_is_refused(
    ledger: Ledger, over: Cost, full: str, per: Period, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whole units of 2^-200, of the amount and of the mass, in whichever block it is: a comparison of floats would see no difference."""
    policy = replace(CLINIC, blocks="day", per=per)
    ledger.set_policy(policy)
    ledger.reserve(order(events=(event(share=0.1),), blocks=(full,), model="earlier"))
    held, needed = ledger.spent("clinic", full), policy.cost([event(share=0.5)])
    monkeypatch.setattr(Policy, "limit", lambda self: held + needed - over)
    asked = order(events=(event(share=0.5),), blocks=("day=1", "day=2", "day=3"))
    if over == Cost():
        ledger.reserve(asked)
        assert ledger.spent("clinic", full) == policy.limit()
    else:
        with pytest.raises(BudgetExceeded, match=f"block {full}"):
            ledger.reserve(asked)
        assert ledger.spent("clinic", full) == held
    others = {ledger.spent("clinic", day) for day in ("day=1", "day=2", "day=3") if day != full}
    assert others == {needed if over == Cost() else Cost()}


@pytest.mark.parametrize("blocks", [(), ("day=1",), ("all", "all")])
def test_a_plan_cannot_choose_other_blocks_than_the_policy(clinic: Ledger, blocks: tuple[str, ...]) -> None:
    with pytest.raises(LedgerError, match="divides the data set by all"):
        clinic.reserve(order(blocks=blocks))
    assert clinic.spent("clinic") == Cost()


RACERS = 50
RACE = f"""
share = shared.event(share=1 / 17.5)
warm = shared.Ledger.create("sqlite://")
warm.set_policy(shared.CLINIC)
try:
    for number in range({RACERS}):
        warm.reserve(shared.order(model=f"model{{number}}", events=(share,)))
except shared.BudgetExceeded:
    pass
waiting, started = os.pipe()
children = []
for number in range({RACERS}):
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.close(started)
            os.read(waiting, 1)
            shared.Ledger.open(sys.argv[2]).reserve(shared.order(model=f"model{{number}}", events=(share,)))
            code = 0
        except shared.BudgetExceeded:
            code = 1
        finally:
            os._exit(code)
    children.append(child)
os.close(started)
print(*sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.mark.process
def test_processes_racing_for_the_last_budget_get_exactly_what_fits(clinic: Ledger) -> None:
    codes = said(RACE, clinic.url).split()
    assert codes == ["0"] * 17 + ["1"] * (RACERS - 17)
    assert clinic.spent("clinic") == cost([event(share=1 / 17.5)] * 17, Currency.GAUSSIAN)
    assert clinic.spent("clinic").fits(LIMIT)
    assert verify(clinic) == []


# policies


def test_a_data_set_without_a_policy_is_refused_with_the_command_that_sets_one(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="nightfit ledger policy set clinic"):
        ledger.reserve(order())


@pytest.mark.parametrize(
    "looser", [{"epsilon": 1.1}, {"delta": 1e-5}, {"adjacency": Adjacency.ADD_REMOVE}, {"unit": "patient_id"}, {"blocks": "day"}]
)
def test_a_policy_is_not_loosened_without_a_recorded_reason(clinic: Ledger, ledger_path: Path, looser: dict[str, Any]) -> None:
    before = everything(ledger_path)
    with pytest.raises(LedgerError, match="--override REASON"):
        clinic.set_policy(replace(CLINIC, **looser))
    assert everything(ledger_path) == before
    clinic.set_policy(replace(CLINIC, **looser), override="the board agreed")
    assert clinic.policies()["clinic"] == replace(CLINIC, **looser)
    with by_hand(ledger_path) as connection:
        (body,) = connection.execute("SELECT body FROM entry WHERE kind = 'policy' ORDER BY seq DESC").fetchone()
    assert json.loads(body)["override"] == "the board agreed"
    assert verify(clinic) == []


def test_a_policy_can_be_tightened_and_then_binds(clinic: Ledger) -> None:
    clinic.reserve(order(events=(event(share=0.5),)))
    clinic.set_policy(replace(CLINIC, epsilon=0.5))
    with pytest.raises(BudgetExceeded):
        clinic.reserve(order(model="costs", events=(event(share=0.01),)))
    assert verify(clinic) == []


def test_the_same_policy_again_changes_nothing(clinic: Ledger, ledger_path: Path) -> None:
    before = everything(ledger_path)
    clinic.set_policy(CLINIC)
    assert everything(ledger_path) == before


@pytest.mark.parametrize(
    "other", [{"currency": Currency.ZCDP}, {"adjacency": Adjacency.REPLACE_ONE}, {"unit": "patient_id"}, {"blocks": "day"}]
)
def test_what_was_spent_is_never_counted_in_another_currency_or_kind(clinic: Ledger, other: dict[str, Any]) -> None:
    run = clinic.reserve(order())
    with pytest.raises(LedgerError, match="only epsilon and delta"):
        clinic.set_policy(replace(CLINIC, **other), override="whatever the reason")
    clinic.abandon(run.run_id)
    clinic.set_policy(replace(CLINIC, **other), override="nothing is spent any more")


@pytest.mark.parametrize(
    "budget", [{"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"delta": 0.0}, {"delta": 1.0}]
)
def test_what_is_not_a_budget_is_no_policy(ledger: Ledger, budget: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be a number from"):
        ledger.set_policy(replace(CLINIC, **budget))
    assert ledger.policies() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": "patient_id"},
        {"events": (replace(event(), adjacency=Adjacency.REPLACE_ONE),)},
        {"events": (event("step 1"), replace(event("step 2"), adjacency=Adjacency.ADD_REMOVE))},
    ],
)
def test_a_plan_of_another_unit_or_adjacency_than_the_policy_is_refused(clinic: Ledger, changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match="guarantees of different kinds do not add"):
        clinic.reserve(order(**changes))
    assert clinic.spent("clinic") == Cost()


def test_the_same_files_under_a_second_name_are_refused(clinic: Ledger, ledger_path: Path) -> None:
    clinic.set_policy(replace(CLINIC, data_set="copy"))
    clinic.reserve(order())
    before = everything(ledger_path)
    with pytest.raises(LedgerError, match="data: name: clinic"):
        clinic.reserve(order(data_set="copy", files=("9:other", "1000:bbbb")))
    assert everything(ledger_path) == before


def test_files_of_a_data_set_that_gave_everything_back_are_free(clinic: Ledger) -> None:
    clinic.set_policy(replace(CLINIC, data_set="clinc"))
    mistaken = clinic.reserve(order(data_set="clinc"))
    with pytest.raises(LedgerError, match="data: name: clinc"):
        clinic.reserve(order())
    assert clinic.abandon_unasked(mistaken.run_id)
    run, _ = finished(clinic)
    assert run.data_set == "clinic"
    with pytest.raises(LedgerError, match="data: name: clinic"):
        clinic.reserve(order(data_set="clinc"), again=True)
    assert verify(clinic) == []


def test_files_of_a_division_that_gave_everything_back_are_free(ledger: Ledger) -> None:
    ledger.set_policy(replace(CLINIC, blocks="day"))
    by_day = order(blocks=("day=1",), homes=("day=1",) * len(order().files))
    first, second = (ledger.reserve(replace(by_day, window=window)) for window in ("one", "other"))
    ledger.abandon(first.run_id)
    with pytest.raises(LedgerError, match="only epsilon and delta"):
        ledger.set_policy(CLINIC, override="it is no day's")
    second.asked(by_day.events[0])
    ledger.abandon(second.run_id)
    with pytest.raises(LedgerError, match="only epsilon and delta"):
        ledger.set_policy(CLINIC, override="it is no day's")
    with pytest.raises(LedgerError, match="move it back"):
        ledger.reserve(replace(by_day, blocks=("day=2",), homes=("day=2",) * len(by_day.files)), again=True)


def test_a_file_that_was_freed_by_hand_is_found(clinic: Ledger, ledger_path: Path) -> None:
    clinic.set_policy(replace(CLINIC, data_set="copy"))
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute("UPDATE file SET data_set = 'nobody'")
    finished(clinic, data_set="copy")
    assert verify(clinic) == ["entry 9 reads files of clinic, which was charged for them already"]


# runs


def test_a_finished_plan_is_returned_and_nothing_is_charged(clinic: Ledger, ledger_path: Path) -> None:
    run, _ = finished(clinic)
    before = everything(ledger_path)
    assert [run["state"] for run in clinic.runs()] == ["finished"]
    assert clinic.reserve(order()) == replace(run, secret=bytes(32))
    assert everything(ledger_path) == before


@pytest.mark.parametrize("change", [{"plan": "other"}, {"manifest": "other"}, {"private": False}])
def test_a_finished_and_changed_plan_needs_again(clinic: Ledger, change: dict[str, Any]) -> None:
    run, _ = finished(clinic)
    before = clinic.spent("clinic")
    with pytest.raises(LedgerError, match="--again") as refused:
        clinic.reserve(order(**change))
    assert ("data" if "manifest" in change else "plan") + " changed" in str(refused.value)
    assert clinic.spent("clinic") == before
    again = clinic.reserve(order(**change), again=True)
    assert again.run_id != run.run_id
    assert again.manifest_id != run.manifest_id
    assert clinic.spent("clinic") == before + before


def test_again_is_a_new_run_and_a_second_charge(clinic: Ledger) -> None:
    run, _ = finished(clinic)
    again = clinic.reserve(order(), again=True)
    assert again.run_id != run.run_id
    assert clinic.spent("clinic") == cost(TWO_STEPS * 2, Currency.GAUSSIAN)
    assert again.asked(TWO_STEPS[0]) is None
    assert clinic.reserve(order(), again=True) == again, "an unfinished run is resumed whether or not --again is given"
    assert clinic.spent("clinic") == cost(TWO_STEPS * 2, Currency.GAUSSIAN)


@pytest.mark.parametrize("change", [{"plan": "other"}, {"manifest": "other"}, {"private": False}])
@pytest.mark.parametrize("again", [False, True])
def test_an_unfinished_and_changed_plan_is_refused_naming_the_way_out(clinic: Ledger, change: dict[str, Any], again: bool) -> None:
    run = clinic.reserve(order())
    answer(run, "step 1")
    with pytest.raises(LedgerError, match=f"nightfit ledger abandon {run.run_id}"):
        clinic.reserve(order(**change), again=again)
    assert clinic.spent("clinic") == cost(TWO_STEPS, Currency.GAUSSIAN)


def test_a_resumed_run_keeps_its_id_its_answers_and_its_charge(clinic: Ledger) -> None:
    run = clinic.reserve(order())
    answer(run, "step 1")
    reopened = Ledger.open(clinic.url)
    resumed = reopened.reserve(order())
    assert (resumed.run_id, resumed.manifest_id, resumed.started) == (run.run_id, run.manifest_id, run.started)
    assert resumed.asked(TWO_STEPS[0]).tolist() == [1, -2, 3]
    assert resumed.asked(TWO_STEPS[1]) is None
    assert reopened.spent("clinic") == cost(TWO_STEPS, Currency.GAUSSIAN)
    reopened.engine.dispose()


def test_abandoning_refunds_only_questions_that_were_never_asked(clinic: Ledger) -> None:
    three = (event("answered", 0.1), event("asked", 0.2), event("untouched", 0.3))
    run = clinic.reserve(order(events=three))
    answer(run, "answered")
    run.asked(three[1])
    assert clinic.abandon(run.run_id) == cost(three[2:], Currency.GAUSSIAN)
    assert clinic.spent("clinic") == cost(three[:2], Currency.GAUSSIAN)
    with pytest.raises(LedgerError, match="abandoned: no more queries"):
        run.asked(three[2])
    with pytest.raises(LedgerError, match="only an unfinished run"):
        clinic.abandon(run.run_id)
    assert clinic.spent("clinic") == cost(three[:2], Currency.GAUSSIAN)
    assert verify(clinic) == []


def test_after_abandoning_the_next_run_pays_in_full(clinic: Ledger) -> None:
    run = clinic.reserve(order())
    clinic.abandon(run.run_id)
    assert clinic.reserve(order(plan="other")).run_id != run.run_id
    assert clinic.spent("clinic") == cost(TWO_STEPS, Currency.GAUSSIAN)


def test_finished_and_unknown_runs_cannot_be_abandoned(clinic: Ledger) -> None:
    run, _ = finished(clinic)
    with pytest.raises(LedgerError, match="finished: only an unfinished run"):
        clinic.abandon(run.run_id)
    with pytest.raises(LedgerError, match="nightfit ledger show"):
        clinic.abandon("visits-00000000")


def test_a_question_has_one_answer_for_ever(clinic: Ledger) -> None:
    run = clinic.reserve(order())
    answer(run, "step 1")
    with pytest.raises(LedgerError, match="not waiting for an answer"):
        run.answered(TWO_STEPS[0], np.array([7, 7, 7]))
    assert run.asked(TWO_STEPS[0]).tolist() == [1, -2, 3]
    answer(run, "step 2")
    close(run)
    assert run.asked(TWO_STEPS[0]).tolist() == [1, -2, 3]


def test_an_answer_to_a_question_that_was_not_asked_is_refused(clinic: Ledger, ledger_path: Path) -> None:
    run = clinic.reserve(order())
    with pytest.raises(LedgerError, match="not waiting for an answer"):
        run.answered(TWO_STEPS[0], np.array([7, 7, 7]))
    assert kinds(ledger_path) == ["policy", "reserved"]


@pytest.mark.parametrize("other", [event("step 3"), event("step 1", share=0.2), event("step 1", coordinates=4)])
def test_a_question_outside_the_plan_is_refused(clinic: Ledger, ledger_path: Path, other: GaussianEvent) -> None:
    run = clinic.reserve(order())
    with pytest.raises(LedgerError, match="reserved nothing for the query"):
        run.asked(other)
    assert kinds(ledger_path) == ["policy", "reserved"]


def test_answers_of_any_size_come_back_exactly(clinic: Ledger) -> None:
    extremes = np.array([-(2**63), 2**63 - 1, 0])
    run = clinic.reserve(order())
    run.asked(TWO_STEPS[0])
    run.answered(TWO_STEPS[0], extremes)
    stored = run.asked(TWO_STEPS[0])
    assert stored.dtype == np.int64
    assert stored.tolist() == extremes.tolist()


def test_a_run_finishes_once_and_gives_the_same_receipt_twice(clinic: Ledger, ledger_path: Path) -> None:
    run = clinic.reserve(order())
    answer(run, "step 1")
    with pytest.raises(LedgerError, match="1 of its queries have no answer"):
        close(run)
    answer(run, "step 2")
    claim = close(run)
    assert close(run) == claim
    assert close(clinic.reserve(order())) == claim
    assert kinds(ledger_path).count("finished") == 1
    assert clinic.holds(claim.receipt.seq, claim.receipt.digest)
    assert verify(clinic, [("release.json", claim)]) == []
    assert unbound(clinic, [("release.json", claim)]) == []


# two drivers

HOLD = """
with shared.Ledger.open(sys.argv[2]).hold(sys.argv[3]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_a_second_driver_of_a_run_is_refused_until_the_first_one_is_gone(clinic: Ledger) -> None:
    run = clinic.reserve(order())
    holder = python(HOLD, clinic.url, run.run_id)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LedgerError, match=f"another process is working on run {run.run_id}"), clinic.hold(run.run_id):
            pass
        with pytest.raises(LedgerError, match="another process"):
            clinic.abandon(run.run_id)
        with clinic.hold("visits-another"):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=600)
        with clinic.hold(run.run_id):
            assert clinic.reserve(order()) == run
    finally:
        holder.kill()
        holder.communicate()
    assert clinic.spent("clinic") == cost(TWO_STEPS, Currency.GAUSSIAN)


def test_the_order_of_runs_comes_from_the_chain_and_not_from_the_clock(clinic: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps back by an hour, as on the night when daylight saving ends, and then by years."""
    times = ["2026-10-25T00:30:00+00:00", "2026-10-24T23:30:00+00:00", "1999-12-31T23:59:59+00:00"]

    ticking = iter(times)

    class Clock:
        @staticmethod
        def now(_zone: Any) -> datetime:
            return datetime.fromisoformat(next(ticking))

    monkeypatch.setattr("nightfit.ledger.reservations.datetime", Clock)
    made = [clinic.reserve(order(model=f"model{number}")).run_id for number in range(3)]
    assert [run["started"] for run in clinic.runs()] == times
    assert [run["run"] for run in clinic.runs()] == made
    assert clinic.reserve(order(model="model0")).run_id == made[0]
    assert clinic.spent("clinic") == cost(TWO_STEPS * 3, Currency.GAUSSIAN)
    assert verify(clinic) == []


def test_a_hold_leaves_no_file_behind(clinic: Ledger, ledger_path: Path) -> None:
    with clinic.hold("visits-1"), pytest.raises(LedgerError, match="another process"), clinic.hold("visits-1"):
        pass
    with clinic.hold("visits-1"):
        pass
    assert os.listdir(ledger_path.parent) == [ledger_path.name]


# verify


def test_an_untouched_ledger_is_whole(clinic: Ledger) -> None:
    _, claim = finished(clinic)
    clinic.abandon(clinic.reserve(order(model="costs")).run_id)
    assert verify(clinic, [("release.json", claim)]) == []


@pytest.mark.parametrize("body", ["""'{"answer":[0,0,0]}'""", "replace(body, '1', '2')", "'not even JSON'", "''"])
def test_an_edited_entry_is_named(clinic: Ledger, ledger_path: Path, body: str) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(f"UPDATE entry SET body = {body} WHERE seq = 3")
    assert verify(clinic) == ["entry 3 (asked) was edited"]


@pytest.mark.parametrize(
    "edit",
    [
        """UPDATE entry SET body = '{"answer":[0,0,0]}' WHERE seq = 4""",
        f"UPDATE answer SET packed = x'{answers.pack(np.array([1, -2, 4])).hex()}' WHERE seq = 4",
        "UPDATE answer SET packed = x'00' WHERE seq = 4",
        "UPDATE answer SET packed = 'text' WHERE seq = 4",
    ],
    ids=["a text in its place", "another answer", "no answer at all", "a text"],
)
def test_an_edited_answer_is_named(clinic: Ledger, ledger_path: Path, edit: str) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(edit)
    assert verify(clinic) == ["entry 4 (answered) was edited"]


@pytest.mark.parametrize("column", ["kind", "data_set", "run", "label"])
def test_an_entry_is_covered_in_every_column(clinic: Ledger, ledger_path: Path, column: str) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(f"UPDATE entry SET {column} = 'other' WHERE seq = 3")
    assert verify(clinic) == ["entry 3 (other) was edited" if column == "kind" else "entry 3 (asked) was edited"]


@pytest.mark.parametrize("seq", [1, 2, 4])
def test_a_removed_entry_is_named(clinic: Ledger, ledger_path: Path, seq: int) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute("DELETE FROM entry WHERE seq = ?", [seq])
    (problem,) = verify(clinic)
    assert problem.startswith(f"entry {seq} was removed")


def test_a_forged_entry_with_a_fresh_digest_breaks_the_chain(clinic: Ledger, ledger_path: Path) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute("UPDATE entry SET digest = replace(digest, substr(digest, 1, 1), 'x') WHERE seq = 2")
    problems = verify(clinic)
    assert problems[0] == "entry 2 (reserved) was edited"
    assert problems[1].startswith("entry 3 was removed or reordered")


def test_a_removed_tail_is_found_by_a_receipt(clinic: Ledger, ledger_path: Path) -> None:
    _, claim = finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute("DELETE FROM entry WHERE seq > 1")
        for table in ("balance", "run", "file"):
            connection.execute(f"DELETE FROM {table}")
    assert verify(clinic) == [], "a tail removed with its balances can be seen by receipts only"
    (problem,) = verify(clinic, [("release.json", claim)])
    assert "release.json was paid by entry 7, which this ledger does not have" in problem


def test_a_removed_tail_is_found_by_balances_that_were_left(clinic: Ledger, ledger_path: Path) -> None:
    run, _ = finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute("DELETE FROM entry WHERE seq > 1")
    balance, state, *listed = verify(clinic)
    assert len(listed) == 2
    assert balance == "the balance of clinic (block all) is not what its entries add to"
    assert state == f"run {run.run_id} is not in the state recorded"


def test_a_ledger_restored_from_an_older_copy_is_found_by_a_receipt(clinic: Ledger, ledger_path: Path, tmp_path: Path) -> None:
    _, first = finished(clinic)
    shutil.copy(ledger_path, tmp_path / "backup.db")
    _, second = finished(clinic, model="costs")
    clinic.engine.dispose()
    shutil.copy(tmp_path / "backup.db", ledger_path)
    restored = Ledger.open(clinic.url)
    releases = [("first.json", first), ("second.json", second)]
    for model in ("stays", "costs"):
        (problem,) = verify(restored, releases)
        assert problem.startswith("second.json was paid by entry")
        assert "older copy" in problem
        assert not restored.holds(second.receipt.seq, second.receipt.digest)
        finished(restored, model=model)  # the chain grows past the receipt's entry, with another digest there
    restored.engine.dispose()


@pytest.mark.parametrize("edit", ["UPDATE balance SET amount = '0'", "UPDATE balance SET mass = '0'", "DELETE FROM balance"])
def test_an_edited_balance_is_named(clinic: Ledger, ledger_path: Path, edit: str) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(edit)
    assert verify(clinic) == ["the balance of clinic (block all) is not what its entries add to"]


@pytest.mark.parametrize(
    "edit", ["UPDATE policy SET body = replace(body, '1.0', '50.0')", "UPDATE policy SET body = 'not JSON'", "DELETE FROM policy"]
)
def test_an_edited_policy_is_named(clinic: Ledger, ledger_path: Path, edit: str) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(edit)
    assert verify(clinic) == ["the policy of clinic is not the one recorded"]


@pytest.mark.parametrize("edit", ["UPDATE identity SET ledger_id = 'another'", "UPDATE identity SET key = '00'", "DELETE FROM identity"])
def test_an_edited_identity_is_named(clinic: Ledger, ledger_path: Path, edit: str) -> None:
    finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(edit)
    assert verify(clinic) == ["the identity of the ledger is not the one recorded"]


@pytest.mark.parametrize(
    "edit", [*(f"UPDATE file SET {column} = 'other'" for column in ("fingerprint", "data_set", "block")), "DELETE FROM file"]
)
def test_an_edited_list_of_files_is_named(clinic: Ledger, ledger_path: Path, edit: str) -> None:
    finished(clinic, files=("1000:aaaa",))
    with by_hand(ledger_path) as connection:
        connection.execute(edit)
    problems = verify(clinic)
    assert problems
    assert all(problem.startswith("the file ") for problem in problems)


@pytest.mark.parametrize("column", [column.name for column in tables.run.columns if column.name not in ("run", "state")])
def test_a_run_is_covered_in_every_column(clinic: Ledger, ledger_path: Path, column: str) -> None:
    run, _ = finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(f"UPDATE run SET {column} = {0 if column == 'private' else 7}")
    assert verify(clinic) == [f"run {run.run_id} is not the one recorded"]


@pytest.mark.parametrize("edit", ["UPDATE run SET state = 'abandoned'", "DELETE FROM run"])
def test_an_edited_run_is_named(clinic: Ledger, ledger_path: Path, edit: str) -> None:
    run, _ = finished(clinic)
    with by_hand(ledger_path) as connection:
        connection.execute(edit)
    assert verify(clinic) == [f"run {run.run_id} is not in the state recorded"]


def test_a_receipt_of_another_ledger_and_a_release_without_one_are_named(clinic: Ledger, tmp_path: Path) -> None:
    other = Ledger.create(f"sqlite:///{tmp_path / 'other.db'}")
    other.set_policy(CLINIC)
    _, claim = finished(other)
    other.engine.dispose()
    finished(clinic)
    assert verify(clinic, [("elsewhere.json", claim), ("unpaid.json", replace(claim, receipt=None))]) == [
        f"elsewhere.json was paid in another ledger ({other.ledger_id})",
        "unpaid.json has no receipt: it was not paid for",
    ]


# the file


def test_a_missing_ledger_names_the_command_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nightfit ledger init --ledger sqlite:///"):
        Ledger.open(f"sqlite:///{tmp_path / 'gone.db'}")
    assert os.listdir(tmp_path) == []


def test_a_ledger_that_is_lost_while_open_is_not_made_anew(clinic: Ledger, ledger_path: Path) -> None:
    clinic.engine.dispose()
    ledger_path.unlink()
    with pytest.raises(LedgerError, match=r"unable to open.*nightfit ledger init"):
        clinic.reserve(order())
    assert os.listdir(ledger_path.parent) == []


def test_an_existing_file_is_never_overwritten_by_a_new_ledger(clinic: Ledger, ledger_path: Path) -> None:
    before = ledger_path.read_bytes()
    with pytest.raises(LedgerError, match="never overwritten"):
        Ledger.create(clinic.url)
    assert ledger_path.read_bytes() == before


def test_an_empty_database_is_no_ledger_and_does_not_become_one(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(LedgerError, match="is not a nightfit ledger"):
        Ledger.open(f"sqlite:///{tmp_path / 'empty.db'}")
    assert (tmp_path / "empty.db").read_bytes() == b""


def test_a_file_that_is_no_database_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("rent, bread, coffee\n" * 1000)
    with pytest.raises(LedgerError, match=r"not a database.*restore it from a backup"):
        Ledger.open(f"sqlite:///{tmp_path / 'notes.txt'}")


def test_a_ledger_of_another_version_is_refused(clinic: Ledger, ledger_path: Path) -> None:
    with by_hand(ledger_path) as connection:
        connection.execute(f"UPDATE identity SET version = {tables.VERSION + 1}")
    with pytest.raises(
        LedgerError, match=f"format {tables.VERSION + 1}, this nightfit reads format {tables.VERSION}: use the matching nightfit"
    ):
        Ledger.open(clinic.url)
    with pytest.raises(LedgerError, match=f"format {tables.VERSION + 1}, this nightfit knows up to {tables.VERSION}"):
        Ledger.upgrade(clinic.url)


@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "x#y.db", "ünicode&.db"])
def test_a_ledger_lies_at_exactly_the_path_it_was_given(tmp_path: Path, name: str) -> None:
    made = Ledger.create(f"sqlite:///{tmp_path / name}")
    made.engine.dispose()
    assert os.listdir(tmp_path) == [name]
    opened = Ledger.open(f"sqlite:///{tmp_path / name}")
    assert opened.ledger_id == made.ledger_id
    opened.engine.dispose()


def test_a_ledger_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        made = Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")
    finally:
        os.umask(earlier)
    made.engine.dispose()
    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600


def test_what_identifies_the_data_is_kept_as_a_keyed_hash_only(clinic: Ledger, ledger_path: Path) -> None:
    secret = {
        "window": "/vault/oncology-ward",
        "manifest": '[["day=1/part-7.parquet", 4711008154711, "f00dfeed"]]',
        "files": ("4711008154711:f00dfeed",),
    }
    run, _ = finished(clinic, **secret)
    clinic.abandon(clinic.reserve(order(model="costs", **secret)).run_id)
    stored = ledger_path.read_bytes()
    assert run.run_id.encode() in stored
    for word in (b"oncology", b"part-7", b"4711008154711", b"f00dfeed"):
        assert word not in stored
    with by_hand(ledger_path) as connection:
        (fingerprint,) = connection.execute("SELECT fingerprint FROM file").fetchone()
    assert fingerprint == clinic.identity.keyed("file", "4711008154711:f00dfeed")


def test_the_same_data_have_other_hashes_in_another_ledger(clinic: Ledger, tmp_path: Path) -> None:
    other = Ledger.create(f"sqlite:///{tmp_path / 'other.db'}")
    other.engine.dispose()
    assert other.identity.keyed("file", "4711:f00dfeed") != clinic.identity.keyed("file", "4711:f00dfeed")


def test_every_connection_waits_for_the_disk(clinic: Ledger) -> None:
    with clinic.engine.connect() as first, clinic.engine.connect() as second:
        raw = [connection.connection.dbapi_connection for connection in (first, second)]
        assert raw[0] is not raw[1]
        assert [each.execute("PRAGMA synchronous").fetchone() for each in raw] == [(2,), (2,)]


def test_a_ledger_locked_too_long_is_a_clean_error_and_nothing_is_charged(
    clinic: Ledger, ledger_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.05)
    impatient = Ledger.open(clinic.url)
    run = impatient.reserve(order())
    charged = clinic.spent("clinic")
    with by_hand(ledger_path) as busy:
        busy.execute("BEGIN IMMEDIATE")
        for refused in (lambda: impatient.reserve(order(model="costs")), lambda: run.asked(TWO_STEPS[0]), lambda: Ledger.open(clinic.url)):
            with pytest.raises(LedgerError, match=r"locked.*nothing more was read or released.*it resumes"):
                refused()
        busy.rollback()
    assert clinic.spent("clinic") == charged
    assert kinds(ledger_path) == ["policy", "reserved"]
    impatient.engine.dispose()


def on_connect(ledger: Ledger, statement: str) -> Callable[[], None]:
    """Every connection of this ledger runs the statement first; call what is returned to undo it."""

    def run(connection: Any, _record: Any) -> None:
        connection.execute(statement)

    def undo() -> None:
        sa.event.remove(ledger.engine, "connect", run)
        ledger.engine.dispose()

    sa.event.listen(ledger.engine, "connect", run)
    ledger.engine.dispose()
    return undo


def test_on_a_full_disk_nothing_is_answered_and_the_run_resumes_when_there_is_room(clinic: Ledger, ledger_path: Path) -> None:
    wide, noise = event("wide", coordinates=100_000), np.random.default_rng(0).integers(2**50, size=100_000)
    run = clinic.reserve(order(events=(wide,)))
    run.asked(wide)
    with by_hand(ledger_path) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    undo = on_connect(clinic, f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(LedgerError, match=r"full.*free space"):
        run.answered(wide, noise)
    assert kinds(ledger_path) == ["policy", "reserved", "asked"]
    assert verify(clinic) == []
    undo()
    assert run.asked(wide) is None
    run.answered(wide, noise)
    assert close(run) == close(run)


def test_on_a_full_disk_no_reservation_is_granted(clinic: Ledger, ledger_path: Path) -> None:
    with by_hand(ledger_path) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    undo = on_connect(clinic, f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="full"):
        clinic.reserve(order(events=tuple(event(f"step {number}", share=0.001) for number in range(500))))
    undo()
    assert clinic.spent("clinic") == Cost()
    assert kinds(ledger_path) == ["policy"]


CAPPED = """
import resource
ledger = shared.Ledger.open(sys.argv[2])
wide = shared.event("wide", coordinates=100_000)
run = ledger.reserve(shared.order(events=(wide,)))
run.asked(wide)
size = os.path.getsize(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    run.answered(wide, shared.np.arange(100_000))
except shared.LedgerError as error:
    print(error)
"""


@pytest.mark.process
def test_when_the_operating_system_refuses_to_write_nothing_is_answered(clinic: Ledger, ledger_path: Path) -> None:
    assert "the ledger could not be used" in said(CAPPED, clinic.url, ledger_path)
    assert verify(clinic) == []
    assert kinds(ledger_path) == ["policy", "reserved", "asked"]


def test_a_database_that_turned_read_only_is_a_clean_error(clinic: Ledger, ledger_path: Path) -> None:
    undo = on_connect(clinic, "PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match=r"readonly.*make its file and folder writable"):
        clinic.reserve(order())
    undo()
    assert kinds(ledger_path) == ["policy"]


WITHOUT_RIGHTS = """
whole = shared.Ledger.create("sqlite://")  # loads all that another user may not be allowed to read
whole.set_policy(shared.CLINIC)
whole.reserve(shared.order())
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    shared.Ledger.open(sys.argv[2]).reserve(shared.order())
except shared.LedgerError as error:
    print(error)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("file", "folder", "cures"),
    [(0o444, 0o755, ("is read-only: make its file and folder writable",)), (0o666, 0o555, ("check its path and permissions", "writable"))],
    ids=["file", "folder"],
)
def test_a_ledger_this_user_may_not_write_is_refused_with_the_cure(
    clinic: Ledger, ledger_path: Path, file: int, folder: int, cures: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as name:  # not under tmp_path, which other users may not enter
        place = Path(name)
        copied = Path(shutil.copy(ledger_path, place / "ledger.db"))
        before = everything(copied)
        copied.chmod(file)
        place.chmod(folder)
        text = said(WITHOUT_RIGHTS, f"sqlite:///{copied}")
        place.chmod(0o755)
        assert any(cure in text for cure in cures), text
        assert everything(copied) == before


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u:hidden@h/db",
        "postgresql+psycopg://h/db?user=u&password=hidden",
        "postgresql+psycopg://u:hidden@h/db?sslpassword=hidden&sslmode=require",
    ],
)
def test_f46_no_password_of_a_url_is_shown(url):
    told = database.shown(url)
    assert "hidden" not in told
    assert "h/db" in told
    assert ("sslmode=require" in told) == ("sslmode" in url)
