"""The time of 20 models that are fitted together over that of one, and what they cost the budget together over 20 separate refits."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from nightfit.config import Config, load
from nightfit.ledger import Ledger
from nightfit.nightly import Failed, compared, prepare, prepare_together, run, run_together
from nightfit.types import Array

MODELS, COLUMNS = 20, 20
SIZES = (10_000, 100_000)
REPEATS = 3  # of one model, whose time all others are divided by


def ratios() -> dict[str, float]:
    found: dict[str, float] = {}
    for rows in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            found |= _ratios(Path(folder), rows)
    return found


def _ratios(folder: Path, rows: int) -> dict[str, float]:
    configs = _configured(folder, rows)
    Ledger.create(configs[0].ledger_url).engine.dispose()
    run(prepare(_windowed(configs[0], "warm")))  # compiles, and reads the files into memory
    _spent([_windowed(config, "warm together") for config in configs[:2]])
    one = sum(_spent([_windowed(configs[0], f"one {number}")]) for number in range(REPEATS)) / REPEATS
    together = _spent([_windowed(config, "together") for config in configs])
    separate = sum(_spent([_windowed(config, "separate")]) for config in configs[:2]) / 2 * MODELS
    (comparison,) = compared(prepare_together([_windowed(config, "cost") for config in configs])[0])
    return {
        f"{rows:,} x {COLUMNS}: time of {MODELS} models / of one": float((together / one)[0]),
        f"{rows:,} x {COLUMNS}: processor time of {MODELS} models / of one": float((together / one)[1]),
        f"{rows:,} x {COLUMNS}: time of {MODELS} models / of {MODELS} separate refits": float((together / separate)[0]),
        f"{rows:,} x {COLUMNS}: epsilon of {MODELS} models / of {MODELS} separate refits": comparison.together / comparison.separately,
    }


def _spent(configs: Sequence[Config]) -> Array:
    """Seconds, and seconds of the processor: of a busy machine the second tells more."""
    start = np.array([time.perf_counter(), time.process_time()])
    if len(configs) == 1:
        run(prepare(configs[0]))
    else:
        failed = [result for result in run_together(prepare_together(configs)[0]) if isinstance(result, Failed)]
        assert not failed, failed[0].error
    return np.array([time.perf_counter(), time.process_time()]) - start


def _windowed(config: Config, window: str) -> Config:
    return config.model_copy(update={"data": config.data.model_copy(update={"window": window})})


def _configured(folder: Path, rows: int) -> list[Config]:
    """Records with a target for each model, and the models' configurations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS))
    columns = {f"x{place}": X[:, place] for place in range(COLUMNS)}
    targets = {f"y{place}": X @ rng.normal(size=COLUMNS) + rng.normal(size=rows) for place in range(MODELS)}
    (folder / "shards").mkdir()
    pq.write_table(pa.table({**columns, **targets}), folder / "shards" / "0.parquet", row_group_size=100_000)
    return [_config(folder, f"m{place}", f"y{place}", list(columns)) for place in range(MODELS)]


def _config(folder: Path, name: str, target: str, columns: list[str]) -> Config:
    content = {
        "name": name,
        "data": {"name": "d", "path": "shards", "target": target, "columns": {column: {"kind": "number"} for column in columns}},
        "privacy": {"epsilon": 1.0, "delta": 1e-8, "lifetime": {"epsilon": 30.0, "delta": 1e-7}},
        "cluster": {"kind": "synchronous"},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return load(folder / f"{name}.yaml")
