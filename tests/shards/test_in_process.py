"""Small data stay in this process: their rows are decoded once and kept, with the integers of rows that are read anew."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import in_process
from nightfit.shards.cluster import IN_PROCESS_BYTES, Auto, Local, Synchronous, chosen
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan

ROWS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0.0,) * 3, scale=(4.0,) * 3, target_scale=3.0, intercept=True)
QUERY = GradientSum(loss=Squared(), bounding=L2Clip(bound=1.0), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40)


@pytest.mark.parametrize("persons", [False, True])
def test_rows_that_are_kept_are_decoded_once_and_give_the_same_integers(table: pa.Table, write: Callable[..., Path], persons: bool) -> None:
    table = table.append_column("person", pa.array([f"p{row % 40}" for row in range(table.num_rows)]))
    folder = write("flat", table, [300, 400])
    preprocessing = replace(ROWS, unit="person", rows_per_unit=30) if persons else ROWS
    with ShardedDataset(scan(str(folder)), preprocessing) as read_anew:
        expected = read_anew.aggregate(QUERY)
    with ShardedDataset(scan(str(folder)), preprocessing) as kept:
        kept.stage()
        shutil.rmtree(folder)
        assert (kept.aggregate(QUERY) == expected).all()


def test_rows_beyond_the_limit_are_not_kept(table: pa.Table, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "IN_PROCESS_BYTES", 1000)
    with ShardedDataset(scan(str(write("flat", table, [300, 400]))), ROWS) as records:
        records.stage()
        assert records.executor.staged == []  # type: ignore[attr-defined]


def test_a_cluster_is_made_only_above_the_stated_size() -> None:
    auto = Auto(local=Local(workers=3))
    assert chosen(auto, IN_PROCESS_BYTES) == Synchronous()
    assert chosen(auto, IN_PROCESS_BYTES + 1) == Local(workers=3)
    assert chosen(Local(), 1) == Local()
