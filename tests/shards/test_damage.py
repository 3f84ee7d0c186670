"""Files that were damaged under an unchanged footer: found by checksums before the first query, named, and nothing is charged for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nightfit.config import load
from nightfit.ledger import Ledger
from nightfit.nightly import open_ledger, prepare, reserve, run_fit
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import in_process
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.failures import Undecodable, in_words
from nightfit.shards.manifest import DataError, scan

ROWS, GROUP = 400, 100
SHAPE = Preprocessing(features=("x",), target="y", centre=(0.0,), scale=(4.0,), target_scale=3.0, intercept=True)
PERSONS = Preprocessing(
    features=("x",), target="y", centre=(0.0,), scale=(4.0,), target_scale=3.0, intercept=True, unit="id", rows_per_unit=5
)
CANARY = 0.7182736455


def write(folder: Path, *, checksums: bool = True, bits: int = 1, group: int = 2) -> Path:
    """Two shards of four row groups; in the second, some bits of one page of x are turned."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"x": np.full(ROWS, CANARY), "y": np.linspace(0, 1, ROWS), "id": np.arange(ROWS) // 2})
    for number in range(2):
        shard = table.set_column(1, "y", pa.array(np.linspace(number, 1, ROWS)))
        pq.write_table(
            shard,
            folder / f"part-{number}.parquet",
            row_group_size=GROUP,
            write_page_checksum=checksums,
            compression="NONE",
            use_dictionary=False,
        )
    damaged = folder / "part-1.parquet"
    page = pq.ParquetFile(damaged).metadata.row_group(group).column(0)
    content = bytearray(damaged.read_bytes())
    if bits == 1:
        content[page.data_page_offset + page.total_compressed_size // 2] ^= 1
    else:
        content[page.data_page_offset : page.data_page_offset + bits // 8] = b"\xff" * (bits // 8)
    damaged.write_bytes(content)
    return folder


def query(shape: Preprocessing) -> GradientSum:
    return GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.zeros(shape.columns), bits=30)


@pytest.mark.parametrize(("checksums", "bits"), [(True, 1), (False, 400)], ids=["one bit", "no page header"])
@pytest.mark.parametrize("shape", [SHAPE, PERSONS], ids=["records", "persons"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_damaged_page_is_named_by_shard_and_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checksums: bool, bits: int, shape: Preprocessing, kept: bool
) -> None:
    """While staging, before any query; also where rows are not kept."""
    if not kept:
        monkeypatch.setattr(in_process, "IN_PROCESS_BYTES", 0)
    folder = write(tmp_path / "shards", checksums=checksums, bits=bits)
    with pytest.raises(DataError, match=r"row group 2 of part-1\.parquet cannot be decoded.*restore it") as refused:
        ShardedDataset(scan(str(folder)), shape).stage()
    assert str(CANARY)[2:8] not in str(refused.value)
    assert refused.value.__cause__ is None


def test_without_checksums_another_value_is_another_record(tmp_path: Path) -> None:
    records = ShardedDataset(scan(str(write(tmp_path / "shards", checksums=False))), SHAPE)
    records.stage()
    assert np.abs(records.aggregate(query(SHAPE))).max() <= 2 * ROWS * 2**30


def test_a_damaged_column_that_is_not_read_stops_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "shards")
    ShardedDataset(
        scan(str(folder)), Preprocessing(features=("id",), target="y", centre=(0.0,), scale=(400.0,), target_scale=3.0, intercept=True)
    ).stage()


@pytest.mark.parametrize("name", ["part 1.parquet", "a\nb.parquet", "damaged 3 x", "day=2026-11-14/7 8.parquet"])
def test_any_name_of_a_shard_comes_back(name: str) -> None:
    assert f"row group 7 of {name} cannot" in in_words(str(Undecodable(name, 7)))


def test_what_was_reserved_for_a_damaged_shard_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    aggregate: Callable[..., Any] = ShardedDataset.aggregate
    monkeypatch.setattr(ShardedDataset, "aggregate", lambda self, query: asked.append(query) or aggregate(self, query))
    write(tmp_path / "shards")
    content = {
        "name": "m",
        "data": {
            "name": "d",
            "path": "shards",
            "target": {"column": "y", "bounds": [-4, 4]},
            "columns": {"x": {"kind": "number", "bounds": [-4, 4]}},
            "window": "tonight",
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
        "method": {"steps": 3},
        "cluster": {"kind": "synchronous"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    config = load(tmp_path / "refit.yaml")
    Ledger.create(config.ledger_url)
    job, ledger = prepare(config), open_ledger(config)
    run = reserve(job, ledger)
    assert ledger.spent("d").amount > 0
    with pytest.raises(DataError, match=r"row group 2 of part-1\.parquet"):
        run_fit(job, ledger, run)
    assert asked == []
    assert ledger.spent("d").amount == 0
    assert [one["state"] for one in ledger.runs()] == ["abandoned"]
