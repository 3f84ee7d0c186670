"""A user extends nightfit without writing into it: the loss of extending.md as an installed distribution, checked, planned, fitted."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.linear_model import PoissonRegressor

import nightfit.problem.losses
from nightfit import plugins
from nightfit.cli.models import predict
from nightfit.config import ConfigError, load
from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.nightly import prepare
from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.plugins import PluginError, member, members
from nightfit.problem import losses, penalties
from nightfit.records.preprocessing import Preprocessing

ROOT = Path(__file__).parents[2]
PAGE = next((ROOT / "docs").rglob("extending.md"))
(POISSON,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "class CappedPoisson" in block)
ROWS = 20_000
COEFFICIENTS, INTERCEPT = np.array([0.8, -0.5]), 0.7


def distribution(folder: Path, source: str = POISSON, value: str = "my_losses.capped_poisson", group: str = "nightfit.losses") -> Path:
    """An installed distribution as pip would leave it: a package and its metadata, in a folder of the path."""
    (folder / "my_losses").mkdir(parents=True)
    (folder / "my_losses" / "__init__.py").touch()
    (folder / "my_losses" / "capped_poisson.py").write_text(source)
    metadata = folder / "my_losses-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-losses\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\ncapped_poisson = {value}\n")
    return folder


def python(folder: Path, *arguments: str, where: Path) -> subprocess.CompletedProcess[str]:
    """A process that has the distribution on its path, and nothing of this process's own imports."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=where,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make a distribution and put it on the path of this process."""

    def install(*arguments: str) -> None:
        monkeypatch.syspath_prepend(distribution(tmp_path / "site", *arguments))
        plugins._announced.cache_clear()

    yield install
    monkeypatch.undo()
    plugins._announced.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_losses"]:
        del sys.modules[name]


def written(folder: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """ShardedDataset of counts, with records outside of the domain among them, which must count for nothing."""
    X = rng.uniform(-1, 1, (ROWS, 2)) * [1.0, 2.0] + [0.0, 3.0]
    y = rng.poisson(np.exp((X - [0.0, 3.0]) @ COEFFICIENTS + INTERCEPT)).astype(float)
    wrong = {0: -1.0, 1: 0.5, 2: np.nan, 3: -3.0}
    stored = y.copy()
    stored[list(wrong)] = list(wrong.values())
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ROWS), 3)):
        pq.write_table(pa.table({"a": X[rows, 0], "b": X[rows, 1], "visits": stored[rows]}), folder / f"{number}.parquet")
    return X, y


def configured(folder: Path, **changes: object) -> Path:
    content = {
        "name": "visits",
        "data": {
            "path": "shards",
            "target": {"column": "visits", "bounds": [0, 20]},
            "columns": {"a": {"kind": "number", "bounds": [-1, 1]}, "b": {"kind": "number", "bounds": [1, 5]}},
        },
        "privacy": {"epsilon": 20.0, "delta": 1e-6, "lifetime": {"epsilon": 25.0, "delta": 1e-5}},
        "model": {"loss": "capped_poisson"},
        "cluster": {"kind": "synchronous"},
        "evaluate": "none",
        "unsafe": {"noise": "none"},
        **changes,
    }
    path = folder / "refit.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


WRONG = {  # what is edited of the loss in extending.md
    "WrongSlope": ("min(math.exp(z), largest) - min(y, largest)", "min(math.exp(z), largest) - 0.9 * min(y, largest)"),
    "WrongSmoothness": (
        "    def smoothness(self) -> float:\n        return self.largest",
        "    def smoothness(self) -> float:\n        return 1.0",
    ),
    "WrongEstimand": ("estimand: ClassVar[Estimand | None] = None", "estimand: ClassVar[Estimand | None] = Estimand.MEAN"),
    "WrongScalable": ("scalable: ClassVar[bool] = False", "scalable: ClassVar[bool] = True"),
}


def test_the_contract_passes_a_plug_in_and_finds_those_that_declare_what_is_not_so(tmp_path):
    site = distribution(tmp_path / "site")
    with (site / "my_losses-1.0.dist-info" / "entry_points.txt").open("a") as announced:
        for name, (right, wrong) in WRONG.items():
            assert POISSON.count(right) == 1
            source = POISSON.replace(right, wrong).replace("CappedPoisson", name).replace("capped_poisson", name.lower())
            (site / "my_losses" / f"{name.lower()}.py").write_text(source)
            announced.write(f"{name.lower()} = my_losses.{name.lower()}\n")
    words = ["-q", "-rA", "-p", "no:cacheprovider", "--pyargs", "nightfit.contracts", "-k", " or ".join(["CappedPoisson", *WRONG])]
    said = python(site, "-m", "pytest", *words, where=tmp_path)
    found = re.findall(r"^(PASSED|FAILED|ERROR) .*\[(?:\w+-)?(\w+)\(", said.stdout, re.MULTILINE)
    assert said.returncode == 1, said.stdout
    assert {name for outcome, name in found if outcome != "PASSED"} == set(WRONG), said.stdout
    assert found.count(("PASSED", "CappedPoisson")) >= 30, said.stdout


REFIT = """
import json, sys
from pathlib import Path
from nightfit.config import load
from nightfit.ledger import Ledger
from nightfit import nightly as job
automatic, config = load(Path("auto.yaml")), load(Path("refit.yaml"))
Ledger.create(config.ledger_url)
prepared, ledger = job.prepare(config), job.open_ledger(config)
run = job.reserve(prepared, ledger, unsafe=True)
published = job.publish(prepared, ledger, job.run_fit(prepared, ledger, run))
print(json.dumps({"plan": job.prepare(automatic).plan.explain(), "release": str(published.release_path)}))
"""


def test_counts_are_fitted_through_a_configuration_and_predicted_in_their_units(tmp_path):
    """The refit has the plug-in; this process, which predicts, has not: a release says all that predictions need."""
    X, y = written(tmp_path / "shards", np.random.default_rng(3))
    configured(tmp_path).rename(tmp_path / "auto.yaml")
    configured(tmp_path, method={"steps": 400, "averaged": 1})
    said = python(distribution(tmp_path / "site"), "-c", REFIT, where=tmp_path)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout.splitlines()[-1])
    assert "Engine: loop, because `auto` cannot be used here: it has no fit of the capped poisson loss, which declares" in told["plan"]
    content = json.loads(Path(told["release"]).read_text())
    assert content["link"] == "log"
    assert content["plan"]["loss"] == {"kind": "capped_poisson", "largest": 20.0}
    target = {"name": "visits", "centre": 0.0, "scale": 1.0, "clamp": [0.0, 20.0], "domain": "counts"}
    assert content["preprocessing"]["target"] == target
    assert "capped_poisson" not in members(nightfit.problem.losses)
    predict(Path(told["release"]), str(tmp_path / "shards"), tmp_path / "scored.parquet")
    predicted = pq.read_table(tmp_path / "scored.parquet")["prediction"].to_numpy()
    peer = PoissonRegressor(alpha=0.0, tol=1e-8, max_iter=1000).fit(X[4:], y[4:])
    assert predicted.min() > 0
    np.testing.assert_allclose(predicted, peer.predict(X), rtol=0.01)
    np.testing.assert_allclose([content["coef"]["a"], content["coef"]["b"]], peer.coef_, atol=0.01)


def test_a_plug_in_is_found_beside_our_own_members(installed):
    ours = set(members(nightfit.problem.losses))
    installed()
    assert set(members(nightfit.problem.losses)) == ours | {"capped_poisson"}
    assert member(nightfit.problem.losses, "capped_poisson").__module__ == "my_losses.capped_poisson"


@pytest.mark.parametrize(
    ("source", "value", "message"),
    [
        (
            POISSON.replace('"capped_poisson"', '"huber"'),
            "my_losses.capped_poisson",
            "poisson of my-losses calls itself 'huber', and losses has a member",
        ),
        (POISSON.replace("EXAMPLES:", "SAMPLES:"), "my_losses.capped_poisson", "my_losses.capped_poisson of my-losses has no EXAMPLES"),
        (POISSON, "my_losses.fish", "my_losses.fish of my-losses cannot be imported: No module named 'my_losses.fish'"),
        ("raise RuntimeError('too old')", "my_losses.capped_poisson", "my_losses.capped_poisson of my-losses cannot be imported: too old"),
    ],
    ids=["taken", "empty", "missing", "broken"],
)
def test_a_plug_in_that_cannot_be_used_is_refused_by_name(installed, source, value, message):
    installed(source, value)
    with pytest.raises(PluginError, match=re.escape(message)):
        members(nightfit.problem.losses)


def test_bounds_of_counts_are_counts(tmp_path, installed):
    installed()
    written(tmp_path / "shards", np.random.default_rng(0))
    config = load(configured(tmp_path, data={"path": "shards", "target": {"column": "visits", "bounds": [0.5, 20]}}))
    with pytest.raises(ConfigError, match=r"the loss capped_poisson is for counts: the bounds in data\.target"):
        prepare(config)


def test_columns_without_bounds_are_fitted_where_auto_does_not_run(tmp_path, installed):
    installed()
    written(tmp_path / "shards", np.random.default_rng(0))
    config = load(configured(tmp_path, data={"path": "shards", "target": "visits"}))
    assert "because `auto` cannot be used here: it has no fit of the capped poisson loss" in prepare(config).plan.explain()


@pytest.mark.parametrize(
    "package", [losses, penalties, gradient_estimators, solvers], ids=lambda package: package.__name__.rpartition(".")[2]
)
def test_a_renamed_file_changes_no_plan(tmp_path, monkeypatch, package):
    shape = Preprocessing(features=("a",), target="y", centre=(0.0,), scale=(1.0,), intercept=True)

    def digest() -> tuple[str, str]:
        loss, mean, solver = member(losses, "huber")(delta=2.0), "soft", "proximal_gradient"
        said = Specification(
            name="m",
            data_set="d",
            preprocessing=shape,
            budget=Budget(epsilon=1.0, delta=1e-6),
            loss=loss,
            penalty=penalty_of({"l2": 0.1}),
            method=Method(mean=mean, solver=solver),
        )
        plan = make(said, 1000)
        kinds = (plan.specification.loss, plan.specification.penalty, plan.procedure.estimator, plan.procedure.solver)
        return plan.digest(), {type(kind).__module__ for kind in kinds}

    before, modules = digest()
    for path in Path(package.__path__[0]).glob("[!_]*.py"):
        shutil.copy(path, tmp_path / f"renamed_{path.name}")
    monkeypatch.setattr(package, "__path__", [str(tmp_path)])
    importlib.invalidate_caches()
    after, renamed = digest()
    assert after == before
    assert {name.replace("renamed_", "") for name in renamed} == modules
    assert any("renamed_" in name for name in renamed)
