"""What comes to the driver in one step of many workers: bytes and messages, of sums that are gathered or added on the workers first.

16 and 128 workers are threads of one process; 1,000 are computed from the tree's plan. The query is as wide as a second moment of 500
columns. Numbers that do not depend on the machine: nothing is timed.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from benchmarks._measure import CLIP, data_set, preprocessing
from nightfit.problem.losses.squared import Squared
from nightfit.queries.gradient_sums import GradientSum
from nightfit.shards import on_cluster, tree
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import Manifest

COLUMNS, COORDINATES = 2, 500 * 501 // 2
COUNTS = (16, 128)


class Wide(GradientSum):
    """A gradient with as many coordinates as a second moment of 500 columns has: only its size matters here."""

    @property
    def coordinates(self) -> int:
        return COORDINATES

    def chunk(self, block: Any) -> Any:
        return np.full(COORDINATES, len(block), dtype=np.int64)

    @staticmethod
    def merge(one: Any, other: Any) -> Any:
        return one + other


def wide() -> Wide:
    return Wide(loss=Squared(), bounding=CLIP, weights=np.zeros(COLUMNS), bits=30)


def gathered(manifest: Manifest, workers: int, driver_bytes: float) -> tuple[int, int]:
    """Bytes and messages of results at the driver in one step of so many workers."""
    before, tree.DRIVER_BYTES = tree.DRIVER_BYTES, driver_bytes  # type: ignore[assignment]
    quiet: dict[str, Any] = {
        "dashboard_address": None,
        "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
    }
    try:
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=False, memory_limit="2GiB", silence_logs=logging.CRITICAL, **quiet
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
            ShardedDataset(manifest, preprocessing(COLUMNS), client, chunk_bytes=1) as shards,
        ):
            shards.stage()
            partials = list(shards.executor._by_tasks(on_cluster.aggregate_staged, wide(), shards.executor.staged or ()))
            return sum(integers.nbytes for _, integers in partials), len(partials)
    finally:
        tree.DRIVER_BYTES = before


def planned(workers: int) -> tuple[int, int, int]:
    """Bytes and messages at the driver, and levels of the tree, for so many workers."""
    parts, levels = workers, 0
    while tree.reduced_on_workers(wide(), parts):
        parts, levels = -(-parts // tree.FAN_IN), levels + 1
    return parts * COORDINATES * 8, parts, levels


def content(_data: Path | None = None) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    with data_set(20_000, COLUMNS, 256) as manifest:
        for workers in COUNTS:
            flat, added = gathered(manifest, workers, np.inf), gathered(manifest, workers, tree.DRIVER_BYTES)
            assert added == planned(workers)[:2]
            found.append({"workers": workers, "gathered": flat, "tree": added, "levels": planned(workers)[2], "run": True})
    many = planned(1000)
    found.append({"workers": 1000, "gathered": (1000 * COORDINATES * 8, 1000), "tree": many[:2], "levels": many[2], "run": False})
    return {"workers": found}


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'workers':>8} {'gathered':>22} {'added on the workers':>28} {'levels':>7}"
    for row in found["workers"]:
        flat, tree = row["gathered"], row["tree"]
        how = "" if row["run"] else "  (computed from the plan)"
        yield (
            f"{row['workers']:8} {flat[0] / 2**20:9.0f} MiB in {flat[1]:5} "
            f"{tree[0] / 2**20:15.0f} MiB in {tree[1]:5} {row['levels']:7}{how}"
        )
