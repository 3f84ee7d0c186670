"""Speed, as ratios with margins so wide that only a loop that lost its vectors, or a step that lost its workers, crosses them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import kernels, steps

ROOT = Path(__file__).parents[2]
OF_MACHINES = {"disk", "feel", "in_process", "iteration", "kernels", "peers", "scale", "start", "steps"}
NAMES = OF_MACHINES | {
    "accuracy",
    "simple",
    "ablation",
    "seeds",
    "coverage",
    "drift",
    "predicted",
    "workers",
    "arrays",
    "categories",
    "hospital",
    "demo",
    "evaluation",
}


def test_every_pass_over_rows_is_measured() -> None:
    found = kernels.ratios(rows=2_000)
    assert len(found) > 10
    assert all(ratio > 0 for ratio in found.values())


@pytest.mark.sweep
def test_a_pass_costs_a_few_readings_of_memory_and_groups_next_to_nothing() -> None:
    """By the clock, so it is no test for a busy machine."""
    for name, ratio in kernels.ratios(rows=50_000).items():
        assert ratio < (8.0 if "groups" in name else 60.0 if name == "psi" else 30.0), name


@pytest.mark.sweep
def test_a_step_costs_few_round_trips_and_does_not_slow_down() -> None:
    late, overhead = steps.ratios(steps=60, workers=1).values()
    assert late < 4
    assert overhead < 40


@pytest.mark.process
def test_every_benchmark_can_be_named_and_speaks_json() -> None:
    told = subprocess.run([sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(told.stdout.split("{", 1)[1].split("}", 1)[0].split(",")) >= NAMES
    said = (
        "import sys, benchmarks.kernels; benchmarks.kernels.ratios = lambda: {'clip': 1.5}; "
        "sys.argv = ['benchmarks', 'kernels', '--json']; from benchmarks.__main__ import main; main()"
    )
    answer = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == {"ratios": {"clip": 1.5}}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_results_tell_of_every_benchmark(name: str) -> None:
    assert f"## {name}" in (ROOT / "benchmarks" / "RESULTS.md").read_text()
