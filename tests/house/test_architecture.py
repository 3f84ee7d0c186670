"""The habits: rooms import downwards, each dangerous library has one importer, code is formatted and typed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, cwd=ROOT, **kwargs):
    return subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, **kwargs)


def lint(cwd=ROOT):
    code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)


def test_rooms_import_only_what_the_contracts_allow():
    said = lint()
    assert said.returncode == 0, said.stdout + said.stderr


FORBIDDEN = {
    "problem/losses/squared.py": "from nightfit.privacy import gate",
    "queries/histograms.py": "from nightfit.privacy import accounting",
    "methods/auto/descent.py": "from nightfit.methods.loop import loop",
    "privacy/events/gaussian.py": "from nightfit.privacy import gate",
    "methods/loop/solvers/proximal_gradient.py": "from nightfit.shards import read",
    "privacy/gate.py": "import opendp",
    "methods/loop/gradient_estimators/clipped.py": "import dask",
    "planning/plan.py": "import dp_accounting",
    "nightly/fit.py": "import sqlalchemy",
    "nightly/job.py": "import prefect",
    "release/report.py": "import pyarrow",
    "release/release.py": "import dask_ml",
}


def test_each_contract_bites(tmp_path):
    """Every forbidden import, planted alone in a copy, is found."""
    import shutil

    for name in ("pipeline", "flows"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint(tmp_path).returncode == 0
    for place, line in FORBIDDEN.items():
        path = tmp_path / "pipeline" / "nightfit" / place
        whole = path.read_text()
        path.write_text(f"{whole}\n{line}\n")
        assert lint(tmp_path).returncode != 0, f"{line} in {place} was not found"
        path.write_text(whole)


def test_the_code_is_clean():
    said = run("ruff", "check", ".")
    assert said.returncode == 0, said.stdout
    said = run("ruff", "format", "--check", ".")
    assert said.returncode == 0, said.stdout


def test_the_types_hold():
    said = run("mypy")
    assert said.returncode == 0, said.stdout


def test_every_dependency_is_pinned_in_the_tested_set():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [*declared["dependencies"], *declared["optional-dependencies"]["test"]]
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    bare = {name.split(";")[0].split("[")[0].split(">")[0].split("<")[0].split("=")[0].strip().lower() for name in names}
    assert bare <= pinned, bare - pinned


@pytest.mark.parametrize("module", ["prefect", "opendp", "dask_ml", "dp_accounting", "matplotlib"])
def test_help_and_plan_import_nothing_slow(module):
    code = f"import sys; import nightfit.cli, nightfit.config; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
