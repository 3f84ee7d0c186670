"""What the benchmarks share: medians, data sets, a cluster. Imports the package."""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Precision, Preprocessing
from nightfit.shards.cluster import Local, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import Manifest, scan
from nightfit.shards.synthetic import Synthetic

REPEATS = 7
CLIP = L2Clip(bound=1.0)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_seconds(work: Callable[[], object]) -> float:
    """The time that processors worked for this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turns(*works: Callable[[], object], repeats: int = REPEATS, clock: Callable[[Callable[[], object]], float] = seconds) -> list[float]:
    """The median time of each, measured in turns so that a busy moment weighs on all."""
    for work in works:
        work()
    turns = [[clock(work) for work in works] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*turns, strict=True)]


def ratio(work: Callable[[], object], unit: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median time of work in median times of unit."""
    one, other = in_turns(work, unit, repeats=repeats)
    return one / other


def preprocessing(columns: int, precision: Precision = "double") -> Preprocessing:
    return Preprocessing(
        features=tuple(f"x{j}" for j in range(columns)),
        target="y",
        centre=(0.0,) * columns,
        scale=(4.0,) * columns,
        target_scale=10.0,
        intercept=False,
        precision=precision,
    )


def question(columns: int, bounding: Bounding = CLIP, bits: int = 36) -> GradientSum:
    return GradientSum(loss=Squared(), bounding=bounding, weights=np.linspace(-0.1, 0.1, columns), bits=bits)


@contextlib.contextmanager
def data_set(rows: int, columns: int, shards: int) -> Iterator[Manifest]:
    """Synthetic shards in a folder of their own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="nightfit-benchmark-") as folder:
        Synthetic(rows=rows, columns=columns, shards=shards, task="linear", seed=1).write(Path(folder) / "shards")
        yield scan(str(Path(folder) / "shards"))


@contextlib.contextmanager
def on_workers(
    manifest: Manifest,
    columns: int,
    workers: int = 2,
    memory: str = "6GiB",
    directory: str | None = None,
    precision: Precision = "double",
) -> Iterator[Any]:
    """The data set decoded on a local cluster: (client, shards)."""
    with (
        connected(Local(workers=workers, memory=memory, directory=directory)) as client,
        ShardedDataset(manifest, preprocessing(columns, precision), client) as shards,
    ):
        shards.stage()
        shards.aggregate(question(columns))
        yield client, shards
