"""Rows of numbers and codes stand for the dense rows that they were made of, from the export to a worker's disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nightfit.plugins import members
from nightfit.queries.histograms import Histogram
from nightfit.queries.magnitudes import NORM_GRID, Norm
from nightfit.queries.rows import Rows
from nightfit.records import columns
from nightfit.records.coded_rows import CodedBlock, Layout, largest_square
from nightfit.records.columns import NULL, Column
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import Category
from nightfit.records.columns.number import Number
from nightfit.records.columns.product import Product
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import staging
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.read import chunks_of, load
from nightfit.shards.staging import InFiles
from nightfit.types import Array, Block

LEVELS = tuple(f"l{k}" for k in range(20))
ENCODING = Encoding(
    (
        ("first", Category(levels=LEVELS, reference="l3")),
        ("age", Number(bounds=(0.0, 100.0))),
        ("second", Category(levels=LEVELS[:9], missing="drop")),
        ("urgent", Boolean()),
        ("third", Category(levels=LEVELS[:12], missing="indicator")),
        ("age_first", Product(of=("age", "second"))),
    )
)
ONE_HOT = [example for kind in members(columns).values() for example in kind if example.one_hot]


def shape(encoding: Encoding = ENCODING, **changes: Any) -> Preprocessing:
    made: dict[str, Any] = {
        "features": encoding.names,
        "encoding": encoding,
        "target": "y",
        "centre": tuple(0.0 if one.indicator else 50.0 for one in encoding.features),
        "scale": tuple(1.0 if one.indicator else 50.0 for one in encoding.features),
        "intercept": True,
    }
    return Preprocessing(**made | changes)


def raw_rows(rows: int, seed: int = 0) -> tuple[Array, Array]:
    """Encoded records with missing values and levels that nobody declared."""
    rng = np.random.default_rng(seed)
    raw = {
        "first": rng.integers(NULL, 21, rows),
        "second": rng.integers(NULL, 10, rows),
        "third": rng.integers(NULL, 13, rows),
        "age": np.where(rng.random(rows) < 0.2, np.nan, rng.uniform(-20, 130, rows)),
        "urgent": rng.choice([0.0, 1.0, np.nan], rows),
    }
    return ENCODING.encode(raw, rows), np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows))


def test_rows_come_back_from_their_codes() -> None:
    for changes in ({}, {"precision": "single"}, {"imputes": False}):
        made = shape(**changes)
        block = made.block(*raw_rows(300), np.arange(300, dtype=np.uint64))
        assert made.layout is not None
        coded = made.layout.coded(block)
        back = coded.dense()
        np.testing.assert_array_equal(back.X, block.X)
        assert back.X.dtype == block.X.dtype
        np.testing.assert_allclose(coded.squares, np.einsum("ij,ij->i", block.X, block.X), rtol=1e-6)
        joined = coded.first(100).joined([coded.select_units(np.arange(300) >= 100)])
        np.testing.assert_array_equal(np.concatenate([piece.X for _, piece in joined.pieces(10_000)]), block.X)
        assert len(coded.first(0).dense()) == 0


def test_a_code_may_need_more_than_sixteen_bits() -> None:
    layout = Layout(70_001, ((1, 70_000),))
    X = np.zeros((3, 70_001))
    X[1, 70_000] = X[2, 1] = X[2, 0] = 1.0
    np.testing.assert_array_equal(layout.coded(Block(X, np.zeros(3), np.zeros(3, dtype=np.uint64))).dense().X, X)


@pytest.mark.parametrize("column", ONE_HOT, ids=repr)
def test_a_kind_that_says_so_has_one_feature_at_most(column: Column) -> None:
    codes = np.arange(NULL, len(column.reading.levels) + 1)  # type: ignore[union-attr]
    out = np.empty((len(codes), len(column.features("c"))))
    column.encode(codes, out)
    told = out[~np.isnan(out).any(axis=1)]
    assert np.isin(told, (0.0, 1.0)).all()
    assert (told.sum(axis=1) <= 1).all()


def test_rows_stay_dense_where_codes_save_little() -> None:
    assert shape().layout is not None
    few = Encoding((("sex", Category(levels=("F", "M"))), ("age", Number(bounds=(0.0, 1.0)))))
    assert shape(few).layout is None
    centred = tuple(0.5 if one.indicator else 0.0 for one in ENCODING.features)
    for scale in (0.5, 1.0):
        assert shape(centre=centred, scale=(scale,) * len(centred)).layout is None, "a centred indicator is never zero"
    assert shape(centre=(0.0,) * len(centred), scale=(0.5,) * len(centred)).layout is None, "nor is a scaled one a one"


@pytest.fixture
def export(write: Any) -> Path:
    rng = np.random.default_rng(4)
    rows = 500
    table = {name: rng.choice([*LEVELS, "new", None], rows) for name in ("first", "second", "third")}
    table |= {"age": np.where(rng.random(rows) < 0.1, np.nan, rng.uniform(0, 100, rows)), "y": rng.normal(size=rows)}
    folder: Path = write("export", pa.table({**table, "urgent": pa.array(rng.choice([True, False, None], rows))}), [120, 380])
    return folder


def test_staged_codes_are_a_fraction_of_the_bytes_and_give_the_integers_of_dense_rows(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, manifest = shape(), scan(str(export))
    chunks = chunks_of(manifest, made.columns, 2**26)
    rows = [load(chunk, made) for chunk in chunks]
    assert all(isinstance(block, CodedBlock) for block in rows)
    assert made.row_bytes < made.columns * 8 / 2
    dense = [block.dense() for block in rows]
    scales = Rows(centre=np.zeros(made.columns), scale=np.ones(made.columns), reach=np.full(made.columns, 4.0))
    query = Histogram(measure=Norm(rows=scales), log_grid=NORM_GRID, bits=20)
    expected = sum(query.chunk(block) for block in dense)
    with ShardedDataset(manifest, made) as records:
        np.testing.assert_array_equal(records.aggregate(query), expected)
    monkeypatch.setattr(staging, "local_directory", lambda: tmp_path)
    monkeypatch.setattr(staging, "start_lease", lambda *_: None)
    monkeypatch.setattr(staging, "FILE_BATCH_BYTES", 130 * made.row_bytes)
    read = [block.dense() for block in InFiles("nightfit-x", tuple(chunks), made).blocks() if len(block) <= 130]
    assert sum(map(len, read)) == 500
    query_of_files = sum(query.chunk(block.dense()) for block in InFiles("nightfit-y", tuple(chunks), made).blocks())
    np.testing.assert_array_equal(query_of_files, expected)


def test_no_row_is_longer_than_its_categories_allow() -> None:
    for made in (shape(), shape(scale=(0.5,) * len(ENCODING.features))):
        most = largest_square(ENCODING, made.centre, made.scale, made.columns)
        X = made.block(*raw_rows(3000)).X
        assert np.einsum("ij,ij->i", X, X).max() <= most
    sexes = Encoding((("sex", Category(levels=("F", "M"))),))
    made = shape(sexes)
    X = made.block(sexes.encode({"sex": np.array([0, 1, 2])}, 3), np.zeros(3)).X
    assert np.einsum("ij,ij->i", X, X).max() == largest_square(sexes, made.centre, made.scale, made.columns) == 2


def test_null_records_and_those_outside_of_buckets_have_no_code() -> None:
    made = shape()
    raw, target = raw_rows(50)
    block = made.block(raw, np.full(50, np.nan), np.arange(50, dtype=np.uint64))
    assert made.layout is not None
    coded = made.layout.coded(block)
    assert (coded.codes == len(made.layout.numbers)).all()
    assert not coded.numbers.any()
    assert not coded.squares.any()
    assert repr(replace(coded, y=target)) == "CodedBlock(...)"
