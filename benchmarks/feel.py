"""Whole refits of 10,000 rows as a command, against the same steps called from Python in one process; then what `in_process` measures."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import in_process
from benchmarks._measure import seconds
from nightfit.shards.synthetic import Synthetic

CONFIGURATION = """
name: small
data: {path: shards, target: y, default: {kind: number, bounds: [-5, 5]}}
privacy: {epsilon: 1.0, delta: 1.0e-6, lifetime: {epsilon: 30.0, delta: 1.0e-4}}
cluster: KIND
"""
BARE = "import nightfit; nightfit.refit('synchronous.yaml', again=True)"
REPEATS = 3


def ratios() -> dict[str, float]:
    """Times of the command in those of the bare job, in turns, so that a busy moment weighs on all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Synthetic(rows=10_000, columns=20, shards=2, task="linear", seed=1).write(folder / "shards")
        for kind in ("auto", "local", "synchronous"):
            (folder / f"{kind}.yaml").write_text(CONFIGURATION.replace("KIND", kind))

        def run(*words: str) -> None:
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PREFECT_HOME": str(folder / "prefect")}
            subprocess.run([sys.executable, "-c", *words], cwd=folder, env=environment, check=True, capture_output=True)

        def nightfit(*words: str) -> None:
            run("from nightfit.cli import main; main()", *words)

        nightfit("ledger", "init", "--config", "auto.yaml")
        whole = {
            "the bare job": lambda: run(BARE),
            "refit --direct": lambda: nightfit("refit", "auto.yaml", "--again", "--json", "--direct"),
            "refit (Prefect flow)": lambda: nightfit("refit", "auto.yaml", "--again", "--json"),
            "refit (Prefect flow), local cluster": lambda: nightfit("refit", "local.yaml", "--again", "--json"),
        }
        turns = [[seconds(work) for work in whole.values()] for _ in range(REPEATS + 1)][1:]
        times = [statistics.median(column) for column in zip(*turns, strict=True)]
        return {name: time / times[0] for name, time in zip(whole, times, strict=True)} | in_process.ratios()
