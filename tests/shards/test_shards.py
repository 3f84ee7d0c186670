"""From Parquet to exact integers: the same whatever the files, chunks and workers, and not a value in any error or log."""

import contextlib
import datetime
import decimal
import io
import json
import os
import socket
import sqlite3
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client
from fsspec.implementations.local import LocalFileSystem

from nightfit.ledger import Ledger, Policy, Reservation
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import Category
from nightfit.records.columns.date import Date
from nightfit.records.columns.number import Number
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import placement, read, tree
from nightfit.shards.cluster import ClusterError, Local, Remote, Synchronous, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.failures import FileChanged
from nightfit.shards.manifest import DataError, check_unchanged, scan
from nightfit.shards.read import BUFFER_BYTES, blocks, chunks_of
from nightfit.shards.schema import check_columns, check_kinds
from nightfit.shards.tasks import merge_partials
from nightfit.shards.watchdog import workers_of
from nightfit.types import WHOLE, Adjacency, Block, Integers

Write = Callable[..., Path]

FEATURES = ("x0", "x1", "x2")
BOUNDS = Preprocessing(features=FEATURES, target="y", centre=(0.0, 0.5, -0.5), scale=(4.0, 2.0, 1.0), target_scale=3.0, intercept=True)
WEIGHTS = np.array([0.3, -0.2, 0.1, 0.05])
QUERIES = (
    GradientSum(loss=Huber(), bounding=L2Clip(bound=1.0), weights=WEIGHTS, bits=40),
    GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=WEIGHTS, bits=40),
)
QUERY = QUERIES[0]
ROW = 8 * (BOUNDS.columns + 1)


def direct(table: pa.Table, query: GradientSum = QUERY) -> Integers:
    """The query on all rows at once, with neither Parquet nor Dask."""
    raw = np.column_stack([table[name].to_numpy() for name in FEATURES])
    return query.chunk(BOUNDS.block(raw, table["y"].to_numpy()))


def rows(**columns: Any) -> pa.Table:
    """A small table; columns given replace or extend those of BOUNDS."""
    count = len(next(iter(columns.values()))) if columns else 3
    return pa.table({**{name: np.linspace(0.0, 1.0, count) for name in (*FEATURES, "y")}, **columns})


def spoil(path: Path) -> None:
    """Overwrite every byte between the leading magic and the footer, as a bad disk would."""
    content = bytearray(path.read_bytes())
    (footer,) = struct.unpack("<I", content[-8:-4])
    end = len(content) - 8 - footer
    content[4:end] = b"\xff" * (end - 4)
    path.write_bytes(content)


# the manifest: footers only


def test_shards_are_listed_by_name_with_rows_and_types(table: pa.Table, write: Write) -> None:
    manifest = scan(str(write("flat", table, [100, 250, 350], row_group_size=100)))
    assert [shard.name for shard in manifest.shards] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert [shard.row_groups for shard in manifest.shards] == [(100,), (100, 100, 50), (100, 100, 100, 50)]
    assert manifest.rows == 700
    assert manifest.types == dict.fromkeys((*FEATURES, "y"), "double")


def test_a_hive_folder_is_listed_by_its_relative_names(table: pa.Table, write: Write) -> None:
    names = ["day=1/part.parquet", "day=2/part.parquet", "_temporary/part.parquet", "day=2/.part.crc.parquet"]
    folder = write("hive", table, [300, 300, 50, 50], names)
    (folder / "_SUCCESS").touch()
    manifest = scan(str(folder))
    assert [shard.name for shard in manifest.shards] == names[:2]
    assert manifest.rows == 600


def test_a_single_file_a_glob_and_a_url_are_data_sets_too(table: pa.Table, write: Write) -> None:
    folder = write("flat", table, [300, 400])
    assert [shard.name for shard in scan(str(folder / "part-00001.parquet")).shards] == ["part-00001.parquet"]
    assert [shard.name for shard in scan(str(folder / "*1.parquet")).shards] == ["part-00001.parquet"]
    assert scan(f"file://{folder}").identity() == scan(str(folder)).identity() == scan(f"{folder}/").identity()


def test_a_memory_url_is_scanned_and_summed(table: pa.Table, write: Write) -> None:
    folder = write("flat", table, [300, 400])
    memory = fsspec.filesystem("memory")
    try:
        memory.put(str(folder), "/nightfit-clinic", recursive=True)
        manifest = scan("memory://nightfit-clinic")
        assert manifest.fingerprints() == scan(str(folder)).fingerprints()
        assert (ShardedDataset(manifest, BOUNDS).aggregate(QUERY) == direct(table)).all()
    finally:
        memory.rm("/nightfit-clinic", recursive=True)


@pytest.mark.parametrize("pattern", ["*/part.parquet", "day=*/*.parquet", "**/*.parquet", "day=[12]/part.parquet"])
def test_files_of_one_name_in_several_folders_are_each_counted_once(table: pa.Table, write: Write, pattern: str) -> None:
    folder = write("hive", table, [350, 350], ["day=1/part.parquet", "day=2/part.parquet"])
    manifest = scan(f"{folder}/{pattern}")
    assert [shard.name for shard in manifest.shards] == ["day=1/part.parquet", "day=2/part.parquet"]
    assert (ShardedDataset(manifest, BOUNDS).aggregate(QUERY) == direct(table)).all()


def test_scanning_reads_the_footer_and_no_row(table: pa.Table, write: Write) -> None:
    folder = write("flat", table, [300, 400])
    whole = scan(str(folder))
    for path in folder.iterdir():
        spoil(path)
    spoiled = scan(str(folder))
    assert [shard.footer for shard in spoiled.shards] == [shard.footer for shard in whole.shards]
    assert spoiled.identity() != whole.identity()
    assert spoiled.rows == 700
    with pytest.raises(DataError, match=r"row group 0 of part-00000\.parquet cannot be decoded"):
        ShardedDataset(spoiled, BOUNDS).aggregate(QUERY)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: b"PAR1",
        lambda content: content[:-8] + b"\xff\xff\xff\xff" + b"PAR1",
        lambda content: content[:-8] + b"\x00\x00\x00\x00" + b"PAR1",
        lambda content: content[:-60] + b"\xff" * 52 + content[-8:],
        lambda content: b"x0,x1\n1,2\n" * 40,
    ],
    ids=["halved", "one byte short", "empty", "magic only", "footer too long", "footer of nothing", "footer garbled", "text"],
)
def test_a_damaged_file_is_named_before_any_charge(table: pa.Table, write: Write, damage: Callable[[bytes], bytes]) -> None:
    folder = write("flat", table, [300, 400])
    victim = folder / "part-00001.parquet"
    victim.write_bytes(damage(victim.read_bytes()))
    with pytest.raises(DataError, match=r"part-00001.parquet is not a readable Parquet file .*: restore or remove it"):
        scan(str(folder))


def test_files_that_are_not_called_parquet_are_not_passed_over_in_silence(table: pa.Table, write: Write, tmp_path: Path) -> None:
    folder = write("flat", table, [300, 400])
    (folder / "notes.csv").write_text("x0,y\n1,2\n")
    with pytest.raises(DataError, match=r"notes.csv lies among the shards"):
        scan(str(folder))
    assert scan(f"{folder}/*.parquet").rows == 700
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "notes.csv").write_text("x0,y\n1,2\n")
    for nothing in ("texts", "nowhere", "nowhere/*.parquet"):
        with pytest.raises(DataError, match=r"no Parquet file at .*check data.path"):
            scan(str(tmp_path / nothing))


SECRET = 918273.5


@pytest.mark.parametrize(
    ("other", "column"),
    [
        (rows().drop_columns(["x1"]), "x1"),
        (rows().rename_columns(["x0", "X1", "x2", "y"]), "x1|X1"),
        (rows(extra=[SECRET, SECRET, SECRET]), "extra"),
        (rows(x1=[int(SECRET), int(SECRET), 1]), "x1"),
        (rows(x1=pa.array([SECRET, SECRET, 1.0], pa.float32())), "x1"),
        (rows(x1=[str(SECRET), "b", "c"]), "x1"),
    ],
    ids=["missing", "renamed", "extra", "integers", "single precision", "text"],
)
def test_shards_of_two_schemas_are_refused_naming_column_and_shard_and_no_value(write: Write, other: pa.Table, column: str) -> None:
    folder = write("flat", rows(x0=[SECRET, SECRET, SECRET]))
    pq.write_table(other, folder / "part-00001.parquet")
    with pytest.raises(DataError) as refused:
        scan(str(folder))
    text = str(refused.value)
    assert any(f"column {name!r}" in text for name in column.split("|"))
    assert "part-00001.parquet" in text
    assert "918273" not in text


def test_columns_in_another_order_are_the_same_schema(table: pa.Table, write: Write) -> None:
    folder = write("flat", table.slice(0, 300))
    pq.write_table(table.slice(300).select(["y", "x2", "x0", "x1"]), folder / "part-00001.parquet")
    assert (ShardedDataset(scan(str(folder)), BOUNDS).aggregate(QUERY) == direct(table)).all()


def test_two_columns_of_one_name_are_refused(write: Write) -> None:
    folder = write("flat", pa.Table.from_arrays([pa.array([1.0])] * 3, names=["x0", "y", "x0"]))
    with pytest.raises(DataError, match=r"part-00000.parquet has two columns named 'x0'"):
        scan(str(folder))


def test_a_missing_column_is_refused_with_the_nearest_name(write: Write) -> None:
    manifest = scan(str(write("flat", rows())))
    check_columns(manifest, [*FEATURES, "y"])
    with pytest.raises(DataError, match=r"column 'X0' is missing in part-00000.parquet: did you mean 'x0'\?"):
        check_columns(manifest, ["X0"])
    with pytest.raises(DataError, match=r"column 'age' is missing in part-00000.parquet: there are x0, x1, x2, y"):
        check_columns(manifest, ["age"])


DAY = datetime.date(2026, 11, 14)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([DAY]),
        pa.array([datetime.datetime(2026, 11, 14, 3)]),
        pa.array([datetime.timedelta(hours=3)]),
        pa.array(["918273"]),
        pa.array([b"918273"]),
        pa.array(["918273"]).dictionary_encode(),
        pa.array([[918273.0]]),
        pa.array([{"a": 918273.0}]),
        pa.nulls(1),
    ],
    ids=lambda values: str(values.type),
)
def test_a_type_without_a_rule_is_refused_by_name(write: Write, values: pa.Array) -> None:
    manifest = scan(str(write("flat", rows(x1=values))))
    with pytest.raises(DataError) as refused:
        check_columns(manifest, FEATURES)
    assert str(refused.value).startswith("column 'x1' in part-00000.parquet has type ")
    assert "918273" not in str(refused.value)
    check_columns(manifest, ["x0", "x2", "y"])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Number(), pa.array([DAY])),
        (Number(), pa.array([datetime.timedelta(hours=3)])),
        (Number(), pa.array([b"918273"])),
        (Number(), pa.array([[918273.0]])),
        (Boolean(), pa.array([DAY])),
        (Date(parts=("month",)), pa.array([918273])),
        (Category(levels=("918273",)), pa.array([DAY])),
    ],
    ids=lambda value: str(value.type if isinstance(value, pa.Array) else value.name),
)
def test_a_type_that_a_kind_cannot_read_is_refused_by_name(write: Write, column: Any, values: pa.Array) -> None:
    manifest = scan(str(write("flat", rows(x1=values))))
    with pytest.raises(DataError, match=r"describe it in data\.columns by .*, or list it under data\.exclude") as refused:
        check_kinds(manifest, Encoding((("x1", column),)))
    text = str(refused.value)
    assert text.startswith("column 'x1' in part-00000.parquet has type ")
    assert "918273" not in text


@pytest.mark.parametrize(
    ("level", "values", "possible"),
    [
        ("true", pa.array([True]), True),
        ("1", pa.array([True]), False),
        ("47", pa.array([47]), True),
        ("047", pa.array([47]), False),
        ("47", pa.array([47.0]), True),
        ("unknown", pa.array([47.0]).dictionary_encode(), False),
        ("047", pa.array(["047"]), True),
        ("047", pa.array(["047"]).dictionary_encode(), True),
    ],
    ids=lambda value: str(value.type if isinstance(value, pa.Array) else value),
)
def test_a_level_that_a_type_cannot_hold_is_refused_by_name(write: Write, level: str, values: pa.Array, possible: bool) -> None:
    manifest, encoding = scan(str(write("flat", rows(x1=values)))), Encoding((("x1", Category(levels=(level,))),))
    check_kinds(manifest, encoding)  # where levels are still to be told
    if possible:
        check_kinds(manifest, encoding, fitted=True)
        return
    with pytest.raises(DataError, match=rf"'{level}' cannot occur in column 'x1'.*; write it so"):
        check_kinds(manifest, encoding, fitted=True)


def test_a_column_without_any_value_in_a_shard_has_the_type_of_the_others(tmp_path: Path) -> None:
    """Exports write a column of nothing but nulls with the type `null`."""
    for number, values in enumerate((pa.nulls(2), pa.array([1.0, None]), pa.nulls(2))):
        pq.write_table(pa.table({"x": values, "y": [1.0, 2.0]}), tmp_path / f"{number}.parquet")
    manifest = scan(str(tmp_path))
    assert manifest.types == {"x": "double", "y": "double"}
    check_kinds(manifest, Encoding((("x", Number()),)))
    assert scan(str(tmp_path / "0.parquet")).types["x"] == "null"
    check_kinds(scan(str(tmp_path / "0.parquet")), Encoding((("x", Category(levels=("a",))),)), fitted=True)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, None]),
        pa.array([1.0, 0.0, None]).dictionary_encode(),
        pa.array([decimal.Decimal("1.00"), decimal.Decimal("0.00"), None]),
        pa.array([1, 0, None], pa.decimal256(60, 3)),
        *(pa.array([1, 0, None], kind) for kind in (pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())),
        pa.array(np.array([1, 0, np.nan], dtype=np.float16)),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_decimals_and_booleans_are_accepted_with_null_as_missing(write: Write, values: pa.Array) -> None:
    manifest = scan(str(write("flat", rows(x0=values))))
    check_columns(manifest, [*FEATURES, "y"])
    assert (ShardedDataset(manifest, BOUNDS).aggregate(QUERY) == direct(rows(x0=[1.0, 0.0, np.nan]))).all()


# the same integers


def test_any_chunking_order_or_scheduler_gives_the_same_integers(
    table: pa.Table, write: Write, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled = table.take(np.random.default_rng(5).permutation(700))
    names = ["e.parquet", "a.parquet", "d.parquet", "b/c.parquet", "b/a.parquet"]
    folders = [
        write("one file", table, row_group_size=100),
        write("seven files", table, [100] * 7),
        write("shuffled", shuffled, [13, 187, 0, 400, 100], names, row_group_size=90),
    ]
    for query in QUERIES:
        expected = direct(table, query)
        assert expected.any()
        for folder in folders:
            manifest = scan(str(folder))
            for chunk_bytes in (2**26, 400 * ROW, 100 * ROW, 1):
                assert (ShardedDataset(manifest, BOUNDS, chunk_bytes=chunk_bytes).aggregate(query) == expected).all()
    manifest = scan(str(folders[0]))
    for chunks, chunk_bytes in ((1, 2**26), (2, 400 * ROW), (7, 100 * ROW)):
        with monkeypatch.context() as patch:
            resident = ShardedDataset(manifest, BOUNDS, client, chunk_bytes=chunk_bytes)
            patch.setattr(placement, "RESIDENT_SHARE", 0)
            streaming = ShardedDataset(scan(str(folders[1])), BOUNDS, client, chunk_bytes=chunk_bytes)
            assert len(resident.chunks) == len(streaming.chunks) == chunks
            assert (streaming.aggregate(QUERY) == direct(table)).all()
            assert streaming.executor.folder, "these shards were to be staged on disk"
            once = ShardedDataset(scan(str(folders[1])), BOUNDS, client, chunk_bytes=chunk_bytes, passes=1)
            assert (once.aggregate(QUERY) == direct(table)).all()
            assert once.executor.staged == [], "these shards were to be streamed"
            streaming.close()
        for query in QUERIES:
            assert (resident.aggregate(query) == direct(table, query)).all()
        assert resident.executor.staged, "these shards were to stay in memory"
        assert resident.executor.folder is None
    assert (ShardedDataset(scan(str(folders[2])), BOUNDS, client, chunk_bytes=100 * ROW).aggregate(QUERY) == direct(table)).all()


def test_the_arrays_have_known_chunks_and_hold_every_record(table: pa.Table, write: Write) -> None:
    manifest = scan(str(write("flat", table, [300, 400], row_group_size=100)))
    X, y, _ = ShardedDataset(manifest, BOUNDS, chunk_bytes=200 * ROW).arrays()
    assert X.chunks == ((200, 200, 200, 100), (4,))
    assert y.chunks == ((200, 200, 200, 100),)
    expected = BOUNDS.block(np.column_stack([table[name].to_numpy() for name in FEATURES]), table["y"].to_numpy())
    np.testing.assert_array_equal(X.compute(scheduler="synchronous"), expected.X)
    np.testing.assert_array_equal(y.compute(scheduler="synchronous"), expected.y)


def test_every_row_group_is_in_exactly_one_chunk(table: pa.Table, write: Write) -> None:
    manifest = scan(str(write("flat", table, [250, 0, 1, 449], row_group_size=60)))
    for most in (1, 59, 60, 61, 119, 300, 10_000):
        chunks = ShardedDataset(manifest, BOUNDS, chunk_bytes=most * ROW).chunks
        held = [(piece.shard.name, group) for chunk in chunks for piece in chunk.pieces for group in piece.row_groups]
        assert held == [(shard.name, group) for shard in manifest.shards for group, count in enumerate(shard.row_groups) if count]
        assert all(chunk.rows <= max(most, 60) for chunk in chunks)


def test_a_chunk_counted_twice_or_lost_is_no_answer(table: pa.Table, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = ShardedDataset(scan(str(write("flat", table, [300, 400]))), BOUNDS, chunk_bytes=1)
    partials = list(shards.executor.aggregate(QUERY))
    for wrong in (partials[:1], [*partials, partials[0]], []):
        monkeypatch.setattr(shards.executor, "aggregate", lambda query, wrong=wrong: wrong)
        with pytest.raises(ClusterError, match="lost or counted twice"):
            shards.aggregate(QUERY)


# sizes and values


@pytest.mark.parametrize("sizes", [[0], [0, 0, 0]])
def test_a_data_set_without_rows_sums_to_zero(table: pa.Table, write: Write, client: Client, sizes: list[int]) -> None:
    manifest = scan(str(write("empty", table.slice(0, 0), sizes)))
    assert manifest.rows == 0
    for where in (None, client):
        total = ShardedDataset(manifest, BOUNDS, where).aggregate(QUERY)
        assert total.dtype == np.int64
        assert total.tolist() == [[0, 0, 0, 0]]
    X, y, _ = ShardedDataset(manifest, BOUNDS).arrays()
    assert (X.shape, y.shape) == ((0, 4), (0,))


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_rows_than_columns_are_summed(table: pa.Table, write: Write, count: int) -> None:
    few = table.slice(0, count)
    assert (ShardedDataset(scan(str(write("few", few))), BOUNDS).aggregate(QUERY) == direct(few)).all()


def test_five_hundred_tiny_shards_become_few_tasks(table: pa.Table, write: Write, client: Client) -> None:
    manifest = scan(str(write("tiny", table, [1] * 300 + [2] * 200)))
    for where in (None, client):
        shards = ShardedDataset(manifest, BOUNDS, where)
        assert len(shards.chunks) == 1
        assert (shards.aggregate(QUERY) == direct(table)).all()


@pytest.mark.sweep
def test_i8_ten_thousand_tiny_files_are_few_tasks(tmp_path: Path, client: Client) -> None:
    (tmp_path / "tiny").mkdir()
    pq.write_table(pa.table({name: [0.25] for name in (*FEATURES, "y")}), tmp_path / "one.parquet")
    for number in range(10_000):
        os.link(tmp_path / "one.parquet", tmp_path / "tiny" / f"part-{number:05d}.parquet")
    one = QUERY.chunk(BOUNDS.block(np.full((1, len(FEATURES)), 0.25), np.array([0.25])))
    with ShardedDataset(scan(str(tmp_path / "tiny")), BOUNDS, client) as shards:
        assert len(shards.chunks) == 1
        assert (shards.aggregate(QUERY) == 10_000 * one).all()
        assert (shards.aggregate(QUERY) == 10_000 * one).all()


MISSING = [np.nan, np.inf, -np.inf, None]
EXTREME = [1e308, -1e308, -0.0, 5e-324, -2.2e-308, 1.7976931348623157e308]


@pytest.mark.parametrize("column", [*FEATURES, "y"])
@pytest.mark.parametrize("query", QUERIES, ids=["l2", "coordinates"])
def test_no_value_of_one_record_stops_a_run_or_moves_it_beyond_the_bound(write: Write, column: str, query: GradientSum) -> None:
    count = len(MISSING) + len(EXTREME)
    plain = pa.table({name: np.linspace(-1.0, 1.0, count) for name in (*FEATURES, "y")})
    odd = plain.set_column(plain.column_names.index(column), column, pa.array([*MISSING, *EXTREME], pa.float64()))
    for number in range(count):
        one = ShardedDataset(scan(str(write(f"{number}", odd.slice(number, 1)))), BOUNDS).aggregate(query)
        assert np.linalg.norm([float(step) for step in one[0]]) <= query.sensitivity(Adjacency.ZERO_OUT)
        if number < len(MISSING):
            assert not one.any(), "a record with a missing value contributes nothing"
    everyone = ShardedDataset(scan(str(write("all", odd))), BOUNDS).aggregate(query)
    extreme = ShardedDataset(scan(str(write("extreme", odd.slice(len(MISSING))))), BOUNDS).aggregate(query)
    assert (everyone == extreme).all()


# files that change


def replaced(path: Path) -> None:
    """Another file of the same size and rows takes the place of this one."""
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    info = path.stat()
    os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns + 10**9))
    other.replace(path)


CHANGES = {
    "rewritten": lambda path: pq.write_table(pq.read_table(path).slice(1), path),
    "removed": lambda path: path.unlink(),
    "replaced": replaced,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
}


@pytest.mark.parametrize("place", ["synchronous", *(pytest.param(place, marks=pytest.mark.process) for place in ("resident", "streaming"))])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_after_the_plan_ends_the_run_unanswered(
    table: pa.Table,
    write: Write,
    ledger: Ledger,
    ledger_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    change: Callable[[Path], Any],
) -> None:
    client = None if place == "synchronous" else request.getfixturevalue("client")
    if place == "streaming":
        monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    folder = write("flat", table, [300, 400])
    manifest = scan(str(folder))
    sensitivity = QUERY.sensitivity(Adjacency.ZERO_OUT)
    events = tuple(
        GaussianEvent(label=label, sensitivity=sensitivity, sigma=100 * sensitivity, coordinates=4, adjacency=Adjacency.ZERO_OUT)
        for label in ("first", "second")
    )
    ledger.set_policy(Policy(data_set="clinic", adjacency=Adjacency.ZERO_OUT, epsilon=1.0, delta=1e-6))
    order = Reservation(
        model="m",
        data_set="clinic",
        unit="record",
        plan="p",
        events=events,
        window=manifest.path,
        manifest=manifest.identity(),
        files=manifest.fingerprints(),
    )
    run = ledger.reserve(order)
    Gate(account=run, records=ShardedDataset(manifest, BOUNDS, client), noise=NoNoise()).ask("first", QUERY)
    change(folder / "part-00001.parquet")
    with pytest.raises(DataError, match="rewritten since the plan was made"):
        Gate(account=run, records=ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1), noise=NoNoise()).ask("second", QUERY)
    with contextlib.closing(sqlite3.connect(ledger_path)) as connection:
        found = connection.execute("SELECT kind, label FROM entry WHERE run IS NOT NULL ORDER BY seq").fetchall()
    assert found == [("reserved", None), ("asked", "first"), ("answered", "first"), ("asked", "second")]


def test_a_file_added_after_the_plan_is_not_read_and_is_another_data_set_to_the_ledger(table: pa.Table, write: Write) -> None:
    folder = write("flat", table, [300, 400])
    manifest = scan(str(folder))
    pq.write_table(table.slice(0, 50), folder / "part-00002.parquet")
    assert (ShardedDataset(manifest, BOUNDS).aggregate(QUERY) == direct(table)).all()
    assert scan(str(folder)).identity() != manifest.identity()


def test_the_identity_follows_names_and_contents_and_the_fingerprint_contents_alone(table: pa.Table, write: Write) -> None:
    first = scan(str(write("first", table, [300, 400])))
    moved = scan(str(write("moved", table, [300, 400], ["day=1/a.parquet", "day=2/b.parquet"])))
    other = scan(str(write("other", table.slice(1), [299, 400])))
    assert len({first.identity(), moved.identity(), other.identity()}) == 3
    assert json.loads(first.identity())[0][0] == "part-00000.parquet"
    assert first.fingerprints() == moved.fingerprints()
    (shared,) = set(first.fingerprints()) & set(other.fingerprints())
    assert shared.startswith(f"{first.shards[1].size}:{first.shards[1].footer}")


def test_shards_of_very_many_columns_are_read_by_ranges_of_them_and_give_the_same_integers(
    table: pa.Table, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns at a time, in windows of a row group's rows; with ids, without a target, and with nulls."""
    named = table.append_column("id", pa.array([f"r{i}" for i in range(700)])).set_column(
        1, "x1", pa.array([None if i % 50 == 0 else float(i % 7) for i in range(700)])
    )
    manifest = scan(str(write("flat", named, [300, 0, 400], row_group_size=110)))
    shapes = (BOUNDS, replace(BOUNDS, row_id="id"), replace(BOUNDS, target=None))
    expected = [list(blocks(chunk, shape)) for shape in shapes for chunk in chunks_of(manifest, 4, 1)]
    opened: list[int] = []
    whole = read._read_columns

    def counted(parquet: Any, group: int, names: list[str]) -> Any:
        opened.append(len(names))
        return whole(parquet, group, names)

    monkeypatch.setattr(read, "_read_columns", counted)
    monkeypatch.setattr(read, "WIDE_COLUMNS", 2)
    monkeypatch.setattr(read, "RANGE_COLUMNS", 2)
    monkeypatch.setattr(read, "WIDE_BYTES", 40 * 8 * 3)
    found = [list(blocks(chunk, shape)) for shape in shapes for chunk in chunks_of(manifest, 4, 1)]
    assert max(opened) == 2
    for one, other in zip(expected, found, strict=True):
        assert len(other) > len(one), "these row groups were to be read in windows"
        for field in ("X", "y", "slots"):
            assert (np.concatenate([getattr(b, field) for b in one]) == np.concatenate([getattr(b, field) for b in other])).all()


# canaries


def leaky() -> Any:
    """A query that fails with the records in its message; local, so that workers get it by value."""

    class Leaky:
        draw, reads_codes = WHOLE, False

        def chunk(self, block: Block) -> Integers:
            raise ValueError(f"could not sum {block.X.tolist()}")

    return Leaky()


def chain_of(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{error!r} {error} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("place", ["synchronous", "resident", "streaming"])
@pytest.mark.parametrize("failure", ["shard", "query"])
def test_no_value_of_a_record_is_in_an_error_or_a_worker_log(
    write: Write, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str, failure: str
) -> None:
    if place == "streaming":
        monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    canary = 0.7182736455
    table = pa.table({name: np.full(64, canary) for name in (*FEATURES, "y")})
    folder = write("flat", table, [32, 32])
    if failure == "shard":
        spoil(folder / "part-00001.parquet")
    shards = ShardedDataset(scan(str(folder)), BOUNDS, None if place == "synchronous" else client)
    said = "row group 0 of part-00001.parquet cannot be decoded" if failure == "shard" else "a shard could not be read"
    with pytest.raises(DataError, match=said) as refused:
        shards.aggregate(leaky() if failure == "query" else QUERY)
    logs = json.dumps([client.get_worker_logs(), client.get_scheduler_logs()])
    if (place, failure) == ("resident", "shard"):
        assert "RuntimeError('damaged 0 part-00001.parquet')" in logs, "the workers' log was to be captured"
    bounded = {repr(value) for value in BOUNDS.block(np.full((1, 3), canary), np.full(1, canary)).X[0, :2].tolist()}
    for text in (*chain_of(refused.value), logs, caplog.text):
        for value in ("71827364", *(value[2:10] for value in bounded)):
            assert value not in text


# clusters


@pytest.mark.process
def test_an_unreachable_scheduler_is_a_clean_error_with_the_cure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    remote = Remote(address=address, timeout=0.5)
    with pytest.raises(ClusterError, match=rf"no Dask scheduler answers at {address}: start one with `dask scheduler`"), connected(remote):
        pass


def test_a_running_scheduler_is_used_by_its_address(table: pa.Table, write: Write, client: Client) -> None:
    manifest = scan(str(write("flat", table, [300, 400])))
    with connected(Remote(address=client.scheduler.address)) as remote:
        assert (ShardedDataset(manifest, BOUNDS, remote).aggregate(QUERY) == direct(table)).all()
    assert workers_of(client)


@pytest.mark.process
def test_a_local_cluster_needs_no_port_of_its_own(table: pa.Table, write: Write) -> None:
    manifest = scan(str(write("flat", table, [300, 400])))
    with socket.socket() as dashboard:
        with contextlib.suppress(OSError):  # taken already: as good
            dashboard.bind(("127.0.0.1", 8787))
            dashboard.listen()
        with connected(Local(workers=1)) as local:
            assert (ShardedDataset(manifest, BOUNDS, local).aggregate(QUERY) == direct(table)).all()


def test_the_synchronous_scheduler_needs_no_client() -> None:
    with connected(Synchronous()) as nothing:
        assert nothing is None


def test_two_copies_of_one_file_are_refused(table: pa.Table, write: Write) -> None:
    folder = write("flat", table, [300, 400])
    (folder / "copy.parquet").write_bytes((folder / "part-00000.parquet").read_bytes())
    with pytest.raises(DataError, match="copy"):
        scan(str(folder)).fingerprints()


def test_files_of_equal_footers_and_other_values_are_different_files(table: pa.Table, write: Write) -> None:
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    first = scan(str(write("first", table.slice(0, 300), [300], **plain)))
    second = scan(str(write("second", table.slice(300, 300), [300], **plain)))
    assert first.shards[0].footer == second.shards[0].footer
    assert not set(first.fingerprints()) & set(second.fingerprints())


def test_a_hive_partition_without_a_key_is_refused_by_name(table: pa.Table, write: Write) -> None:
    folder = write("hive", table, [350, 350], ["day=1/part.parquet", "day=__HIVE_DEFAULT_PARTITION__/part.parquet"])
    with pytest.raises(DataError, match="day=__HIVE_DEFAULT_PARTITION__/part"):
        scan(str(folder))


@pytest.mark.process
def test_the_workers_of_a_local_cluster_never_write_rows_to_disk() -> None:
    with connected(Local(workers=1)) as local:
        fractions = local.run(lambda: [dask.config.get(f"distributed.worker.memory.{name}") for name in ("target", "spill")])
    assert list(fractions.values()) == [[False, False]]


@pytest.mark.parametrize("change", ["added", "removed", "rewritten"])
def test_a_file_that_changed_since_the_plan_is_named_before_anything_is_asked(table: pa.Table, write: Write, change: str) -> None:
    folder = write("flat", table, [300, 400])
    check_unchanged(scan(f"{folder.parent}/*/*.parquet"))
    manifest = scan(str(folder))
    check_unchanged(manifest)
    if change == "added":
        pq.write_table(table, folder / "part-99999.parquet")
    elif change == "removed":
        (folder / "part-00001.parquet").unlink()
    else:
        pq.write_table(table.slice(1, 400), folder / "part-00001.parquet")
    with pytest.raises(DataError, match=r"part-\d+\.parquet was added, removed or rewritten"):
        check_unchanged(manifest)


def test_a_file_that_is_rewritten_while_it_is_read_is_found(table: pa.Table, write: Write) -> None:
    folder = write("flat", table)
    (chunk,) = chunks_of(scan(str(folder)), 4, 2**26)
    reading = blocks(chunk, BOUNDS)
    next(reading)
    os.utime(folder / "part-00000.parquet", ns=(1, 1))
    with pytest.raises(FileChanged):
        list(reading)


def test_no_more_of_a_row_group_is_read_at_once_than_a_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group may be larger than memory: a column of it is read as it is decoded, not before."""
    rng, names = np.random.default_rng(0), ("x0", "x1", "y")
    table = pa.table({name: rng.normal(size=300_000) for name in names})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=300_000, use_dictionary=False, compression="none")
    manifest = scan(str(tmp_path / "one.parquet"))
    sizes: list[int] = []

    class Recorded(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            sizes.append(-1 if size is None else size)
            return super().read(size)

    monkeypatch.setattr(LocalFileSystem, "open", lambda self, path, mode="rb", **_: Recorded(path, "r"))
    bounds = Preprocessing(features=("x0", "x1"), target="y", centre=(0.0,) * 2, scale=(1.0,) * 2, target_scale=1.0, intercept=False)
    (chunk,) = chunks_of(manifest, 2, 2**30)
    assert sum(len(block) for block in blocks(chunk, bounds)) == 300_000
    assert sum(sizes) > 3 * 8 * 300_000 * 0.9
    assert 0 < max(sizes) < 2 * BUFFER_BYTES


@pytest.mark.parametrize("share", [0.4, 0.0], ids=["in memory", "on disk"])
def test_sums_that_are_added_on_the_workers_are_the_same_integers(
    table: pa.Table, write: Callable[..., Path], client: Client, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    manifest = scan(str(write("tree", table, [100] * 7)))
    expected = ShardedDataset(manifest, BOUNDS).aggregate(QUERY)
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    monkeypatch.setattr(tree, "DRIVER_BYTES", QUERY.coordinates * 8)
    monkeypatch.setattr(tree, "FAN_IN", 2)
    with ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1, passes=1 if share == 0 else 2) as shards:
        came: list[int] = []
        gather = shards.executor._gather
        monkeypatch.setattr(shards.executor, "_gather", lambda futures: came.append(len(futures)) or gather(futures))
        assert (shards.aggregate(QUERY) == expected).all()
        assert came == [1], "one sum comes to the driver"


def test_a_failure_below_the_tree_is_told_and_no_chunk_is_lost_in_it() -> None:
    parts = [((0, 2), np.array([1, 2])), ((1,), np.array([3, 4]))]
    numbers, integers = merge_partials(QUERY, parts)
    assert sorted(numbers) == [0, 1, 2]
    assert integers.tolist() == [4, 6]
    assert merge_partials(QUERY, [*parts, ((3,), "space")]) == ((0, 2, 1, 3), "space")
