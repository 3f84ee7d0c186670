"""From records to persons, and to other blocks: whoever was in a run has paid for it, whatever the ledger counts afterwards."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import ConfigError, load
from nightfit.ledger import Binding, Ledger, LedgerError, Policy, Reservation, Run, chain, checkpoints, tables, verify
from nightfit.ledger.database import durable
from nightfit.ledger.policy_migration import Migration, migrate
from nightfit.nightly import open_ledger, prepare, reserve, run_fit
from nightfit.privacy.accounting import UNIT, Cost, Currency, CurrencyError
from nightfit.privacy.accounting.smooth import smooth_gaussian_shift
from nightfit.privacy.events import GaussianEvent, RepeatedEvent, SelectionEvent, SmoothGaussianEvent
from nightfit.release import assumptions
from nightfit.release.burndown import block_budgets, page
from nightfit.types import Adjacency, Sample, parts_of

RECORDS = Policy(data_set="clinic", adjacency=Adjacency.REPLACE_ONE, epsilon=8.0, delta=1e-5)
PERSONS = Migration(data_set="clinic", unit="patient_id", blocks="all", rows=5)
BUCKETS = Migration(data_set="clinic", unit="record", blocks="hash:4", row_id="visit")
DAYS = Migration(data_set="clinic", unit="record", blocks="day", existing=("day=1", "day=2"), homes={"1:a": "day=1", "1:b": "day=2"})


def gaussian(mu: float = 0.01, label: str = "gradient 1", **changes: Any) -> GaussianEvent:
    fields: dict[str, Any] = {"coordinates": 3, "adjacency": Adjacency.REPLACE_ONE} | changes
    return GaussianEvent(label=label, sensitivity=mu * 2.0**40, sigma=2.0**40, **fields)


def order(window: str = "night 1", event: Any = None, **changes: Any) -> Reservation:
    stated: dict[str, Any] = {"unit": "record", "files": ("1:a", "1:b"), "events": (event or gaussian(),)} | changes
    return Reservation(model="m", data_set="clinic", plan="p", window=window, manifest="m", **stated)


def done(ledger: Ledger, reservation: Reservation) -> Cost:
    """A finished run; what it cost."""
    run: Run = ledger.reserve(reservation)
    for event in run.events.values():
        run.asked(event)
        run.answered(event, np.zeros(3, dtype=np.int64))
    run.finish(Binding.of({"private": True, "plan_digest": "p", "events": [event.as_dict() for event in reservation.events]}))
    return ledger.policies()["clinic"].cost(reservation.events)


@pytest.fixture
def clinic(ledger: Ledger) -> Ledger:
    ledger.set_policy(RECORDS)
    return ledger


def entries(ledger: Ledger) -> int:
    return durable(ledger.engine, lambda connection: chain.end(connection)[0])


# what everybody starts with


def test_a_person_of_k_rows_has_spent_k_squared_times_what_a_record_has(clinic: Ledger) -> None:
    costs = [done(clinic, order(f"night {number}", gaussian(0.01 * number))) for number in (1, 2, 3)]
    lost = clinic.reserve(order("lost"))
    assert clinic.abandon(lost.run_id).amount > 0
    started = migrate(clinic, PERSONS)
    mass = sum(math.ceil(gaussian(0.01 * number).lattice_mass / UNIT) for number in (1, 2, 3))
    assert started == {"": Cost(25 * sum(cost.amount for cost in costs), mass)}
    assert clinic.spent("clinic") == started[""]
    assert clinic.policies()["clinic"].earlier_rows == 5
    after = done(clinic, order("night 4", unit="patient_id"))
    assert clinic.spent("clinic") == started[""] + after
    assert verify(clinic) == []


def test_a_run_that_read_several_blocks_counts_once(ledger: Ledger) -> None:
    ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.REPLACE_ONE, epsilon=8.0, delta=1e-5, blocks="hash:4", row_id="visit"))
    buckets = {"buckets": 4, "row_id": "visit"}
    first = done(ledger, order("1", blocks=("bucket 0", "bucket 1"), **buckets))
    second = done(ledger, order("2", blocks=("bucket 2",), **buckets))
    migrate(ledger, Migration(data_set="clinic", unit="patient_id", blocks="hash:2", rows=3))
    assert {account: cost.amount for account, cost in ledger.accounts("clinic").items()} == dict.fromkeys(
        ("bucket 0", "bucket 1"), 9 * (first + second).amount
    )
    assert ledger.policies()["clinic"].row_id is None
    assert verify(ledger) == []


@pytest.mark.parametrize("migration", [BUCKETS, DAYS], ids=["buckets", "days"])
def test_every_new_block_starts_with_what_the_one_block_has_spent(clinic: Ledger, migration: Migration) -> None:
    whole = done(clinic, order("1")) + done(clinic, order("2"))
    migrate(clinic, migration)
    expected = ("bucket 0", "bucket 1", "bucket 2", "bucket 3") if migration is BUCKETS else ("day=1", "day=2")
    assert clinic.accounts("clinic") == dict.fromkeys(expected, whole)
    assert verify(clinic) == []


def test_a_day_that_comes_later_starts_at_zero_and_files_keep_their_day(clinic: Ledger) -> None:
    done(clinic, order("1"))
    migrate(clinic, DAYS)
    fresh = done(clinic, order("2", blocks=("day=3",), files=("1:c",), homes=("day=3",)))
    assert clinic.spent("clinic", "day=3") == fresh
    with pytest.raises(LedgerError, match="two budgets"):
        clinic.reserve(order("3", blocks=("day=3",), files=("1:a",), homes=("day=3",)))
    done(clinic, order("4", blocks=("day=1",), files=("1:a",), homes=("day=1",)))
    assert verify(clinic) == []


def test_a_file_that_was_charged_and_has_no_folder_now_is_not_read_in_a_new_one(clinic: Ledger) -> None:
    done(clinic, order("1", files=("1:a", "1:b", "1:gone")))
    migrate(clinic, DAYS)
    with pytest.raises(LedgerError, match="two budgets"):
        clinic.reserve(order("2", blocks=("day=3",), files=("1:gone",), homes=("day=3",)))


def test_records_may_get_other_blocks_first_and_become_persons_later(clinic: Ledger) -> None:
    """Runs before both migrations count k^2 times once, not k^2 times what every bucket began with, and none is forgotten."""
    first = done(clinic, order("1"))
    migrate(clinic, BUCKETS)
    second = done(clinic, order("2", blocks=("bucket 1",), buckets=4, row_id="visit"))
    assert migrate(clinic, Migration(data_set="clinic", unit="patient_id", blocks="all", rows=5))[""].amount == 25 * (first + second).amount
    third = done(clinic, order("3", unit="patient_id"))
    last = migrate(clinic, Migration(data_set="clinic", unit="patient_id", blocks="hash:4"))
    assert last[""].amount == 25 * (first + second).amount + third.amount
    assert clinic.policies()["clinic"].earlier_rows == 5
    assert verify(clinic) == []


def test_budgets_per_year_are_counted_year_by_year(ledger: Ledger) -> None:
    ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.REPLACE_ONE, epsilon=8.0, delta=1e-5, per="year"))
    cost = done(ledger, order("1"))
    ((account, spent),) = ledger.accounts("clinic").items()
    assert spent == cost
    year = account.removeprefix("all")
    assert migrate(ledger, PERSONS)[year].amount == 25 * cost.amount
    assert list(ledger.accounts("clinic")) == [account]
    done(ledger, order("2", unit="patient_id"))
    assert verify(ledger) == []


def test_masses_of_a_group_are_those_that_each_event_proves() -> None:
    """Of the lattice: the same. Of a noise that is (epsilon, delta) private: delta (e^(k epsilon) - 1) / (e^epsilon - 1)."""
    assert gaussian().mass_of_group(Currency.GAUSSIAN, 7) == gaussian().lattice_mass
    assert gaussian().mass_of_group(Currency.ZCDP, 7) == 0
    shift = smooth_gaussian_shift(0.5, 1e-9, 0.01, 3)
    smooth = SmoothGaussianEvent(
        label="s", smoothness=0.01, shift=shift, epsilon=0.5, delta=1e-9, coordinates=3, adjacency=Adjacency.REPLACE_ONE
    )
    expected = 1e-9 * (math.exp(7 * 0.5) - 1) / (math.exp(0.5) - 1)
    assert float(smooth.mass_of_group(Currency.ZCDP, 7)) == pytest.approx(expected, rel=1e-9)
    assert smooth.mass_of_group(Currency.ZCDP, 7) >= Fraction(expected) * (1 - Fraction(1, 10**13))
    chosen = SelectionEvent(label="c", sensitivity=1.0, scale=10.0, chosen=2, coordinates=9, adjacency=Adjacency.REPLACE_ONE)
    assert chosen.mass_of_group(Currency.ZCDP, 7) == 0
    for event in (
        gaussian(adjacency=Adjacency.ZERO_OUT, draw=Sample(rate=0.1, number=0)),
        RepeatedEvent(label="r", attempt_rho=0.01, mean=4, coordinates=3, adjacency=Adjacency.REPLACE_ONE),
    ):
        with pytest.raises(CurrencyError, match="nothing is proved for a group"):
            event.mass_of_group(Currency.ZCDP, 7)


def test_rows_of_a_person_in_several_parts_pay_for_the_masses_of_all(clinic: Ledger) -> None:
    halves = tuple(gaussian(0.01, f"half {number}", draw=part) for number, part in enumerate(parts_of(2)))
    cost = done(clinic, order("1", events=halves))
    each = math.ceil(halves[0].lattice_mass / UNIT)
    assert migrate(clinic, PERSONS)[""].mass == 2 * each
    assert cost.mass >= each


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), adjacency=st.sampled_from(Adjacency))
def test_no_person_has_spent_more_than_the_ledger_says(tmp_path_factory: pytest.TempPathFactory, data: Any, adjacency: Adjacency) -> None:
    """Any division, runs, windows and migrations; a person with up to k rows anywhere before, and in one bucket afterwards.

    The true cost of run i: (number of the person's rows in the blocks that it read)^2 mu_i^2, and mu_i^2 for a person who is one unit.
    """
    ledger = Ledger.create(f"sqlite:///{tmp_path_factory.mktemp('random') / 'ledger.db'}")
    ledger.set_policy(
        Policy(data_set="clinic", adjacency=adjacency, epsilon=8.0, delta=1e-5, blocks="hash:4", row_id="visit")
        if data.draw(st.booleans())
        else Policy(data_set="clinic", adjacency=adjacency, epsilon=8.0, delta=1e-5)
    )
    rows = data.draw(st.integers(1, 6))
    at = {count: data.draw(st.lists(st.integers(0, count - 1), min_size=rows, max_size=rows)) for count in (1, 2, 4)}
    true, number, persons = Fraction(0), 0, False
    for phase in data.draw(st.lists(st.sampled_from(["division", "person", "run", "run"]), min_size=3, max_size=8)):
        policy = ledger.policies()["clinic"]
        count = 1 if policy.blocks == "all" else int(policy.blocks[5:])
        if phase == "run":
            number += 1
            read = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
            mu = data.draw(st.sampled_from([0.001, 0.01, 0.02]))
            blocks = ("all",) if count == 1 else tuple(f"bucket {one}" for one in read)
            buckets = {} if count == 1 else {"buckets": count, "row_id": policy.row_id}
            done(ledger, order(str(number), gaussian(mu, adjacency=adjacency), blocks=blocks, unit=policy.unit, **buckets))
            hit = int(at[count][0] in read) if persons else sum(one in read for one in at[count])
            true += hit**2 * gaussian(mu).mu_squared
        elif phase == "person" and not persons:
            persons = True
            migrate(ledger, Migration(data_set="clinic", unit="patient_id", blocks=policy.blocks, rows=rows))
        elif phase == "division":
            blocks = data.draw(st.sampled_from(["all", "hash:2", "hash:4"]))
            if blocks != policy.blocks:
                column = None if persons or blocks == "all" else data.draw(st.sampled_from(["visit", "visit2"]))
                migrate(ledger, Migration(data_set="clinic", unit=policy.unit, blocks=blocks, row_id=column))
    policy = ledger.policies()["clinic"]
    count = 1 if policy.blocks == "all" else int(policy.blocks[5:])
    if persons:
        block = "all" if count == 1 else f"bucket {at[count][0]}"
        assert ledger.spent("clinic", block).amount * UNIT >= true
    assert verify(ledger) == []
    ledger.engine.dispose()


# what is refused, with nothing changed


@pytest.mark.parametrize(
    ("migration", "said"),
    [
        (Migration(data_set="other", unit="patient_id", blocks="all", rows=2), "no policy"),
        (Migration(data_set="clinic", unit="patient_id", blocks="all"), "state how many rows"),
        (Migration(data_set="clinic", unit="patient_id", blocks="all", rows=0), "state how many rows"),
        (
            Migration(data_set="clinic", unit="patient_id", blocks="day", rows=2, existing=("day=1",)),
            "cannot be protected by blocks of day",
        ),
        (Migration(data_set="clinic", unit="record", blocks="hash:4", row_id="visit", rows=2), "leave it out"),
        (Migration(data_set="clinic", unit="record", blocks="hash:4"), "name the column"),
        (Migration(data_set="clinic", unit="record", blocks="all"), "neither unit nor blocks"),
        (Migration(data_set="clinic", unit="label", blocks="all", rows=2), "local reports"),
        (Migration(data_set="clinic", unit="record", blocks="day"), "no folder day="),
        (Migration(data_set="clinic", unit="record", blocks="day", existing=("day=1",), homes={"1:c": "day=1"}), "none of the files"),
        (Migration(data_set="clinic", unit="patient_id", blocks="all", rows=1000), "costs one patient_id epsilon"),
    ],
    ids=range(11),
)
def test_what_is_no_migration_is_refused_and_nothing_changes(clinic: Ledger, migration: Migration, said: str) -> None:
    done(clinic, order("1", gaussian(0.05)))
    before, spent = entries(clinic), clinic.accounts("clinic")
    with pytest.raises(LedgerError, match=said):
        migrate(clinic, migration)
    assert entries(clinic) == before
    assert clinic.accounts("clinic") == spent
    assert clinic.policies()["clinic"] == RECORDS
    assert verify(clinic) == []


def test_persons_do_not_become_records_again(clinic: Ledger) -> None:
    migrate(clinic, PERSONS)
    with pytest.raises(LedgerError, match="cannot be taken back"):
        migrate(clinic, Migration(data_set="clinic", unit="record", blocks="all"))
    with pytest.raises(LedgerError, match="cannot be taken back"):
        migrate(clinic, Migration(data_set="clinic", unit="family_id", blocks="all", rows=3))


@pytest.mark.parametrize(
    "event",
    [
        gaussian(adjacency=Adjacency.ZERO_OUT, draw=Sample(rate=0.1, number=0)),
        RepeatedEvent(label="r", attempt_rho=1e-4, mean=4, coordinates=3, adjacency=Adjacency.ZERO_OUT),
    ],
    ids=["sample", "search"],
)
@pytest.mark.parametrize("migration", [PERSONS, BUCKETS], ids=["persons", "buckets"])
def test_samples_and_repeated_searches_are_not_migrated(ledger: Ledger, event: Any, migration: Migration) -> None:
    ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=8.0, delta=1e-5, currency=Currency.ZCDP))
    done(ledger, order("1", event))
    with pytest.raises(LedgerError, match="Poisson samples, a repeated search"):
        migrate(ledger, migration)


def test_an_unfinished_run_is_named_and_finished_or_given_up_first(clinic: Ledger) -> None:
    run = clinic.reserve(order("1"))
    with pytest.raises(LedgerError, match=run.run_id):
        migrate(clinic, PERSONS)
    clinic.abandon(run.run_id)
    assert migrate(clinic, PERSONS) == {}


def test_a_run_of_records_is_refused_afterwards(clinic: Ledger) -> None:
    migrate(clinic, PERSONS)
    with pytest.raises(LedgerError, match="protects one patient_id"):
        clinic.reserve(order("1"))


def test_a_policy_that_is_tightened_later_keeps_the_rows_of_before(clinic: Ledger) -> None:
    done(clinic, order("1"))
    migrate(clinic, PERSONS)
    clinic.set_policy(Policy(data_set="clinic", unit="patient_id", adjacency=Adjacency.REPLACE_ONE, epsilon=4.0, delta=1e-5))
    assert clinic.policies()["clinic"].earlier_rows == 5


# verify


@pytest.mark.parametrize(
    "forge",
    [
        lambda body: body["totals"].update({"": ["1", "1"]}),
        lambda body: body["balances"].update({"all": ["1", "1"]}),
        lambda body: body.update(balances={}),
        lambda body: body.update(rows=1),
        lambda body: body.update(before={**body["before"], "epsilon": 2.0}),
    ],
    ids=["totals", "balance", "no balance", "rows", "policy"],
)
def test_a_migration_that_was_forged_with_right_digests_is_named(clinic: Ledger, forge: Callable[[dict[str, Any]], Any]) -> None:
    """Written by the ledger's own means: the chain is whole, and what it says is not what runs cost."""
    done(clinic, order("1"))
    migrate(clinic, PERSONS)

    def rewrite(connection: sa.Connection) -> None:
        last = connection.execute(sa.select(tables.entry).order_by(tables.entry.c.seq.desc()).limit(2)).all()
        policy, migrated = (chain.parsed(row) for row in last)
        connection.execute(tables.entry.delete().where(tables.entry.c.seq >= migrated.seq))
        forge(migrated.body)
        chain.append(connection, "migrated", "clinic", migrated.body)
        chain.append(connection, "policy", "clinic", policy.body)

    durable(clinic.engine, rewrite)
    assert any("migration of clinic" in problem for problem in verify(clinic))


def test_a_reservation_notices_an_edited_migration(clinic: Ledger) -> None:
    done(clinic, order("1"))
    migrate(clinic, PERSONS)

    def edit(connection: sa.Connection) -> None:
        body = chain.read(connection, tables.entry.c.kind == "migrated")[0].body
        body["balances"]["all"] = ["0", "0"]
        connection.execute(tables.entry.update().where(tables.entry.c.kind == "migrated").values(body=json.dumps(body)))
        connection.execute(tables.balance.update().values(amount=0, mass=0))

    durable(clinic.engine, edit)
    with pytest.raises(LedgerError, match="edited or removed by hand"):
        clinic.reserve(order("2", unit="patient_id"))


def test_charges_after_a_migration_are_added_to_what_it_began_with(clinic: Ledger) -> None:
    """Also over a checkpoint, and in the burn-down."""
    done(clinic, order("1"))
    begun = migrate(clinic, PERSONS)[""]
    each = [done(clinic, order(f"later {number}", gaussian(0.001), unit="patient_id")) for number in range(checkpoints.CHARGES_BETWEEN + 2)]
    assert clinic.spent("clinic") == sum(each, begun)
    assert verify(clinic) == []
    (block,) = block_budgets(clinic, "clinic")
    limit = clinic.policies()["clinic"].limit()
    assert block.left == pytest.approx(1 - sum(each, begun).amount / limit.amount)
    assert block.tight == block.enforced
    assert "clinic" in page(clinic)


# as a user


def test_a_user_who_began_with_records_goes_on_with_persons(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 3000)
    (tmp_path / "clinic").mkdir()
    pq.write_table(pa.table({"patient_id": np.arange(3000) // 3, "x": x, "y": 2 * x}), tmp_path / "clinic" / "part.parquet")
    content: dict[str, Any] = {
        "name": "visits",
        "data": {
            "path": "clinic",
            "target": {"column": "y", "bounds": [-4, 4]},
            "columns": {"x": {"kind": "number", "bounds": [-1, 1]}},
            "window": "first",
        },
        "privacy": {"epsilon": 0.1, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "method": {"steps": 3},
        "cluster": {"kind": "synchronous"},
    }

    def configured(**data: Any) -> Any:
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content | {"data": content["data"] | data}))
        return load(tmp_path / "refit.yaml")

    ledger = Ledger.create(configured().ledger_url)
    job = prepare(configured())
    run_fit(job, open_ledger(job.config), reserve(job, open_ledger(job.config)))
    people = configured(unit="patient_id", units=1000, window="second")
    with pytest.raises(ConfigError, match="nightfit ledger policy migrate clinic"):
        prepare(people)
    said = CliRunner().invoke(
        app,
        [
            "ledger",
            "policy",
            "migrate",
            "clinic",
            "--unit",
            "patient_id",
            "--rows-per-person",
            "3",
            "--config",
            str(tmp_path / "refit.yaml"),
        ],
    )
    assert said.exit_code == 0, said.output
    assert "Every block starts with what all earlier runs cost one patient_id: epsilon 0." in " ".join(said.output.split())
    job = prepare(people)
    opened = open_ledger(people)
    release = run_fit(job, opened, reserve(job, opened))
    guarantee = release.content["guarantee"]
    assert (guarantee["unit"], guarantee["earlier_rows"]) == ("patient_id", 3)
    assert assumptions.Assumption.EARLIER_ROWS_ARE_BOUNDED in guarantee["assumptions"]
    assert verify(ledger) == []
