"""What the examples of `nightfit.api` find in their folder: a refit.yaml and a few records."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CONFIG = """\
name: visits
data:
  path: clinic
  target: {column: visits, bounds: [0, 20]}
  columns:
    age: {kind: number, bounds: [0, 110]}
    visits_before: {kind: number, bounds: [0, 20]}
privacy: {epsilon: 1.0, delta: 1.0e-6, lifetime: {epsilon: 8.0, delta: 1.0e-5}}
cluster: {kind: synchronous}
"""


@pytest.fixture(autouse=True)
def example_folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.name.startswith("nightfit.api"):
        return
    rng = np.random.default_rng(1)
    age, before = rng.uniform(18, 90, 2000), rng.poisson(3, 2000).astype(float)
    (tmp_path / "clinic").mkdir()
    visits = 0.05 * age + 0.5 * before + rng.standard_t(3, 2000)
    pq.write_table(pa.table({"age": age, "visits_before": before, "visits": visits}), tmp_path / "clinic" / "part-0.parquet")
    (tmp_path / "refit.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
