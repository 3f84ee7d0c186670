"""Data larger than the driver may ever map: refit and predict run under an address-space limit below the decoded size."""

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

ROWS, COLUMNS, SHARDS = 4_200_000, 100, 6
LIMIT = 3 * 2**30
LIMITED = """
import resource, sys
if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
    from nightfit.cli import main
    main()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, prefect_server):
    """Shards that are small on disk and larger than the limit when decoded."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "shards").mkdir()
    rng = np.random.default_rng(0)
    values = pa.array([-1.0, -0.3, 0.4, 1.0])
    for part in range(SHARDS):
        rows = ROWS // SHARDS
        codes = [rng.integers(0, 4, rows) if j < 3 else np.full(rows, j % 4) for j in range(COLUMNS)]
        columns = {
            f"x{j}": pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int8)), values).cast(pa.float64())
            for j, code in enumerate(codes)
        }
        table = pa.table({**columns, "y": (codes[0] > 1).astype(float)})
        pq.write_table(table, folder / "shards" / f"part-{part}.parquet", row_group_size=100_000, compression="zstd")
    content = {
        "name": "large",
        "data": {"path": "shards", "target": "y", "default_bounds": [-1, 1]},
        "privacy": {"epsilon": 1.0, "delta": 1e-8, "lifetime": {"epsilon": 2.0, "delta": 1e-7}},
        "model": {"loss": "logistic"},
        "method": {"steps": 2},
        "cluster": {"kind": "local", "workers": 2, "memory": "1GiB"},
    }
    (folder / "refit.yaml").write_text(yaml.safe_dump(content))
    (folder / "limited.py").write_text(LIMITED.format(limit=LIMIT))
    (folder / "environment.json").write_text(json.dumps(prefect_server))
    return folder


def limited(folder, *words):
    environment = {**os.environ, **json.loads((folder / "environment.json").read_text())}
    said = subprocess.run([sys.executable, "limited.py", *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def test_refit_and_predict_run_under_an_address_space_limit_below_the_decoded_size(place):
    assert ROWS * COLUMNS * 8 > LIMIT
    limited(place, "ledger", "init", "--config", "refit.yaml")
    result = json.loads(limited(place, "refit", "refit.yaml", "--json"))
    assert result["private"]
    assert result["coef"]["x0"] == max(result["coef"].values())
    limited(place, "predict", result["release"], "shards", "-o", "scored.parquet")
    assert pq.read_metadata(place / "scored.parquet").num_rows == ROWS


def test_the_limit_is_one_that_the_decoded_data_would_break(place):
    code = "import resource, pyarrow.parquet as pq; resource.setrlimit(resource.RLIMIT_AS, ({0}, {0})); pq.read_table('shards').to_pandas()"
    said = subprocess.run([sys.executable, "-c", code.format(LIMIT)], cwd=place, capture_output=True, text=True)
    assert said.returncode != 0
    assert "alloc" in said.stderr.lower() or "memory" in said.stderr.lower()
