"""Blocks and windows: only what a refit reads is charged, new blocks come with full budgets, and the ledger alone decides."""

import math
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pandas.util import hash_array

from nightfit.config import ConfigError, load, parse
from nightfit.config.sections import Unsafe
from nightfit.config.specifications import largest_epsilon, refit_epsilon
from nightfit.ledger import BudgetExceeded, Ledger, LedgerError, Policy, verify
from nightfit.ledger.windows import (
    Everything,
    Last,
    Listed,
    Rotate,
    WindowError,
    window_of,
)
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.numerics.prf import Buckets
from nightfit.privacy.accounting import Cost, Currency, limit
from nightfit.queries.base import bits_for
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.manifest import DataError, hive_blocks, scan
from nightfit.types import Adjacency

ROWS = 60


def day(number):
    return f"day=2026-11-{number:02d}"


def table(seed, rows=ROWS):
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, 2))
    ids = np.arange(rows) + 1000 * seed
    return pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": X @ [1.0, -0.5], "id": ids})


def arrive(folder, number, rows=ROWS):
    (folder / "shards" / day(number)).mkdir(parents=True)
    pq.write_table(table(number, rows), folder / "shards" / day(number) / "part-0.parquet")


def config(folder, blocks="day", window="last 3 blocks", lifetime=2.0, privacy=None, **data):
    content = {
        "name": "m",
        "data": {
            "name": "d",
            "path": "shards",
            "target": "y",
            "default": {"kind": "number", "bounds": [-1, 1]},
            "row_id": "id",
            "blocks": blocks,
            **data,
        },
        "privacy": {"delta": 1e-6, "lifetime": {"epsilon": lifetime, "delta": 1e-5}, **(privacy or {"epsilon": 1.0})},
        "method": {"steps": 2},
        "cluster": {"kind": "synchronous"},
    }
    content["data"] |= {"window": window} if window is not None else {}
    (folder / "refit.yaml").write_text(yaml.safe_dump(content))
    return load(folder / "refit.yaml")


def refit(config, **options):
    job, ledger = prepare(config, **options), open_ledger(config)
    return publish(job, ledger, run_fit(job, ledger, reserve(job, ledger, again=options.get("again", False))))


@pytest.fixture
def place(tmp_path):
    for number in (9, 10, 11, 12):
        arrive(tmp_path, number)
    Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")
    return tmp_path


@pytest.fixture
def ledger(place):
    return Ledger.open(f"sqlite:///{place / 'ledger.db'}")


# hive blocks


def test_only_the_blocks_of_the_window_are_read_and_charged(place, ledger):
    settings = config(place)
    broken = place / "shards" / day(9) / "part-0.parquet"
    broken.write_bytes(b"not a Parquet file at all")
    job = prepare(settings)
    assert job.blocks == (day(10), day(11), day(12))
    assert job.plan.units == 3 * ROWS
    assert "day" not in job.plan.specification.preprocessing.features
    refit(settings)
    assert ledger.accounts("d") == dict.fromkeys(job.blocks, job.plan.cost)
    assert verify(ledger) == []


def test_the_same_night_again_is_the_same_run_and_a_new_day_has_a_full_budget(place, ledger):
    settings = config(place)
    first = refit(settings)
    assert refit(settings).release.content == first.release.content
    arrive(place, 13)
    second = refit(settings)
    cost = prepare(settings).plan.cost
    assert second.release.run_id != first.release.run_id
    assert {name: spent.amount // cost.amount for name, spent in ledger.accounts("d").items()} == {
        day(10): 1,
        day(11): 2,
        day(12): 2,
        day(13): 1,
    }


def test_used_up_blocks_are_refused_or_left_out_as_the_configuration_says(place, ledger):
    settings = config(place, lifetime=1.2)
    refit(settings)
    arrive(place, 13)
    spent = ledger.accounts("d")
    with pytest.raises(BudgetExceeded, match=r"block day=2026-11-11"):
        refit(settings)
    assert ledger.accounts("d") == spent
    skipping = config(place, lifetime=1.2, exhausted="skip")
    job = prepare(skipping)
    assert job.blocks == (day(13),)
    assert job.plan.units == ROWS
    refit(skipping)
    assert ledger.accounts("d") == spent | {day(13): job.plan.cost}
    assert prepare(skipping).blocks == (day(13),), "the finished run keeps its blocks: it is returned, not repeated"
    with pytest.raises(BudgetExceeded, match="every block of the window"):
        prepare(skipping, again=True)


def test_a_crashed_run_that_left_out_blocks_is_resumed_on_its_own_blocks(place, ledger):
    settings = config(place, lifetime=1.2, exhausted="skip")
    job = prepare(settings)
    crashed = reserve(job, open_ledger(settings))
    spent = ledger.accounts("d")
    assert prepare(settings).blocks == job.blocks, "its own reservation does not make its blocks used up"
    assert reserve(prepare(settings), ledger).run_id == crashed.run_id
    assert refit(settings).release.run_id == crashed.run_id
    assert ledger.accounts("d") == spent


def test_a_run_is_resumed_by_its_id_after_its_window_has_moved_on(place, ledger):
    settings = config(place)
    crashed = reserve(prepare(settings), open_ledger(settings))
    spent = ledger.accounts("d")
    arrive(place, 13)
    published = refit(settings, resume=crashed.run_id)
    assert published.release.run_id == crashed.run_id
    assert ledger.accounts("d") == spent
    assert refit(settings, resume=crashed.run_id).release.content == published.release.content, "a finished run is returned"
    with pytest.raises(LedgerError, match="knows no run"):
        prepare(settings, resume="m-00000000")


def test_a_run_is_resumed_by_its_id_only_as_it_was(place, ledger):
    settings = config(place)
    crashed = reserve(prepare(settings), open_ledger(settings))
    changed = config(place, privacy={"epsilon": 0.9})
    with pytest.raises(LedgerError, match="plan changed since"):
        reserve(prepare(changed, resume=crashed.run_id), ledger)
    pq.write_table(table(99), place / "shards" / day(12) / "part-0.parquet")
    with pytest.raises(LedgerError, match="data changed since"):
        reserve(prepare(config(place), resume=crashed.run_id), ledger)
    ledger.abandon(crashed.run_id)
    with pytest.raises(LedgerError, match="is abandoned"):
        reserve(prepare(config(place), resume=crashed.run_id), ledger)


def test_a_file_moved_to_another_block_does_not_get_a_second_budget(place, ledger):
    refit(config(place))
    (place / "shards" / day(12) / "part-0.parquet").rename(place / "shards" / day(12) / "gone")
    (place / "shards" / day(13)).mkdir()
    (place / "shards" / day(12) / "gone").rename(place / "shards" / day(13) / "part-0.parquet")
    spent = ledger.accounts("d")
    with pytest.raises(LedgerError, match=r"in block day=2026-11-13 is charged in block day=2026-11-12 already"):
        refit(config(place, window=None))
    assert ledger.accounts("d") == spent


def test_a_file_added_to_another_block_does_not_stop_a_run_and_one_in_the_window_does(place):
    settings = config(place)
    job, opened = prepare(settings), open_ledger(settings)
    arrive(place, 13)
    run = reserve(job, opened)
    run_fit(job, opened, run)
    job = prepare(settings)
    run = reserve(job, opened)
    pq.write_table(table(50), place / "shards" / day(13) / "late.parquet")
    with pytest.raises(DataError, match=r"late.parquet was added"):
        run_fit(job, opened, run)


def test_a_file_outside_of_any_block_is_refused(place):
    pq.write_table(table(1), place / "shards" / "stray.parquet")
    with pytest.raises(DataError, match=r"stray.parquet does not lie in one folder day="):
        prepare(config(place))


def test_blocks_are_in_order_of_numbers_if_all_are_numbers(tmp_path):
    for value in ("9", "10", "100", "-3"):
        (tmp_path / f"week={value}").mkdir()
        pq.write_table(table(1, 1), tmp_path / f"week={value}" / "part.parquet")
    assert hive_blocks(str(tmp_path), "week") == ("week=-3", "week=9", "week=10", "week=100")
    assert scan(str(tmp_path), ("week=10",)).rows == 1


# hashed blocks


def test_a_record_outside_of_the_chosen_buckets_changes_nothing():
    rng = np.random.default_rng(7)
    raw, target, slots = rng.normal(size=(500, 2)), rng.normal(size=500), rng.integers(0, 2**63, 500).astype(np.uint64)
    buckets = Buckets(count=8, chosen=(1, 6), key=bytes(range(16)))
    shape = Preprocessing(
        features=("a", "b"),
        target="y",
        centre=(0.0, 0.0),
        scale=(1.0, 1.0),
        intercept=True,
        row_id="id",
        buckets=buckets,
    )
    inside = buckets.hold(slots)
    assert 80 < inside.sum() < 170
    whole = shape.block(raw, target, ids=slots)
    assert not whole.X[~inside].any()
    assert not whole.y[~inside].any()
    assert whole.X[inside].all()
    raw[~inside], target[~inside] = 1e300, np.inf
    changed = shape.block(raw, target, ids=slots)
    assert np.array_equal(whole.X, changed.X)
    assert np.array_equal(whole.y, changed.y)
    assert "bytes" not in repr(shape)
    assert str(bytes(range(16))) not in repr(shape)
    with pytest.raises(ValueError, match="row_id"):
        replace(shape, row_id=None)


def test_buckets_are_chosen_by_the_ledger_and_the_same_for_life(place, ledger):
    settings = config(place, blocks="hash:8", window="rotate 2", privacy={"epsilon": 0.5}, lifetime=1.0)
    job = prepare(settings)
    assert job.blocks == ("bucket 0", "bucket 1")
    assert job.plan.units == 4 * ROWS * 2 // 8
    refit(settings)
    assert refit(settings).release.run_id
    assert set(ledger.accounts("d")) == {"bucket 0", "bucket 1"}, "the same files are the same run"
    refit(settings, again=True)
    assert set(ledger.accounts("d")) == {f"bucket {number}" for number in range(4)}
    assert ledger.bucket_key("d") == Ledger.open(ledger.url).bucket_key("d") != ledger.bucket_key("e")
    assert verify(ledger) == []


def test_a_refit_of_some_buckets_does_not_depend_on_the_others(place, ledger):
    exact = config(place, blocks="hash:4", window=[0, 3]).model_copy(update={"unsafe": Unsafe(noise="none")})
    opened = open_ledger(exact)
    key = opened.bucket_key("d")

    def answers(run):
        return [run.asked(event).tolist() for event in run.events.values()]

    job = prepare(exact)
    run = reserve(job, opened, unsafe=True)
    run_fit(job, opened, run)
    first = answers(run)
    for number in (9, 10, 11, 12):
        path = place / "shards" / day(number) / "part-0.parquet"
        rows = pq.read_table(path)
        slots = hash_array(np.array([str(value).encode() for value in rows["id"].to_pylist()], dtype=object), categorize=False)
        outside = ~Buckets(count=4, chosen=(0, 3), key=key).hold(slots)
        assert 0 < outside.sum() < len(outside)
        y = np.where(outside, 5.0, rows["y"].to_numpy())
        pq.write_table(rows.set_column(rows.column_names.index("y"), "y", pa.array(y)), path)
    job = prepare(exact)
    run = reserve(job, opened, unsafe=True)
    run_fit(job, opened, run)
    assert answers(run) == first


def test_hashed_blocks_need_an_id(place):
    with pytest.raises(ConfigError, match=r"data\.row_id"):
        prepare(config(place, blocks="hash:8", window="rotate 2", row_id=None))


# what is refused


@pytest.mark.parametrize(
    ("window", "blocks", "reason"),
    [
        (Last(count=30), "hash:64", "no order in time; use `rotate 30`"),
        (Rotate(count=3), "day", "only buckets of hashed ids"),
        (Rotate(count=9), "hash:8", "8 buckets only"),
        (Last(count=3), "all", "the data set is one block"),
        (Listed(blocks=("day=1",)), "all", "the data set is one block"),
        (Everything(name="2026-W46"), "day", "use `last 30 blocks`"),
    ],
)
def test_a_window_that_does_not_suit_the_blocks_is_refused_with_the_reason(window, blocks, reason):
    with pytest.raises(WindowError, match=reason):
        window.check_suits(blocks)


def test_persons_with_blocks_by_day_are_refused_with_the_reason(ledger):
    person = Policy(data_set="d", unit="patient_id", adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-6, blocks="day")
    with pytest.raises(ValueError, match="a person's rows return in many of them"):
        ledger.set_policy(person)
    assert ledger.policies() == {}
    ledger.set_policy(replace(person, blocks="hash:64"))


@pytest.mark.parametrize("blocks", ["hash:1", "hash:0", "hash:70000", "day=1", "", "a b", "../x"])
def test_what_divides_nothing_is_refused(ledger, blocks):
    with pytest.raises(ValueError, match="blocks are"):
        ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-6, blocks=blocks))


@pytest.mark.parametrize("window", [["2026-11-30"], ["2026-11-12", "2026-11-12"]])
def test_a_listed_block_that_is_not_there_or_named_twice_is_refused(place, window):
    with pytest.raises(WindowError, match=r"data\.window names"):
        prepare(config(place, window=window))


def test_listed_blocks_are_read_in_their_order(place):
    assert prepare(config(place, window=["2026-11-12", day(9)])).blocks == (day(9), day(12))


def test_a_refit_cannot_divide_a_data_set_otherwise_than_its_policy(place, ledger):
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, delta=1e-5))
    settings = config(place)
    without = settings.model_copy(update={"privacy": settings.privacy.model_copy(update={"lifetime": None})})
    for stated in (settings, without):
        with pytest.raises(ConfigError, match=r"divides it by all, and data\.blocks is day"):
            refit(stated)


# windows in words


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, Everything()),
        ("2026-W46", Everything(name="2026-W46")),
        ("last 30 blocks", Last(count=30)),
        ("last 1 block", Last(count=1)),
        ("rotate 4", Rotate(count=4)),
        (["a", 7], Listed(blocks=("a", "7"))),
    ],
)
def test_what_a_window_means(said, meant):
    assert window_of(said) == meant


@pytest.mark.parametrize("said", ["last 0 blocks", "rotate 0"])
def test_a_window_of_nothing_is_refused(said):
    with pytest.raises(ValueError, match="at least one"):
        window_of(said)


def test_rotation_takes_the_least_charged():
    there = [f"bucket {number}" for number in range(12)]
    spent = {name: Cost(amount=(number * 5) % 12) for number, name in enumerate(there)}
    assert Rotate(count=3).candidates("hash:12", there, spent) == ("bucket 0", "bucket 5", "bucket 10")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.integers(1, 7))
def test_the_nights_left_are_those_that_a_rotation_gives(paid, count):
    there = [f"bucket {number}" for number in range(len(paid))]
    spent = dict(zip(there, map(Cost, paid), strict=True))
    window, one, whole = Rotate(count=min(count, len(paid))), Cost(1), Cost(6)
    promised = window.nights_left(there, there, spent, one, whole)
    for _ in range(promised):
        chosen = window.candidates("hash", there, spent)
        assert all((spent[name] + one).fits(whole) for name in chosen)
        spent |= {name: spent[name] + one for name in chosen}
    assert not all((spent[name] + one).fits(whole) for name in window.candidates("hash", there, spent))


def test_the_plan_says_how_many_nights_are_left(place, ledger):
    settings = config(place, privacy={"pace": 5})
    open_ledger(settings)
    job = prepare(settings)
    assert job.nights == 5
    assert "goes on for ever: a block is read in 3 nights" in job.explain()
    assert "Window: 3 blocks (day=2026-11-10, day=2026-11-11, day=2026-11-12)" in job.explain()
    assert "can pay for 2 such nights, and a block would be read in 3" in Last(count=3).describe_nights(2)
    refit(settings)
    assert prepare(settings).nights == 4


# pace


@pytest.mark.parametrize("currency", [Currency.GAUSSIAN, Currency.ZCDP])
@pytest.mark.parametrize("pace", [1, 7, 365])
def test_a_pace_of_n_is_n_runs_and_not_one_more(place, currency, pace):
    lifetime = {"epsilon": 4.0, "delta": 1e-5, "currency": str(currency)}
    settings = config(place, window=None, blocks="all", privacy={"pace": pace, "delta": 1e-5, "lifetime": lifetime})
    policy, job = settings.policy(), prepare(settings)
    whole = limit(4.0, 1e-5, currency)
    assert Cost(job.plan.cost.amount * pace, job.plan.cost.mass * pace).fits(whole)
    assert job.plan.cost.amount * pace >= whole.amount * 0.9999
    assert refit_epsilon(settings, currency, policy) == job.plan.specification.budget.epsilon
    ledger = open_ledger(settings)
    assert prepare(settings).nights == pace
    reserve(job, ledger)
    assert ledger.policies()["d"] == policy


@pytest.mark.parametrize("currency", list(Currency))
def test_a_share_of_a_budget_is_the_largest_epsilon_that_fits_it(currency):
    share = limit(4.0, 1e-5, currency).amount // 7
    epsilon = largest_epsilon(share, 1e-5, currency)
    assert limit(epsilon, 1e-5, currency).amount <= share < limit(epsilon * (1 + 1e-5), 1e-5, currency).amount


def test_a_pace_needs_a_lifetime_and_room(place):
    settings = config(place, window=None, blocks="all", privacy={"pace": 10**9})
    with pytest.raises(ConfigError, match="smaller pace"):
        prepare(settings)
    without = settings.model_copy(update={"privacy": settings.privacy.model_copy(update={"lifetime": None})})
    with pytest.raises(ConfigError, match="divides a lifetime budget"):
        prepare(without)
    with pytest.raises(ConfigError, match="give epsilon or pace, not both"):
        config(place, privacy={"pace": 5, "epsilon": 1.0})


# renewal


def test_a_renewed_budget_is_one_per_year_and_says_so(place, ledger, monkeypatch):
    class Clock:
        year = 2026

        @classmethod
        def now(cls, zone):
            return datetime(cls.year, 12, 31, tzinfo=zone)

    monkeypatch.setattr("nightfit.ledger.reservations.datetime", Clock)
    lifetime = {"epsilon": 1.2, "delta": 1e-5, "per": "year"}
    settings = config(place, blocks="all", window=None, privacy={"epsilon": 1.0, "lifetime": lifetime})
    published = refit(settings)
    assert "per year" in published.balance.describe()
    assert "per year" in ledger.policies()["d"].describe()
    with pytest.raises(BudgetExceeded):
        refit(settings, again=True)
    Clock.year = 2027
    refit(settings, again=True)
    for earlier in (2026, 2025):
        Clock.year = earlier
        with pytest.raises(BudgetExceeded):
            refit(settings, again=True)
    assert sorted(ledger.accounts("d")) == ["all in 2026", "all in 2027"], "a clock set back does not reopen a year"
    assert verify(ledger) == []
    with pytest.raises(LedgerError, match="only epsilon and delta"):
        ledger.set_policy(replace(ledger.policies()["d"], per="life"), override="once for all")


@pytest.mark.parametrize("method", ["auto", "clipped"])
def test_a_window_of_few_buckets_of_many_rows_has_room_for_all_of_them(tmp_path, method):
    """From 2^21 rows up a finer grid than theirs could overflow if the chosen buckets held them all: the grid is that of the rows."""
    rows = 2**22 + 1
    (tmp_path / "big").mkdir()
    constant = pa.array(np.zeros(rows, dtype=np.int8))
    pq.write_table(pa.table({"id": constant, "x": constant, "y": constant}), tmp_path / "big" / "part.parquet")
    content = {
        "name": "m",
        "data": {
            "name": "d",
            "path": "big",
            "target": "y",
            "default": {"kind": "number", "bounds": [-1, 1]},
            "row_id": "id",
            "blocks": "hash:64",
            "window": "rotate 1",
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "method": method,
    }
    plan = prepare(parse(content, tmp_path)).plan
    assert plan.units == rows // 64
    moved = [event.sensitivity for event in plan.events if event.label.startswith("gradient")]
    outer = method == "auto"  # products of two numbers, and a grid for each: of 2 sqrt(2) times DIAGONAL they are OTHERS at most
    grids = [math.log2(steps / math.sqrt(2) * OTHERS / DIAGONAL if outer else steps / 2) for steps in moved]
    assert bits_for(plan.units) == 40
    assert len(grids) > 0
    assert all(rows * 2.0**bits < 2.0**61 for bits in grids)
    assert max(grids) > 61 - math.log2(rows) - (2.2 if outer else 1.01)
