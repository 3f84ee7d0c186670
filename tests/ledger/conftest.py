"""What tests of killed refits share: a folder with shards, a configuration and a ledger."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nightfit.config import load
from nightfit.ledger import Ledger


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "shards").mkdir()
    X = rng.uniform(-1, 1, (500, 2))
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": X[:, 0]}), tmp_path / "shards" / "part.parquet")
    content = {
        "name": "m",
        "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
        "privacy": {"epsilon": 0.1, "delta": 1e-6, "lifetime": {"epsilon": 30.0, "delta": 1e-5}},
        "method": {"steps": 12, "scales": "public"},
        "cluster": {"kind": "synchronous"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    Ledger.create(load(tmp_path / "refit.yaml").ledger_url)
    return tmp_path
