"""Heavy-tailed synthetic Parquet shards, written one at a time. Imports numpy and pyarrow."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nightfit.types import Array

Task = Literal["linear", "logistic", "sign"]
Noise = Literal["normal", "student", "lognormal", "loglogistic", "pareto"]
Features = Literal["gaussian", "student"]

ROW_GROUP = 65536  # 50 columns and y: 65536 * 51 * 8 bytes = 27 MB a row group, and one of them is alive at a time
STEEPNESS = 3.0  # of the logistic curve along the unit vector truth(): the best classifier is right about 5 times in 6, not always
HEAVIEST = 0.25  # a power tail of index a reaches 2**(53 / a) in 53-bit draws: 2**212 here, far inside float64
# a lognormal of this sigma has mean exp(312) and 9-sigma draws of exp(225); a logistic draw of 53 bits is below 37: all inside float64
WIDEST = {"lognormal": 25.0, "loglogistic": 16.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Synthetic:
    """A data set of `rows` rows in `shards` Parquet files, with columns x0 .. x{columns - 1} and y, all float64.

    linear:   y = x . w + noise_scale * e
    logistic: y in {0, 1}, P(y = 1 | x) = 1 / (1 + exp(-3 x . w)); the noise fields are not used
    sign:     y = 1 if x . w + noise_scale * e > 0, else 0 (Wang et al. 2020, sec. 6; Xie et al. 2023, sec. 6: "logistic with noise")

    e is shifted to mean zero where its mean exists. With a = noise_tail:
    normal: e ~ N(0, 1), a is not used; student: e ~ t(a degrees of freedom); lognormal: e = exp(a N(0, 1)) - exp(a^2 / 2);
    loglogistic: e = exp(a L) - m with L ~ logistic(0, 1), m = pi a / sin(pi a) if a < 1 and else 0; moments of order >= 1 / a are infinite;
    pareto: P(e + m > t) = t^-a for t >= 1, m = a / (a - 1) if a > 1 and else 0. Moments of order >= a are infinite for student and pareto.

    The entries of x are independent, N(0, 1) or t(feature_tail degrees of freedom), and not rescaled.

    Everything follows from the fields: row group g of shard s is drawn from the Philox stream with key (seed, 0) that starts at
    counter (g, s) * 2^128, so any shard can be made alone and no two streams overlap. A row group size is part of that name: another
    one gives other rows. The bits may change with numpy's version, as numpy promises the stream and not the distributions.
    """

    rows: int
    columns: int
    shards: int
    task: Task
    noise: Noise = "normal"
    noise_tail: float = 3.0
    features: Features = "gaussian"
    feature_tail: float = 5.0
    noise_scale: float = 1.0
    nonzeros: int | None = None
    seed: int

    def __post_init__(self) -> None:
        for name, value, choices in (("task", self.task, Task), ("noise", self.noise, Noise), ("features", self.features, Features)):
            if value not in get_args(choices):
                raise ValueError(f"{name} {value!r} is unknown; use one of {', '.join(get_args(choices))}")
        if self.columns < 1:
            raise ValueError(f"columns is {self.columns}; at least 1 is needed")
        if not 1 <= self.shards <= 100_000:
            raise ValueError(f"shards is {self.shards}; use 1 to 100000, which is what part-00000.parquet can number")
        if self.rows < self.shards:
            raise ValueError(f"rows is {self.rows} for {self.shards} shards; give each shard at least one row")
        if self.nonzeros is not None and not 1 <= self.nonzeros <= self.columns:
            raise ValueError(f"nonzeros is {self.nonzeros}; use 1 to {self.columns} (the columns), or None for all of them")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed is {self.seed}; use an integer from 0 to 2**64 - 1")
        if not 0 <= self.noise_scale < math.inf:
            raise ValueError(f"noise_scale is {self.noise_scale}; use a finite number, 0 or more")
        if not HEAVIEST <= self.feature_tail < math.inf:
            raise ValueError(f"feature_tail is {self.feature_tail}; use finite degrees of freedom, at least {HEAVIEST}")
        widest = WIDEST.get(self.noise)
        if widest is not None and not 0 < self.noise_tail <= widest:
            raise ValueError(f"noise_tail is {self.noise_tail}; a {self.noise} needs a scale of its logarithm above 0 and at most {widest}")
        if widest is None and not HEAVIEST <= self.noise_tail < math.inf:
            raise ValueError(f"noise_tail is {self.noise_tail}; use finite degrees of freedom or a Pareto index, at least {HEAVIEST}")

    def truth(self) -> Array:
        """w: `nonzeros` random coordinates (all, if None) are +-1 / sqrt(nonzeros) with random signs, the rest zero, so |w|_2 = 1."""
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, 1], dtype=np.uint64)))
        size = self.columns if self.nonzeros is None else self.nonzeros
        w = np.zeros(self.columns)
        w[rng.permutation(self.columns)[:size]] = rng.choice([-1.0, 1.0], size) / math.sqrt(size)
        return w

    def table(self, shard: int, row_group: int = ROW_GROUP) -> pa.Table:
        """The rows that write() puts in one shard, all in memory."""
        return pa.Table.from_batches(self._groups(shard, row_group), schema=self._schema())

    def write(self, folder: Path, row_group: int = ROW_GROUP) -> list[Path]:
        """Writes part-00000.parquet and so on; memory holds one row group, and a file appears under its name when complete.

        Parts that this data set would not overwrite are refused, as a reader of the folder would mix them with the new ones.
        """
        _check_row_group(row_group)
        paths = [folder / f"part-{shard:05d}.parquet" for shard in range(self.shards)]
        folder.mkdir(parents=True, exist_ok=True)
        foreign = sorted(set(folder.glob("*.parquet")) - set(paths))
        if foreign:
            raise FileExistsError(f"{folder} holds {foreign[0].name}, which is no part of these {self.shards} shards; use an empty folder")
        for shard, path in enumerate(paths):
            partial = folder / f".{path.name}.partial"
            try:
                # random doubles neither repeat nor compress, and statistics in the footer would publish the extremes
                with pq.ParquetWriter(partial, self._schema(), compression="NONE", use_dictionary=False, write_statistics=False) as writer:
                    for batch in self._groups(shard, row_group):
                        writer.write_batch(batch, row_group_size=row_group)
                        del batch  # before the next one is drawn
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        return paths

    def _schema(self) -> pa.Schema:
        return pa.schema([(name, pa.float64()) for name in (*(f"x{j}" for j in range(self.columns)), "y")])

    def _groups(self, shard: int, row_group: int) -> Iterator[pa.RecordBatch]:
        """The row groups of a shard in order; the first rows % shards shards are one row longer than the others."""
        _check_row_group(row_group)
        if not 0 <= shard < self.shards:
            raise ValueError(f"shard is {shard}; use 0 to {self.shards - 1}")
        rows = self.rows // self.shards + (shard < self.rows % self.shards)
        for group, start in enumerate(range(0, rows, row_group)):
            yield self._batch(shard, group, min(row_group, rows - start))

    def _batch(self, shard: int, group: int, rows: int) -> pa.RecordBatch:
        """One row group. X holds a column of the table in each row, so that Arrow takes the columns without a copy."""
        key, counter = np.array([self.seed, 0], dtype=np.uint64), np.array([0, 0, group, shard], dtype=np.uint64)
        rng = np.random.Generator(np.random.Philox(key=key, counter=counter))
        shape = (self.columns, rows)
        X = rng.standard_normal(shape) if self.features == "gaussian" else rng.standard_t(self.feature_tail, shape)
        z = self.truth() @ X
        if self.task != "logistic":
            noisy = z + self.noise_scale * self._noise(rng, rows)
            y = noisy if self.task == "linear" else (noisy > 0).astype(np.float64)
        else:
            y = (rng.logistic(size=rows) < STEEPNESS * z).astype(np.float64)  # P(L < t) = 1 / (1 + exp(-t))
        return pa.RecordBatch.from_arrays([pa.array(column) for column in (*X, y)], schema=self._schema())

    def _noise(self, rng: np.random.Generator, rows: int) -> Array:
        """e of the class docstring."""
        a = self.noise_tail
        match self.noise:
            case "normal":
                return rng.standard_normal(rows)
            case "student":
                return rng.standard_t(a, rows)
            case "lognormal":
                return rng.lognormal(0.0, a, rows) - math.exp(a * a / 2)
            case "loglogistic":
                mean = math.pi * a / math.sin(math.pi * a) if a < 1 else 0.0
                return np.exp(a * rng.logistic(0.0, 1.0, rows)) - mean
            case "pareto":
                return rng.pareto(a, rows) + 1.0 - (a / (a - 1) if a > 1 else 0.0)  # numpy's pareto starts at 0


def _check_row_group(row_group: int) -> None:
    if row_group < 1:
        raise ValueError(f"row_group is {row_group}; at least 1 row is needed")
