"""Who is a record and who is a person, with all ids equal: a test for each row of the table in docs/explanation/identity.md."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.ledger import Ledger, LedgerError, Policy, Reservation
from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.numerics.prf import Buckets, groups_of, members_of
from nightfit.plugins import members
from nightfit.privacy.events import GaussianEvent
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.listing import DataError
from nightfit.shards.manifest import scan
from nightfit.shards.read import PersonRange, chunks_of, load
from nightfit.types import Adjacency, Block, Integers, Part, Sample, parts_of

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "identity.md"
ROWS, KEY, BITS = 400, bytes(range(16)), 20
RECORDS = Preprocessing(features=("canary",), target="y", centre=(0.0,), scale=(1.0,), intercept=False, row_id="visit")
PERSONS = replace(RECORDS, unit="patient", rows_per_unit=3, row_id=None)
QUERY = GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.zeros(1), bits=BITS)
IDS: dict[str, list[Any]] = {
    "all equal": ["same"] * ROWS,
    "all null": [None] * ROWS,
    "some null, some repeated": [None if row % 3 == 0 else f"id {row // 10}" for row in range(ROWS)],
}


def table(ids: list[Any], column: str = "visit", **changes: Any) -> pa.Table:
    """Rows that can be told apart by `canary`, which is never zero; all targets are 1."""
    columns = {"canary": np.arange(1, ROWS + 1) / (2 * ROWS), "y": np.ones(ROWS), column: pa.array(ids), **changes}
    return pa.table(columns)


def written(folder: Path, rows: pa.Table, *names: str) -> Path:
    """The rows, divided among files of these names."""
    for number, name in enumerate(names or ("part.parquet",)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        count = -(-rows.num_rows // max(1, len(names)))
        pq.write_table(rows.slice(number * count, count), folder / name)
    return folder


def block_of(folder: Path, shape: Preprocessing) -> Block:
    chunks = chunks_of(scan(str(folder)), 1, 2**26)
    return load(chunks[0] if shape.unit is None else PersonRange(0, 1, chunks), shape)


def summed(folder: Path, shape: Preprocessing) -> Integers:
    with ShardedDataset(scan(str(folder)), shape) as records:
        return records.aggregate(QUERY)


def held_in(bucket: int, block_folder: Path, shape: Preprocessing, count: int = 4) -> set[float]:
    """The canaries in a bucket."""
    block = block_of(block_folder, replace(shape, buckets=Buckets(count=count, chosen=(bucket,), key=KEY)))
    return set(block.X[block.X[:, 0] != 0, 0].tolist())


# records


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_records_are_drawn_one_by_one_whatever_their_ids(tmp_path: Path, ids: list[Any]) -> None:
    slots = block_of(written(tmp_path, table(ids)), RECORDS).slots
    assert len(set(slots.tolist())) == ROWS
    taken = {
        "sample": members_of(KEY, Sample(0.5, 3), slots),
        "part": members_of(KEY, Part(0, 2**31), slots),
        "group": groups_of(KEY, 2, slots) == 0,
    }
    for draw, chosen in taken.items():  # 200 of 400 with a deviation of 10 are expected: the key is fixed
        assert 150 < chosen.sum() < 250, draw
    parts = [members_of(KEY, part, slots) for part in parts_of(4)]
    assert (np.sum(parts, axis=0) == 1).all(), "each record is in one part"


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_records_of_one_id_share_a_bucket_and_each_is_a_unit(tmp_path: Path, ids: list[Any]) -> None:
    folder = written(tmp_path, table(ids))
    buckets = [held_in(bucket, folder, RECORDS) for bucket in range(4)]
    assert sum(map(len, buckets)) == ROWS, "each record is in one bucket"
    for group in {str(one) for one in ids}:
        canaries = {(row + 1) / (2 * ROWS) for row, one in enumerate(ids) if str(one) == group}
        assert sum(bool(bucket & canaries) for bucket in buckets) == 1
    (full, *_) = (number for number, bucket in enumerate(buckets) if bucket)
    shape = replace(RECORDS, buckets=Buckets(count=4, chosen=(full,), key=KEY))
    before, place = summed(folder, shape), round(min(buckets[full]) * 2 * ROWS) - 1
    canary = table(ids)["canary"].to_numpy().copy()
    canary[place] = -1e300
    moved = summed(written(folder, table(ids, canary=canary)), shape) - before
    assert 0 < abs(moved).max() <= QUERY.sensitivity(Adjacency.REPLACE_ONE)


def test_a_record_whose_id_changes_keeps_its_coins_and_may_change_its_bucket(tmp_path: Path) -> None:
    folders = [written(tmp_path / name, table([name] * ROWS)) for name in ("one id", "another id", "a third id")]
    first, *others = (block_of(folder, RECORDS).slots for folder in folders)
    assert all((first == slots).all() for slots in others)
    assert len({tuple(bool(held_in(bucket, folder, RECORDS)) for bucket in range(4)) for folder in folders}) > 1
    event = GaussianEvent(label="g", sensitivity=2.0**40, removal=2.0**40, sigma=2.0**43, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    policy = Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-6, blocks="hash:4", row_id="visit")
    whole = replace(policy, blocks="all", row_id=None)
    assert policy.cost([event]).amount == 2 * whole.cost([event]).amount, "a replacement may leave one bucket and enter another"


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_records_keep_their_buckets_where_files_are_moved_or_rewritten(tmp_path: Path, ids: list[Any]) -> None:
    rows = table(ids)
    first = written(tmp_path / "first", rows)
    second = written(
        tmp_path / "second", rows.take(np.random.default_rng(0).permutation(ROWS)), "day=2/b.parquet", "c.parquet", "a.parquet"
    )
    for bucket in range(4):
        assert held_in(bucket, first, RECORDS) == held_in(bucket, second, RECORDS)


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_records_of_moved_files_have_other_coins_and_no_two_the_same(tmp_path: Path, ids: list[Any]) -> None:
    slots = [block_of(written(tmp_path / name, table(ids), f"{name}.parquet"), RECORDS).slots for name in ("one", "other")]
    assert len({*slots[0].tolist(), *slots[1].tolist()}) == 2 * ROWS


def test_a_file_has_one_budget_wherever_it_is_copied_or_moved(tmp_path: Path) -> None:
    folder = written(tmp_path / "clinic", table(IDS["all equal"]), "day=1/a.parquet", "day=2/b.parquet")
    ledger, reserved = Ledger.create("sqlite://"), []
    event = GaussianEvent(label="g", sensitivity=2.0**40, sigma=2.0**45, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    for name in ("clinic", "ward"):
        ledger.set_policy(Policy(data_set=name, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-6, blocks="day"))

    def night(data_set: str, folder: Path) -> None:
        homes = scan(str(folder)).block_by_file("day")
        order = Reservation(
            model="m",
            data_set=data_set,
            unit="record",
            plan="p",
            events=(event,),
            window=f"{data_set} {len(reserved)}",
            manifest="m",
            files=tuple(homes),
            blocks=tuple(sorted(set(homes.values()))),
            homes=tuple(homes.values()),
        )
        reserved.append(ledger.reserve(order))

    night("clinic", folder)
    night("clinic", Path(shutil.copytree(folder, tmp_path / "elsewhere")))
    with pytest.raises(LedgerError, match="must not have two budgets"):
        night("ward", folder)
    (folder / "day=1" / "a.parquet").rename(folder / "day=2" / "a.parquet")
    with pytest.raises(LedgerError, match="must not have two budgets"):
        night("clinic", folder)
    shutil.copy(folder / "day=2" / "a.parquet", folder / "day=2" / "copy.parquet")
    with pytest.raises(DataError, match="copy"):
        night("clinic", folder)


def test_a_row_that_is_written_twice_is_two_records(tmp_path: Path) -> None:
    once, twice = table(IDS["all equal"]), pa.concat_tables([table(IDS["all equal"])] * 2)
    block = block_of(written(tmp_path / "twice", twice), RECORDS)
    assert len(set(block.slots.tolist())) == block.units == 2 * ROWS
    assert (summed(tmp_path / "twice", RECORDS) == 2 * summed(written(tmp_path / "once", once), RECORDS)).all()


# persons


def test_all_rows_of_one_id_are_one_person(tmp_path: Path) -> None:
    rows = table(["same"] * ROWS, "patient")
    folder = written(tmp_path, rows, "day=1/a.parquet", "day=2/b.parquet")
    assert block_of(folder, PERSONS).units == 1
    before = summed(folder, PERSONS)
    assert 0 < abs(before).max() <= 2**BITS, "one bounded contribution"
    wild = written(tmp_path, table(["same"] * ROWS, "patient", canary=np.full(ROWS, -1e300)), "day=1/a.parquet", "day=2/b.parquet")
    assert abs(summed(wild, PERSONS) - before).max() <= QUERY.sensitivity(Adjacency.REPLACE_ONE)


def test_rows_without_a_person_s_id_belong_to_nobody(tmp_path: Path) -> None:
    assert (summed(written(tmp_path / "nobody", table([None] * ROWS, "patient")), PERSONS) == 0).all()
    ids = ["same" if row % 2 else None for row in range(ROWS)]
    odd = [row for row in range(ROWS) if row % 2]
    alone = written(tmp_path / "alone", table(ids, "patient").take(odd))
    assert (summed(written(tmp_path / "both", table(ids, "patient")), PERSONS) == summed(alone, PERSONS)).all()


def test_a_person_has_one_coin_part_group_and_bucket_in_whatever_files(tmp_path: Path) -> None:
    found = set()
    for number, names in enumerate([("a.parquet",), ("day=1/x.parquet", "day=2/y.parquet", "z.parquet")]):
        block = block_of(written(tmp_path / str(number), table(["same"] * ROWS, "patient"), *names), PERSONS)
        (owner,) = block.owners.tolist()
        slots = np.array([owner], dtype=np.uint64)
        draws = [bool(members_of(KEY, draw, slots)[0]) for draw in (*parts_of(4), *(Sample(0.5, number) for number in range(20)))]
        bucket = [bool(Buckets(count=4, chosen=(one,), key=KEY).hold(slots)[0]) for one in range(4)]
        found.add((owner, *draws, int(groups_of(KEY, 8, slots)[0]), *bucket))
    assert len(found) == 1


def test_a_person_of_two_ids_is_two_persons(tmp_path: Path) -> None:
    one = summed(written(tmp_path / "one", table(["same"] * ROWS, "patient")), PERSONS)
    two = summed(written(tmp_path / "two", table(["same" if row % 2 else "other" for row in range(ROWS)], "patient")), PERSONS)
    assert 1.5 * one[0][0] < two[0][0] <= 2 * 2**BITS, "two bounded contributions, and two budgets where buckets are blocks"
    assert {held_in(bucket, tmp_path / "one", PERSONS) == set() for bucket in range(4)} == {True, False}


def test_a_person_adds_the_same_where_files_are_moved_or_rewritten(tmp_path: Path) -> None:
    rows = table(["same"] * ROWS, "patient")
    first = summed(written(tmp_path / "first", rows), PERSONS)
    mixed = rows.take(np.random.default_rng(0).permutation(ROWS))
    assert (summed(written(tmp_path / "second", mixed, "day=1/b.parquet", "a.parquet"), PERSONS) == first).all()


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_which_rows_of_a_person_are_used_depends_on_the_rows_alone_whatever_their_ids(tmp_path: Path, ids: list[Any]) -> None:
    shape, rows = replace(PERSONS, row_id="visit"), table(ids, patient=pa.array(["same"] * ROWS))
    first = summed(written(tmp_path / "first", rows), shape)
    order = np.random.default_rng(0).permutation(ROWS)
    assert (summed(written(tmp_path / "second", rows.take(order), "b.parquet", "a.parquet"), shape) == first).all()
    assert 0 < abs(first).max() <= 2**BITS


def test_an_id_is_the_same_in_every_type(tmp_path: Path) -> None:
    texts = pa.array(["7"] * ROWS)
    same = [
        pa.array([7] * ROWS, pa.int8()),
        pa.array([7] * ROWS, pa.uint64()),
        texts,
        texts.cast(pa.large_string()),
        texts.cast(pa.binary()),
    ]
    for column, shape in (("visit", RECORDS), ("patient", PERSONS)):
        folders = [
            written(tmp_path / f"{column} {number}", table(ids, column)) for number, ids in enumerate([*same, texts.dictionary_encode()])
        ]
        homes = {tuple(len(held_in(bucket, folder, shape)) > 0 for bucket in range(4)) for folder in folders}
        assert len(homes) == 1
        assert sum(homes.pop()) == 1


# the page


def rows_of_table(page: str, header: str) -> list[list[str]]:
    """The cells of a table's rows."""
    lines = page[page.index(header) :].splitlines()[2:]
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_page_has_a_row_for_each_test_and_a_test_for_each_row() -> None:
    page = PAGE.read_text()
    named = [
        re.fullmatch(r"`(test_\w+)`", row[-1]) for row in (*rows_of_table(page, "| of a record"), *rows_of_table(page, "| of a person"))
    ]
    here = [name for name in globals() if name.startswith("test_") and "page" not in name]
    assert [found[1] if found else None for found in named] == here


def test_the_page_says_what_each_method_assumes() -> None:
    named = " ".join(row[0] for row in rows_of_table(PAGE.read_text(), "| method"))
    for package in (gradient_estimators, solvers):
        for name in members(package):
            assert f"`{name}`" in named, name
