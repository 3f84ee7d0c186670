"""The whole of `nightfit plan` and `nightfit refit` on 1,000 rows, against a Python that imports what any of it needs."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._measure import seconds
from nightfit.shards.synthetic import Synthetic

CONFIGURATION = """
name: small
data: {path: shards, target: {column: y, bounds: [-5, 5]}, default: {kind: number, bounds: [-5, 5]}}
privacy: {epsilon: 1.0, delta: 1.0e-6, lifetime: {epsilon: 30.0, delta: 1.0e-4}}
method: {steps: 2}
cluster: {kind: CLUSTER}
"""
REPEATS = 3


def ratios() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Synthetic(rows=1000, columns=5, shards=2, task="linear", seed=1).write(folder / "shards")
        for kind in ("local", "synchronous"):
            (folder / f"{kind}.yaml").write_text(CONFIGURATION.replace("CLUSTER", kind))

        def run(*words: str) -> None:
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PREFECT_HOME": str(folder / "prefect")}
            subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True)

        def nightfit(*words: str) -> None:
            run("-c", "from nightfit.cli import main; main()", *words)

        nightfit("ledger", "init", "--config", "local.yaml")
        floor = statistics.median(seconds(lambda: run("-c", "import numba, distributed, pyarrow.parquet, pandas")) for _ in range(REPEATS))
        found = {"help": ("--help",), "plan": ("plan", "local.yaml")}
        found |= {f"refit, {kind}": ("refit", f"{kind}.yaml", "--again", "--json") for kind in ("synchronous", "local")}
        return {
            name: statistics.median(seconds(lambda w=words: nightfit(*w)) for _ in range(REPEATS)) / floor for name, words in found.items()
        }
