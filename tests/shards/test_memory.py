"""F39 and F40: whether rows fit in the workers' memory counts what else is there, and a worker that its nanny ends changes no integer."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import placement, watchdog
from nightfit.shards.cluster import Local, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.placement import Placement
from nightfit.types import Block, Integers

MIB = 2**20
COLUMNS = 19
NAMES = tuple(f"x{j}" for j in range(COLUMNS))
WIDE = Preprocessing(features=NAMES, target="y", centre=(0.0,) * COLUMNS, scale=(1.0,) * COLUMNS, intercept=False)


def placed(rows: int, *workers: tuple[int, int]) -> Placement:
    """Rows of 19 columns on workers of these limits in MiB and numbers of threads."""
    known = {f"tcp://w:{number}": {"memory_limit": limit * MIB, "nthreads": threads} for number, (limit, threads) in enumerate(workers)}
    return Placement(rows=rows, preprocessing=WIDE, workers=known, chunks=(), sources=())


def test_f39_rows_that_would_have_a_worker_killed_go_to_its_disk() -> None:
    each = 8 * COLUMNS + 16
    fit = 240 * MIB // each
    assert not placed(2 * fit, (600, 1), (600, 1)).fits_in_memory(), "240 MiB of rows and 260 of Python in 600 MiB: batches have no room"
    assert placed(2 * fit, (1024, 1), (1024, 1)).fits_in_memory()
    assert not placed(2 * fit, (1024, 6), (1024, 6)).fits_in_memory(), "each thread decodes a batch of its own"
    assert not placed(2 * fit, (1024, 1), (600, 1)).fits_in_memory(), "rows are spread by threads, whatever the memory"
    assert placed(4 * fit, (4096, 3), (1024, 1)).fits_in_memory()
    assert not placed(1, (300, 1)).fits_in_memory()
    assert not placed(1, (0, 1)).fits_in_memory(), "of a worker without a limit nobody knows what it has"


@pytest.mark.sweep
def test_f39_no_nanny_kills_a_worker_of_rows_that_fill_two_fifths_of_its_limit(tmp_path: Path) -> None:
    """480 MB of rows on two workers of 600 MiB: what the share alone would have let in."""
    rows = 480_000_000 // (8 * COLUMNS + 16)
    values = pa.DictionaryArray.from_arrays(np.random.default_rng(0).integers(0, 4, rows).astype(np.int8), pa.array([-1.0, -0.3, 0.4, 1.0]))
    column = values.cast(pa.float64())
    pq.write_table(pa.table({**dict.fromkeys(NAMES, column), "y": column}), tmp_path / "a.parquet", row_group_size=100_000)
    query = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.zeros(COLUMNS), bits=30)
    manifest = scan(str(tmp_path))
    with connected(Local(workers=2, memory="600MiB", directory=str(tmp_path / "scratch"))) as client:
        before = worker_pids(client)
        with ShardedDataset(manifest, WIDE, client) as shards:
            first = shards.aggregate(query)
            assert (shards.aggregate(query) == first).all()
        assert worker_pids(client) == before, "no worker was started anew"


def swelling(query: GradientSum, folder: Path, limit: int) -> Any:
    """The query, whose first chunk of all takes more memory than a worker may have; local, so that workers get it by value."""

    class Swelling:
        coordinates, draw, merge, reads_codes = query.coordinates, query.draw, query.merge, False

        def chunk(self, block: Block) -> Integers:
            try:
                (folder / "swollen").touch(exist_ok=False)
            except FileExistsError:
                return query.chunk(block)
            held = b"x" * limit
            while held:  # until the nanny ends this process
                time.sleep(0.01)
            raise AssertionError

    return Swelling()


@pytest.mark.parametrize(
    "share", [pytest.param(0.4, marks=pytest.mark.process), pytest.param(0.0, marks=pytest.mark.sweep)], ids=["in memory", "on disk"]
)
def test_f40_a_worker_that_its_nanny_ends_and_starts_again_during_a_pass_changes_no_integer(
    tmp_path: Path, table: pa.Table, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.05)
    bounds = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
    query = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40)
    manifest = scan(str(write("flat", table, [100] * 7)))
    expected = ShardedDataset(manifest, bounds).aggregate(query)
    with connected(Local(workers=1, memory="600MiB", directory=str(tmp_path / "scratch"))) as client:
        began, before = time.monotonic(), worker_pids(client)
        with ShardedDataset(manifest, bounds, client, chunk_bytes=1) as shards:
            shards.stage()
            assert (shards.aggregate(swelling(query, tmp_path, 600 * MIB)) == expected).all()
            assert (shards.aggregate(query) == expected).all(), "rows that were made again are the same"
        assert watchdog.look_at(client, began).died_of_memory == 1
        after = worker_pids(client)
        assert len(after) == 1, "the nanny started another"
        assert not after & before


def worker_pids(client: object) -> set[int]:
    """The processes of a client's workers."""
    run: Callable[..., dict[str, int]] = client.run  # type: ignore[attr-defined]

    def pid() -> int:
        import os

        return os.getpid()

    return set(run(pid).values())
