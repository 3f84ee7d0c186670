"""A reservation believes the chain and not the table of balances, and takes as long in an old ledger as in a new one."""

import json
import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nightfit.ledger import BudgetExceeded, Ledger, LedgerError, Policy, Reservation, chain, checkpoints, tables, verify
from nightfit.ledger.database import durable
from nightfit.privacy.accounting import UNIT, Cost, Currency, renyi_order_for
from nightfit.privacy.events import GaussianEvent
from nightfit.types import WHOLE, Adjacency, Draw, Sample

POLICY = Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=2.0, delta=1e-6, currency=Currency.ZCDP)


def reservation(window: str, share: float = 0.01, draw: Draw = WHOLE, **changes: Any) -> Reservation:
    """A run of one query that costs this share of the lifetime budget."""
    sigma = 2.0**30 / math.sqrt(2 * share * float(POLICY.limit().amount * UNIT))
    event = GaussianEvent(label="g", sensitivity=2.0**30, sigma=sigma, coordinates=3, adjacency=Adjacency.ZERO_OUT, draw=draw)
    fields: dict[str, Any] = {"model": "m", "data_set": "clinic", "unit": "record", "plan": "p", "manifest": "m", "files": ()}
    return Reservation(**{**fields, "events": (event,), "window": window, **changes})


@pytest.fixture
def clinic(ledger: Ledger) -> Ledger:
    ledger.set_policy(POLICY)
    return ledger


def edit(path: Path, *statements: str) -> None:
    """Change the database as someone with sqlite3 would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def entries(path: Path, kind: str) -> list[tuple[int, dict[str, Any]]]:
    with closing(sqlite3.connect(path)) as connection:
        return [
            (seq, json.loads(body)) for seq, body in connection.execute("SELECT seq, body FROM entry WHERE kind = ? ORDER BY seq", [kind])
        ]


EDITS = ["UPDATE balance SET amount = '0'", "UPDATE balance SET mass = '7'", "DELETE FROM balance"]


@pytest.mark.parametrize("statement", EDITS)
def test_a_reservation_is_refused_where_a_balance_was_edited(clinic: Ledger, ledger_path: Path, statement: str) -> None:
    clinic.reserve(reservation("first", share=0.7))
    edit(ledger_path, statement)
    before = ledger_path.read_bytes()
    for again in (reservation("second", share=0.7), reservation("third", share=0.01)):
        with pytest.raises(
            LedgerError, match=r"balance of 'clinic' \(block all\) is not what its entries add to.*Nothing was read or charged"
        ):
            clinic.reserve(again)
    assert ledger_path.read_bytes() == before
    assert verify(clinic) == ["the balance of clinic (block all) is not what its entries add to"]


LOOSER = replace(POLICY, epsilon=20.0)
POLICY_EDITS = [
    f"UPDATE policy SET body = '{json.dumps(LOOSER.as_dict())}'",
    f"""UPDATE entry SET body = '{json.dumps(LOOSER.as_dict(), sort_keys=True, separators=(",", ":"))}' WHERE kind = 'policy'""",
]


@pytest.mark.parametrize("statements", [POLICY_EDITS[:1], POLICY_EDITS[1:], POLICY_EDITS], ids=["table", "entry", "both"])
def test_a_reservation_is_refused_where_a_policy_was_edited(clinic: Ledger, ledger_path: Path, statements: list[str]) -> None:
    clinic.reserve(reservation("first", share=0.7))
    edit(ledger_path, *statements)
    with pytest.raises(LedgerError, match=r"the policy of 'clinic' is not the one that was recorded.*Nothing was read or charged"):
        clinic.reserve(reservation("second", share=0.7))


@pytest.mark.parametrize("statement", EDITS)
def test_a_run_is_not_abandoned_where_a_balance_was_edited(clinic: Ledger, ledger_path: Path, statement: str) -> None:
    run = clinic.reserve(reservation("first", share=0.7))
    edit(ledger_path, statement)
    with pytest.raises(LedgerError, match="is not what its entries add to"):
        clinic.abandon(run.run_id)


def test_only_the_blocks_that_are_charged_are_compared(ledger: Ledger, ledger_path: Path) -> None:
    ledger.set_policy(
        Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=2.0, delta=1e-6, currency=Currency.ZCDP, blocks="day")
    )
    ledger.reserve(reservation("first", blocks=("day=1", "day=2")))
    edit(ledger_path, "UPDATE balance SET amount = '0' WHERE block = 'day=1'")
    ledger.reserve(reservation("second", blocks=("day=2", "day=3")))
    with pytest.raises(LedgerError, match="block day=1"):
        ledger.reserve(reservation("third", blocks=("day=2", "day=1")))


@pytest.mark.parametrize("charges", [3, checkpoints.CHARGES_BETWEEN + 3])
@pytest.mark.parametrize("what", ["body", "body and digest", "removed", "last body and digest"])
def test_a_reservation_notices_an_edited_or_removed_charge(clinic: Ledger, ledger_path: Path, charges: int, what: str) -> None:
    for number in range(charges):
        clinic.reserve(reservation(str(number)))
    clinic.set_policy(replace(POLICY, data_set="other"))  # one more entry at the end
    (seq, _), (last, _) = entries(ledger_path, "reserved")[-2:]
    cheaper = f"""UPDATE entry SET body = replace(body, '"cost":["', '"cost":["-') WHERE seq = {last if "last" in what else seq}"""
    edit(ledger_path, f"DELETE FROM entry WHERE seq = {seq}" if what == "removed" else cheaper)
    if "digest" in what:
        _redigest(ledger_path, last if "last" in what else seq)
    spent = durable(clinic.engine, _added_up)
    edit(ledger_path, f"UPDATE balance SET amount = '{spent}'")  # the forger keeps the table in step
    with pytest.raises(LedgerError, match=r"a charge of 'clinic' was edited or removed by hand"):
        clinic.reserve(reservation("next"))


def _redigest(path: Path, seq: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = "seq, kind, data_set, run, label, body, previous"
        row = connection.execute(f"SELECT {columns} FROM entry WHERE seq = ?", [seq]).fetchone()
        connection.execute("UPDATE entry SET digest = ? WHERE seq = ?", [chain.digest_of(*row), seq])


def _added_up(connection: Any) -> int:
    charged = chain.read(connection, tables.entry.c.kind == "reserved")
    return sum(chain.charge_of(entry).amount for entry in charged)


def test_checkpoints_bound_what_a_reservation_reads_and_change_no_sum(clinic: Ledger, ledger_path: Path) -> None:
    count = 3 * checkpoints.CHARGES_BETWEEN
    one = POLICY.cost(reservation("w", share=0.001).events)
    for number in range(count):
        clinic.reserve(reservation(str(number), share=0.001))
        spending = durable(clinic.engine, lambda connection: checkpoints.recompute(connection, "clinic"))
        assert spending.charges < checkpoints.CHARGES_BETWEEN
        assert spending.balances == clinic.accounts("clinic") == {"all": Cost((number + 1) * one.amount, (number + 1) * one.mass)}
    assert [body["balances"]["all"][0] for _, body in entries(ledger_path, "checkpoint")] == [
        str(k * checkpoints.CHARGES_BETWEEN * one.amount) for k in (1, 2, 3)
    ]
    assert verify(clinic) == []


def test_a_wrong_checkpoint_is_found_by_verify(clinic: Ledger, ledger_path: Path) -> None:
    clinic.reserve(reservation("first"))
    spending = durable(clinic.engine, lambda connection: checkpoints.recompute(connection, "clinic"))
    assert spending.last is not None
    wrong = {"all": Cost(1, 0)}
    durable(clinic.engine, lambda connection: checkpoints.append_checkpoint(connection, "clinic", wrong, False, spending.last))
    assert verify(clinic) == ["the checkpoint of clinic (entry 3) is not what its entries add to"]


def test_refunds_are_counted_before_and_after_a_checkpoint(clinic: Ledger) -> None:
    run = clinic.reserve(reservation("given up", share=0.5))
    for number in range(checkpoints.CHARGES_BETWEEN):
        clinic.reserve(reservation(str(number), share=0.001))
    with pytest.raises(BudgetExceeded):
        clinic.reserve(reservation("large", share=0.6))
    clinic.abandon(run.run_id)
    clinic.reserve(reservation("large", share=0.6))
    assert verify(clinic) == []


def test_a_checkpoint_remembers_that_the_policy_fixed_a_renyi_order(clinic: Ledger) -> None:
    sampled = reservation("sampled", draw=Sample(0.01, 0))
    clinic.reserve(sampled)
    for number in range(checkpoints.CHARGES_BETWEEN):
        clinic.reserve(reservation(str(number), share=0.001))
        assert clinic.single_order("clinic")
    assert clinic.spent("clinic").amount > POLICY.cost(sampled.events).amount
    assert POLICY.renyi_order == renyi_order_for(POLICY.epsilon, POLICY.delta)
    with pytest.raises(LedgerError, match="cannot be changed any more"):
        clinic.set_policy(replace(POLICY, epsilon=1.0))


def test_each_data_set_has_checkpoints_of_its_own(clinic: Ledger, ledger_path: Path) -> None:
    clinic.set_policy(replace(POLICY, data_set="ward"))
    for number in range(checkpoints.CHARGES_BETWEEN):
        clinic.reserve(reservation(str(number), share=0.001))
        clinic.reserve(reservation(str(number), share=0.002, data_set="ward"))
    (_, clinics), (_, wards) = entries(ledger_path, "checkpoint")
    assert int(wards["balances"]["all"][0]) > 1.9 * int(clinics["balances"]["all"][0])
    assert verify(clinic) == []
