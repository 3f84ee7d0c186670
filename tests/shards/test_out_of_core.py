"""Data larger than the driver may ever map: refit and predict run with less address space to spare than the decoded size."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

pytestmark = pytest.mark.process

ROWS, COLUMNS, SHARDS = 1_200_000, 100, 6
SPARE = 768 * 2**20
# Limits the command to what its imports have mapped and SPARE. One arena: threads that map 64 MB each are no rows.
LIMITED = """
import re, resource, sys
from pathlib import Path
if __name__ == "__main__":
    import dask_ml.wrappers
    import nightfit_flows.refit, nightfit.nightly.job, nightfit.shards.dataset, nightfit.shards.predict
    from nightfit.cli import main
    used = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    resource.setrlimit(resource.RLIMIT_AS, (used + {spare},) * 2)
    main()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, prefect_server):
    """ShardedDataset that are small on disk and larger than the limit when decoded."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "shards").mkdir()
    rng = np.random.default_rng(0)
    rows, values = ROWS // SHARDS, np.array([-1.0, -0.3, 0.4, 1.0])
    constant = [pa.array(np.full(rows, value)) for value in values]
    for part in range(SHARDS):
        codes = [rng.integers(0, 4, rows) for _ in range(3)]
        columns = {f"x{j}": pa.array(values[codes[j]]) if j < 3 else constant[j % 4] for j in range(COLUMNS)}
        table = pa.table({**columns, "y": (codes[0] > 1).astype(float)})
        pq.write_table(table, folder / "shards" / f"part-{part}.parquet", row_group_size=100_000, compression="zstd")
    content = {
        "name": "large",
        "data": {"path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-8, "lifetime": {"epsilon": 2.0, "delta": 1e-7}},
        "model": {"loss": "logistic"},
        "method": {"steps": 2},
        "cluster": {"kind": "local", "workers": 2, "memory": "1GiB"},
    }
    (folder / "refit.yaml").write_text(yaml.safe_dump(content))
    (folder / "limited.py").write_text(LIMITED.format(spare=SPARE))
    (folder / "environment.json").write_text(json.dumps(prefect_server))
    return folder


def limited(folder, *words):
    environment = {**os.environ, **json.loads((folder / "environment.json").read_text()), "MALLOC_ARENA_MAX": "1"}
    said = subprocess.run([sys.executable, "limited.py", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_refit_and_predict_run_with_less_address_space_than_the_decoded_size(place):
    assert ROWS * COLUMNS * 8 > 1.1 * SPARE
    limited(place, "ledger", "init", "--config", "refit.yaml")
    result = json.loads(limited(place, "refit", "refit.yaml", "--json"))
    assert result["private"]
    assert result["coef"]["x0"] > 5 * max(abs(result["coef"][other]) for other in ("x1", "x2"))  # a slope of the constants is noise
    limited(place, "predict", result["release"], "shards", "-o", "scored.parquet")
    assert pq.read_metadata(place / "scored.parquet").num_rows == ROWS


def test_the_limit_is_one_that_the_decoded_data_would_break(place):
    held = LIMITED.format(spare=SPARE).replace("    main()", "    import pyarrow.parquet as pq; pq.read_table('shards').to_pandas()")
    said = subprocess.run([sys.executable, "-c", held], cwd=place, capture_output=True, text=True)
    assert said.returncode != 0
    assert "alloc" in said.stderr.lower() or "memory" in said.stderr.lower()
