"""Decoded rows on the workers' disks: the same integers, private, gone at the end, and never more memory than one slab."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from distributed import Client
from distributed.comm.core import CommClosedError

from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import cluster, folders, on_cluster, placement, staging
from nightfit.shards.cluster import ClusterError, check_versions, versions
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.folders import check_disk_space, folder_names, remove_folder, remove_orphans
from nightfit.shards.manifest import DataError, scan
from nightfit.shards.read import chunks_of, load
from nightfit.shards.staging import InFiles, InMemory, private_folder, row_batches, stage_in_memory
from nightfit.shards.tasks import aggregate_staged
from nightfit.types import Block

Write = Callable[..., Path]

BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
QUERY = GradientSum(
    loss=Squared(),
    bounding=CoordinateClip(bound=0.5),
    weights=np.array([0.3, -0.2, 0.1, 0.05]),
    bits=40,
    key=bytes(16),
    groups=Groups(count=4),
)


@pytest.fixture(autouse=True)
def nothing_staged(client: Client) -> None:
    """Other tests of this session share the workers, and some end as a lost run does."""
    for name in {name for names in client.run(folder_names).values() for name in names}:
        client.run(remove_folder, name)


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits in memory."""
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)


def staged_files(client: Client) -> list[tuple[str, int, int, int]]:
    """Names, sizes and rights of every file and folder of staged rows on the workers."""

    def listed(dask_worker: Any) -> list[tuple[str, int, int, int]]:
        found = [path for folder in Path(dask_worker.local_directory).glob("nightfit-*") for path in (folder, *folder.iterdir())]
        return [(path.name, path.is_dir(), path.stat().st_size, stat.S_IMODE(path.stat().st_mode)) for path in found]

    return sorted({entry for entries in client.run(listed).values() for entry in entries})


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this process stage as a worker with this local directory would."""
    monkeypatch.setattr(staging, "local_directory", lambda: folder)
    monkeypatch.setattr(staging, "start_lease", lambda *_: None)
    return folder


def all_of(blocks: Iterator[Block]) -> tuple[Any, Any, Any]:
    held = [(block.X.copy(), block.y.copy(), block.slots.copy()) for block in blocks]
    X, y, slots = (np.concatenate(parts) for parts in zip(*held, strict=True))
    return X, y, slots


@pytest.mark.parametrize("precision", ["double", "single"])
def test_staged_kept_and_streamed_rows_give_the_same_integers(
    table: pa.Table, write: Write, client: Client, monkeypatch: pytest.MonkeyPatch, precision: Any
) -> None:
    manifest = scan(str(write("flat", table, [300, 0, 1, 399], row_group_size=70)))
    bounds = replace(BOUNDS, precision=precision)
    expected = ShardedDataset(manifest, bounds).aggregate(QUERY)
    with ShardedDataset(manifest, bounds, client, chunk_bytes=4000) as kept:
        assert (kept.aggregate(QUERY) == expected).all()
        assert kept.executor.folder is None
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    with ShardedDataset(manifest, bounds, client, chunk_bytes=4000) as on_disk:
        for _ in range(2):
            assert (on_disk.aggregate(QUERY) == expected).all()
        size = sum(size for _, folder, size, _ in staged_files(client) if not folder)
        assert size == 700 * (4 * (8 if precision == "double" else 4) + 16)
    with ShardedDataset(manifest, bounds, client, chunk_bytes=4000, passes=1) as streamed:
        assert (streamed.aggregate(QUERY) == expected).all()
        assert staged_files(client) == []


def test_single_precision_is_another_plan_and_other_integers(table: pa.Table, write: Write) -> None:
    manifest = scan(str(write("flat", table)))
    single = replace(BOUNDS, precision="single")
    assert single.as_dict() != BOUNDS.as_dict()
    assert Preprocessing.from_dict(single.as_dict()).precision == "single"
    differ = ShardedDataset(manifest, single).aggregate(QUERY) - ShardedDataset(manifest, BOUNDS).aggregate(QUERY)
    assert 0 < np.max(np.abs(differ)) < 2.0**40 * 700 * 2**-20


def test_only_their_owner_can_read_staged_rows(table: pa.Table, write: Write, client: Client, on_disk: None) -> None:
    with ShardedDataset(scan(str(write("flat", table))), BOUNDS, client) as shards:
        shards.stage()
        rights = {(folder, mode) for _, folder, _, mode in staged_files(client)}
    assert rights == {(True, 0o700), (False, 0o600)}


def test_a_folder_that_others_can_enter_or_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "private")
    for name in ("open", "link"):
        with pytest.raises(PermissionError):
            private_folder(tmp_path, name)
    assert private_folder(tmp_path, "new") == private_folder(tmp_path, "new")


def test_nothing_stays_on_disk_after_a_run_or_a_failed_one(table: pa.Table, write: Write, client: Client, on_disk: None) -> None:
    folder = write("flat", table, [300, 400])
    manifest = scan(str(folder))
    with ShardedDataset(manifest, BOUNDS, client) as shards:
        shards.aggregate(QUERY)
        assert staged_files(client)
    assert staged_files(client) == []
    (folder / "part-00001.parquet").unlink()
    with pytest.raises(DataError, match="rewritten since the plan"), ShardedDataset(manifest, BOUNDS, client, chunk_bytes=1) as shards:
        shards.stage()
    assert staged_files(client) == []


def test_what_a_lost_run_left_is_removed_at_the_next_start_and_what_a_living_one_holds_is_not(
    table: pa.Table, write: Write, client: Client, on_disk: None
) -> None:
    manifest = scan(str(write("flat", table)))
    with Client(client.scheduler.address, set_as_default=False) as other:
        lost = ShardedDataset(manifest, BOUNDS, other)
        lost.aggregate(QUERY)
    assert staged_files(client), "the other run was to end without removing its rows"
    with (
        Client(client.scheduler.address, set_as_default=False) as living,
        ShardedDataset(manifest, BOUNDS, living) as alive,
        ShardedDataset(manifest, BOUNDS, client) as ours,
    ):
        alive.aggregate(QUERY)
        held = {name for name, folder, _, _ in staged_files(client) if folder}
        assert {name for name in held if name.startswith(f"nightfit-{living.id}")} == held
        ours.aggregate(QUERY)
        assert held < {name for name, folder, _, _ in staged_files(client) if folder}
    remove_orphans(client)
    assert staged_files(client) == []


def test_a_disk_without_room_is_told_before_anything_is_decoded(
    table: pa.Table, write: Write, client: Client, on_disk: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "row_bytes", lambda _: 2**50)
    with (
        pytest.raises(DataError, match=r"decoded rows need more than the \S+ GiB that are free .*: nothing was asked"),
        ShardedDataset(scan(str(write("flat", table))), BOUNDS, client) as shards,
    ):
        shards.stage()
    assert staged_files(client) == []


def test_a_full_disk_is_a_failure_by_name(table: pa.Table, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_folder(tmp_path, monkeypatch)
    chunks = chunks_of(scan(str(write("flat", table))), 4, 2**26)
    monkeypatch.setattr(staging, "row_bytes", lambda _: 2**50)
    with pytest.raises(RuntimeError, match=r"^(space|failed)$"):  # ENOSPC, or EFBIG where a file may not be so large
        staging.stage_in_files("nightfit-x", chunks, BOUNDS)
    assert not list((tmp_path / "nightfit-x").iterdir())


def test_rows_come_back_as_they_went_in_whatever_the_batches(
    table: pa.Table, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_folder(tmp_path, monkeypatch)
    chunks = chunks_of(scan(str(write("flat", table, [1, 299, 400], row_group_size=90))), 4, 4000)
    expected = all_of(stage_in_memory(chunks, BOUNDS).blocks())
    for number, rows in enumerate((1, 7, 350, 700, 10_000)):
        monkeypatch.setattr(staging, "FILE_BATCH_BYTES", rows * 48)
        kept = InFiles(f"nightfit-{number}", chunks, BOUNDS)
        sizes = [len(block) for block in kept.blocks()]
        assert sum(sizes) == 700
        assert set(sizes[:-1]) <= {rows}
        for mine, theirs in zip(all_of(kept.blocks()), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_short_writes_and_short_reads_lose_no_byte(table: pa.Table, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take or give fewer bytes than it was asked to: here a prime number of them at a time, across parts of a slab."""
    in_folder(tmp_path, monkeypatch)
    chunks = chunks_of(scan(str(write("flat", table))), 4, 2**26)
    expected = all_of(stage_in_memory(chunks, BOUNDS).blocks())
    put, get = os.write, os.preadv
    monkeypatch.setattr(staging.os, "write", lambda handle, part: put(handle, part[:1009]))
    monkeypatch.setattr(staging.os, "preadv", lambda handle, parts, offset: _few(get, handle, parts, offset, 10_007))
    monkeypatch.setattr(staging, "FILE_BATCH_BYTES", 300 * 48)
    for mine, theirs in zip(all_of(InFiles("nightfit-x", chunks, BOUNDS).blocks()), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _few(get: Any, handle: int, parts: list[memoryview], offset: int, most: int) -> int:
    taken: list[memoryview] = []
    for part in parts:
        taken.append(part[: most - sum(given.nbytes for given in taken)])
    return int(get(handle, taken, offset))


def test_workers_that_share_a_disk_need_room_for_all_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "call_workers", lambda *_, expected: dict.fromkeys(expected, ("host", 1, 100)))
    check_disk_space(None, {"a": 50, "b": 50})
    with pytest.raises(DataError, match="decoded rows need") as refused:
        check_disk_space(None, {"a": 60, "b": 60})
    with pytest.raises(DataError, match="decoded rows need") as larger:
        check_disk_space(None, {"a": 2**50, "b": 2**40})
    assert str(refused.value) == str(larger.value), "the number of records is private under add_remove"


def test_a_worker_that_is_lost_while_its_disk_is_measured_is_a_lost_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for answers in (None, {"a": ("host", 1, 100)}):
        monkeypatch.setattr(folders, "call_workers", lambda *_, found=answers, **__: found)
        with pytest.raises(ClusterError, match="the Dask cluster was lost"):
            check_disk_space(None, {"a": 50, "b": 50})


def test_a_chunk_of_another_number_of_rows_than_was_planned_is_no_file(
    table: pa.Table, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_folder(tmp_path, monkeypatch)
    (chunk,) = chunks_of(scan(str(write("flat", table))), 4, 2**26)
    monkeypatch.setattr(staging, "blocks", lambda chunk, bounds: iter([load(chunk, bounds).first(600)]))
    with pytest.raises(RuntimeError, match=r"^changed$"):
        staging.stage_in_files("nightfit-x", (chunk,), BOUNDS)
    assert not list((tmp_path / "nightfit-x").iterdir())


def test_tiny_pieces_fill_batches_together(table: pa.Table, write: Write) -> None:
    chunks = chunks_of(scan(str(write("flat", table, [1] * 200 + [500]))), 4, 2**26)
    assert [len(block) for block in row_batches(chunks, BOUNDS, 500)] == [500, 200]


def test_a_file_that_is_missing_is_made_again_and_one_cut_short_is_no_answer(
    table: pa.Table, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_folder(tmp_path, monkeypatch)
    chunks = chunks_of(scan(str(write("flat", table))), 4, 2**26)
    kept = InFiles("nightfit-x", chunks, BOUNDS)
    numbers, integers = aggregate_staged(kept, QUERY, versions())
    path = kept.write_if_missing()
    path.unlink()
    assert aggregate_staged(kept, QUERY, versions())[0] == numbers
    assert (aggregate_staged(kept, QUERY, versions())[1] == integers).all()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert aggregate_staged(kept, QUERY, versions()) == (numbers, "failed"), "a link is not followed"
    (tmp_path / "elsewhere").rename(path)
    os.truncate(path, path.stat().st_size - 8)
    assert aggregate_staged(kept, QUERY, versions()) == (numbers, "failed")


def test_a_worker_of_another_version_gives_no_integers(table: pa.Table, write: Write) -> None:
    chunks = chunks_of(scan(str(write("flat", table))), 4, 2**26)
    kept = stage_in_memory(chunks, BOUNDS)
    other = (("nightfit", "0.0.1"), *versions()[1:])
    assert aggregate_staged(kept, QUERY, other) == (kept.numbers, "version")


def test_a_worker_of_another_version_is_refused_by_name(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    check_versions(client)
    skewed = {"tcp://a:1": versions(), "tcp://b:2": (*versions()[:2], ("numba", "0.1"), versions()[3])}
    monkeypatch.setattr(cluster, "call_workers", lambda *_: skewed)
    with pytest.raises(ClusterError, match=r"tcp://b:2 has numba 0.1 \(here"):
        check_versions(client)


def test_a_worker_that_dies_at_the_start_is_not_taken_for_one_without_nightfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "call_workers", lambda *_: {"tcp://a:1": CommClosedError("Address removed.")})
    with pytest.raises(ClusterError, match=r"tcp://a:1 was lost at the start \(out of memory"):
        check_versions(None)


def test_dask_is_told_what_kept_rows_weigh() -> None:
    block = Block(np.zeros((10, 4)), np.zeros(10), np.zeros(10, dtype=np.uint64))
    assert InMemory((0,), (block, block)).__sizeof__() == 2 * (320 + 80 + 80)
