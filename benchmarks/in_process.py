"""What a user waits for in one process: staging, second moments, noise and whole fits, against what others need for the like."""

import math
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks._measure import in_turns, preprocessing, processor_seconds, ratio
from nightfit.estimators import PrivateLinearRegression, PrivateLogisticRegression
from nightfit.privacy.noise import OperatingSystemNoise
from nightfit.queries.rows import Rows
from nightfit.queries.second_moments import SecondMoment, moment_bits
from nightfit.shards.manifest import scan
from nightfit.shards.read import BATCH_BYTES, chunks_of, load, parquet_file
from nightfit.shards.synthetic import Synthetic
from nightfit.types import Array, Block, Integers

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
FITS = 3  # each, in turns


def ratios() -> dict[str, float]:
    found = {"staging 1e6 x 20 against pyarrow's decode": staging(1_000_000, 20)}
    found |= {f"second moment of {columns} columns against BLAS": moment(columns) for columns in (200, 2000)}
    found |= fits(100_000, 50) | fits(50_000, 200) | labels(1_000_000, 50)
    return found | {"noise in a fit of 10,000 x 500": noise_share(10_000, 500)}


def staging(rows: int, columns: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Synthetic(rows=rows, columns=columns, shards=2, task="linear", seed=1).write(folder)
        shape = preprocessing(columns)
        chunks, names = chunks_of(scan(name), columns, 2**30), [*shape.features, "y"]

        def decoded() -> None:
            for path in sorted(folder.glob("*.parquet")):
                with path.open("rb") as handle:
                    for _ in parquet_file(handle).iter_batches(BATCH_BYTES // (8 * len(names)), columns=names):
                        pass

        return ratio(lambda: [load(chunk, shape) for chunk in chunks], decoded)


def moment(columns: int, rows: int = 4096) -> float:
    """On one thread, which is what a chunk has."""
    X = np.random.default_rng(0).normal(size=(rows, columns))
    scaled = Rows(centre=np.zeros(columns), scale=np.ones(columns), reach=np.full(columns, 8.0))
    query, block = SecondMoment(rows=scaled, cap=math.sqrt(columns), bits=moment_bits(10**6)), Block(X, np.zeros(rows))
    with threadpool_limits(1, "blas"):
        return ratio(lambda: query.chunk(block), lambda: X.T @ X)


def linear(rows: int, columns: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, X @ rng.normal(size=columns) + rng.normal(size=rows)


def fits(rows: int, columns: int) -> dict[str, float]:
    X, y = linear(rows, columns)
    chunked = da.from_array(X, chunks=(-(-rows // 4), -1)), da.from_array(y, chunks=-(-rows // 4))
    plain, private, lazy = in_turns(
        lambda: LinearRegression().fit(X, y),
        lambda: PrivateLinearRegression(**BUDGET).fit(X, y),
        lambda: PrivateLinearRegression(**BUDGET).fit(*chunked),
        repeats=FITS,
    )
    size = f"{rows:,} x {columns}"
    return {f"auto against LinearRegression, {size}": private / plain, f"Dask arrays against numpy, {size}": lazy / private}


def labels(rows: int, columns: int) -> dict[str, float]:
    """In processors' time: scikit-learn's BLAS has all processors, whose threads wait for each other on a busy machine."""
    X, z = linear(rows, columns)
    y = (np.random.default_rng(1).logistic(size=rows) < z / math.sqrt(columns)).astype(int)
    plain, private = in_turns(
        lambda: LogisticRegression(C=np.inf).fit(X, y),
        lambda: PrivateLogisticRegression(epsilon=1.0, delta=1e-8, classes=(0, 1)).fit(X, y),
        repeats=FITS,
        clock=processor_seconds,
    )
    return {f"auto against LogisticRegression, {rows:,} x {columns}, processors' time": private / plain}


def noise_share(rows: int, columns: int) -> float:
    """The part of a fit that the driver waits for noise."""
    X, y = linear(rows, columns)
    drawn, waited = OperatingSystemNoise.discrete_gaussian, 0.0

    def timed(noise: OperatingSystemNoise, values: Integers, sigma: float) -> Integers:
        nonlocal waited
        start = time.perf_counter()
        noisy = drawn(noise, values, sigma)
        waited += time.perf_counter() - start
        return noisy

    OperatingSystemNoise.discrete_gaussian = timed  # type: ignore[method-assign]
    try:
        start = time.perf_counter()
        PrivateLinearRegression(**BUDGET).fit(X, y)
        return waited / (time.perf_counter() - start)
    finally:
        OperatingSystemNoise.discrete_gaussian = drawn  # type: ignore[method-assign]
