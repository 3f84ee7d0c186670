"""The core dependencies are enough for estimators, plans and direct refits; what needs an extra says so before anything is reserved."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nightfit.extras import MissingExtra, needs
from nightfit.ledger import Ledger

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Blocks every module that the core dependencies do not bring, and then does what they must be enough for.
PROGRAM = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

blocked = set(json.loads(sys.argv[1]))
before = {name for name in sys.modules if name.partition(".")[0] in blocked}  # by Python itself, at its start
sys.meta_path.insert(0, Blocked())
import numpy as np
from nightfit import PrivateLogisticRegression, PrivateRidge

X = np.random.default_rng(3).normal(size=(400, 2))
private = {"epsilon": 1.0, "delta": 1e-6}
assert PrivateRidge(**private).fit(X, X @ [1.0, 2.0]).predict(X).shape == (400,)
assert PrivateLogisticRegression(**private, classes=(0, 1)).fit(X, (X[:, 0] > 0).astype(int)).predict(X).shape == (400,)

from nightfit.cli import app

def told(*words):
    try:
        app(words, standalone_mode=False)
    except Exception as error:
        print(type(error).__name__, error)

told("plan", "refit.yaml", "--json")
told("refit", "refit.yaml")
told("refit", "refit.yaml", "--direct")
told("serve", "refit.yaml")
told("demo")
assert before == {name for name in sys.modules if name.partition(".")[0] in blocked}
"""


def of_extra(extra):
    return [Requirement(text) for text in PROJECT["optional-dependencies"][extra]]


def closure(needed):
    """The names of the distributions that requirements bring, as far as they are installed."""
    found, waiting = set(), [(Requirement(text), "") for text in needed]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                try:
                    waiting += [(Requirement(text), wanted) for text in metadata.requires(name) or ()]
                except metadata.PackageNotFoundError:
                    continue
                found.add(name)
    return found


def beyond_the_core():
    """Modules that no core dependency brings."""
    core = closure(PROJECT["dependencies"]) | {"nightfit"}
    by_module = metadata.packages_distributions()
    return sorted(name for name, brought in by_module.items() if core.isdisjoint(map(canonicalize_name, brought)))


@pytest.mark.process
def test_estimators_plans_and_direct_refits_need_the_core_dependencies_alone(tmp_path, table, write):
    write("shards", table, [300, 400])
    content = {
        "name": "m",
        "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    ledger = Ledger.create(f"sqlite:///{tmp_path}/ledger.db")
    blocked = beyond_the_core()
    assert {"prefect", "fastapi", "matplotlib", "pytest", "uvicorn"} <= set(blocked)
    words = [sys.executable, "-W", "error::ResourceWarning", "-c", PROGRAM, json.dumps(blocked)]
    done = subprocess.run(words, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plan, told = done.stdout.split("MissingExtra", 1)
    refit, *direct, serve, demo = f"MissingExtra{told}".splitlines()
    assert json.loads(plan)["epsilon"] <= 1.0
    cure = "not installed: pip install 'nightfit[nightly]'"
    prefect = f"prefect, which is {cure}"
    assert refit == f"MissingExtra a refit (without Prefect: --direct) needs {prefect}"
    assert "m-" in "".join(direct)
    assert serve == f"MissingExtra nightfit serve needs {prefect}"
    assert demo == f"MissingExtra nightfit demo needs {prefect}"
    assert [run["state"] for run in ledger.runs()] == ["finished"]
    assert "<svg" in next(tmp_path.glob("**/report.html")).read_text()
    assert not (tmp_path / "nightfit-demo").exists()


@pytest.mark.unit
def test_the_tests_and_the_image_have_the_whole():
    assert "nightfit[nightly]" in PROJECT["optional-dependencies"]["test"]
    assert re.search(r'"\.\[nightly,', (ROOT / "deploy" / "Dockerfile").read_text())
    needs("a refit", *(requirement.name for requirement in of_extra("nightly")))
    with pytest.raises(MissingExtra, match=r"needs no_such_package, which is not installed: pip install 'nightfit\[nightly\]'"):
        needs("a plot", "matplotlib", "no_such_package")


@pytest.mark.unit
def test_every_dependency_has_a_lower_bound_or_a_limit():
    """`.ci/matrix` installs the lowest versions together."""
    extras = {name: PROJECT["optional-dependencies"][name] for name in PROJECT["optional-dependencies"] if name not in ("bench", "docs")}
    for text in [*PROJECT["dependencies"], *(text for extra in extras.values() for text in extra)]:
        requirement = Requirement(text)
        ours = requirement.name in ("nightfit", "types-PyYAML")
        assert ours or {"<", ">="} & {bound.operator for bound in requirement.specifier}, text
