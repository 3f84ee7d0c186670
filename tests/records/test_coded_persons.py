"""Persons whose rows are kept as codes: every query has the integers of their dense rows, and no person is cut."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import chunk_of
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.queries.histograms import Histogram
from nightfit.queries.magnitudes import NORM_GRID, Norm
from nightfit.queries.rows import Rows
from nightfit.queries.second_moments import SecondMoment
from nightfit.queries.trimmed_gradients import TrimmedGradients
from nightfit.records.coded_rows import CodedBlock, Layout
from nightfit.records.columns.category import Category
from nightfit.records.columns.number import Number
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import in_process
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.read import PersonRange, chunks_of, load_persons, resident
from nightfit.types import Array, Block, Part, runs_of

KEY, COLUMNS = bytes(range(16)), 24
LAYOUT = Layout(COLUMNS, ((1, 12), (13, 10)))


def persons(seed: int = 0) -> Block:
    """Forty persons of one to six rows on a grid, so that no order of addition changes a sum; some rows are null, some without a level."""
    rng = np.random.default_rng(seed)
    slots = np.repeat(np.sort(rng.integers(0, 2**63, 40).astype(np.uint64)), rng.integers(1, 7, 40))
    X = np.zeros((len(slots), COLUMNS))
    X[:, [0, 23]] = rng.integers(-64, 65, (len(slots), 2)) / 64
    for first, width in LAYOUT.categories:
        level = rng.integers(-1, width, len(slots))
        X[np.flatnonzero(level >= 0), first + level[level >= 0]] = 1.0
    X[::9] = 0.0
    return Block(X, rng.integers(-4, 5, len(slots)) / 4, slots, runs_of(slots))


def queries() -> list[Any]:
    weights = np.random.default_rng(1).integers(-9, 9, COLUMNS) / 64
    facts: dict[str, Any] = {"loss": Squared(), "weights": weights, "bits": 36, "key": KEY}
    rows = Rows(centre=np.full(COLUMNS, 0.125), scale=np.full(COLUMNS, 0.5), reach=np.full(COLUMNS, 4.0), level=0.25)
    return [
        GradientSum(**facts, bounding=L2Clip(bound=0.5)),
        GradientSum(**facts, bounding=CoordinateClip(bound=0.5), groups=Groups(count=4)),
        GradientSum(**facts, bounding=L2Clip(bound=0.5), rows=rows, groups=Groups(count=4), draw=Part(0, 2**31)),
        Histogram(measure=Norm(rows=rows), log_grid=NORM_GRID, bits=20),
        SecondMoment(rows=rows, cap=4.0, bits=12),
        TrimmedGradients(loss=Squared(), bound=1.0, weights=weights, bits=20, trimmed=3, expected=40, smoothness=0.1),
    ]


@pytest.mark.parametrize("place", range(6))
def test_every_query_of_coded_persons_is_that_of_dense_ones(place: int) -> None:
    query, block = queries()[place], persons()
    codes = LAYOUT.coded(block)
    expected = np.asarray(query.finalise(query.chunk(block)))
    assert np.asarray(query.finalise(chunk_of(query, codes))).tolist() == expected.tolist()
    of_many = np.flatnonzero(np.arange(len(block)) < block.starts[17])  # type: ignore[index]
    first = np.isin(np.arange(len(block)), of_many)
    halves = [chunk_of(query, codes.select_units(chosen)) for chosen in (first, ~first)]
    assert np.asarray(query.finalise(query.merge(*halves))).tolist() == expected.tolist()
    assert np.abs(expected).sum() > 0


def test_parts_and_joins_keep_persons_whole() -> None:
    codes = LAYOUT.coded(persons())
    parts = list(codes.parts(5 * 8 * COLUMNS))
    assert len(parts) > 10
    assert [units.start for units, _ in parts[1:]] == [units.stop for units, _ in parts[:-1]]
    assert all(len(np.unique(part.slots)) == part.units == units.stop - units.start for units, part in parts)
    joined = parts[0][1].joined([part for _, part in parts[1:]])
    assert joined.dense().X.tolist() == persons().X.tolist()
    assert joined.starts.tolist() == codes.starts.tolist()  # type: ignore[union-attr]
    assert joined.owners.tolist() == persons().owners.tolist()


LEVELS = tuple(f"w{k}" for k in range(30))
ENCODING = Encoding((("age", Number(bounds=(0.0, 100.0))), ("ward", Category(levels=LEVELS))))


@pytest.fixture
def export(tmp_path: Path) -> Preprocessing:
    rng = np.random.default_rng(4)
    for name in ("a", "b", "c"):
        ids = rng.integers(0, 60, 200)
        columns = {
            "patient": pa.array([None if one % 17 == 0 else f"p{one}" for one in ids.tolist()]),
            "age": pa.array(rng.integers(0, 100, 200).astype(float)),
            "ward": pa.array(rng.choice([*LEVELS, "elsewhere"], 200)),
            "y": pa.array(rng.integers(-3, 4, 200).astype(float)),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    indicators: Array = np.array([one.indicator for one in ENCODING.features])
    return Preprocessing(
        features=ENCODING.names,
        encoding=ENCODING,
        target="y",
        centre=tuple(np.where(indicators, 0.0, 50.0).tolist()),
        scale=tuple(np.where(indicators, 1.0, 50.0).tolist()),
        intercept=True,
        unit="patient",
        rows_per_unit=8,
    )


def test_persons_of_an_export_are_kept_as_codes(tmp_path: Path, export: Preprocessing) -> None:
    manifest = scan(str(tmp_path))
    chunks = chunks_of(manifest, export.columns, 2**20)
    dense = load_persons(PersonRange(0, 1, chunks), export)
    query = GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.full(export.columns, 0.125), bits=36)
    with ShardedDataset(manifest, export) as records:
        records.aggregate(query)
        executor = records.executor
        assert isinstance(executor, in_process.InProcess)
        kept = [block for part in executor.staged for block in part.blocks()]
        found = records.aggregate(query)
    assert all(isinstance(block, CodedBlock) for block in kept)
    assert 3 * sum(array.nbytes for block in kept for array in block.arrays) < sum(array.nbytes for array in dense.arrays)
    assert found.tolist() == query.chunk(dense).tolist()
    assert resident(dense, export).dense().X.tolist() == dense.X.tolist()
