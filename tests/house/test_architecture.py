"""Packages import downwards, each dangerous library has one importer, code is formatted and typed."""

import ast
import copy
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest
from importlinter import api
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

import nightfit

ROOT = Path(__file__).parents[2]
KINDS = {"layers": LayersContract, "forbidden": ForbiddenContract}
CONFIGURATION = api.read_configuration(str(ROOT / "pyproject.toml"))
CONTRACTS = {
    options["name"]: KINDS[options["type"]](
        name=options["name"], session_options=CONFIGURATION["session_options"], contract_options=options
    )
    for options in CONFIGURATION["contracts_options"]
}


def run(*command):
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def graph():
    """Every import of this checkout, found once."""
    assert Path(nightfit.__file__).is_relative_to(ROOT), "another checkout is installed or comes first on the path"
    return grimp.build_graph(*CONFIGURATION["session_options"]["root_packages"], include_external_packages=True, cache_dir=None)


def broken(graph):
    """Names of the contracts that the imports break; a check may change the graph that it is given."""
    return {name for name, contract in CONTRACTS.items() if not contract.check(copy.deepcopy(graph), verbose=False).kept}


def test_packages_import_only_what_the_contracts_allow(graph):
    assert broken(graph) == set(), "`lint-imports` names the imports"


LAYERS = "A package imports only from packages below it"
# (importer, imported) and the contracts that this import alone breaks
PLANTED = {
    ("nightfit.problem.losses.squared", "nightfit.privacy.gate"): {LAYERS},
    ("nightfit.queries.histograms", "nightfit.privacy.accounting"): {LAYERS, "A query sees neither budget, cluster nor method"},
    ("nightfit.methods.auto.descent", "nightfit.methods.loop.loop"): {"The three engines are siblings"},
    ("nightfit.privacy.events.gaussian", "nightfit.privacy.gate"): {
        "Inside privacy: accounting below events below calibration, noise and audit, the gate on top"
    },
    ("nightfit.methods.loop.solvers.proximal_gradient", "nightfit.shards.read"): {"A solver sees no rows and no ledger"},
    ("nightfit.privacy.gate", "opendp"): {"Only privacy.noise imports opendp"},
    ("nightfit.planning.plan", "dp_accounting"): {"Only privacy.accounting imports dp_accounting"},
    ("nightfit.verifier.epsilon", "nightfit.types"): {LAYERS, "The verifier imports nothing of nightfit"},
    ("nightfit.nightly.fit", "sqlalchemy"): {"Only ledger imports sqlalchemy and alembic"},
    ("nightfit.nightly.job", "prefect"): {"Only flows imports prefect"},
    ("nightfit.methods.loop.gradient_estimators.clipped", "dask"): {"Only shards imports dask, distributed, dask_ml and pyarrow"},
    ("nightfit.release.report", "pyarrow"): {"Only shards imports dask, distributed, dask_ml and pyarrow"},
    ("nightfit.release.document", "dask_ml"): {"Only shards imports dask, distributed, dask_ml and pyarrow"},
}


@pytest.mark.parametrize(("importer", "imported"), PLANTED, ids=[f"{importer} -> {imported}" for importer, imported in PLANTED])
def test_a_planted_import_breaks_its_contracts_and_no_other(graph, importer, imported):
    assert importer in graph.modules
    planted = copy.deepcopy(graph)
    planted.add_import(importer=importer, imported=imported, line_number=1, line_contents=f"import {imported}")
    assert broken(planted) == PLANTED[importer, imported]


def test_each_contract_is_broken_by_a_planted_import():
    assert set().union(*PLANTED.values()) == set(CONTRACTS)


def test_an_import_that_is_written_into_a_file_is_seen(tmp_path, monkeypatch):
    """From the text to the graph: a package of one module that imports another, inside a function."""
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "__init__.py").touch()
    (tmp_path / "planted" / "low.py").write_text("def lazy():\n    from planted import high\n")
    (tmp_path / "planted" / "high.py").write_text("import opendp\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = grimp.build_graph("planted", include_external_packages=True, cache_dir=None)
    assert found.find_modules_directly_imported_by("planted.low") == {"planted.high"}
    assert found.find_modules_directly_imported_by("planted.high") == {"opendp"}


@pytest.mark.process
def test_the_code_is_clean():
    said = run("ruff", "check", ".")
    assert said.returncode == 0, said.stdout
    said = run("ruff", "format", "--check", ".")
    assert said.returncode == 0, said.stdout


@pytest.mark.process
def test_the_types_hold():
    said = run("mypy")
    assert said.returncode == 0, said.stdout


def test_every_dependency_is_pinned_in_the_tested_set():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]
    names = [*declared["dependencies"], *extras["nightly"], *(name for name in extras["test"] if name != "nightfit[nightly]")]
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    bare = {name.split(";")[0].split("[")[0].split(">")[0].split("<")[0].split("=")[0].strip().lower() for name in names}
    assert bare <= pinned, bare - pinned


@pytest.mark.process
def test_help_and_plan_import_nothing_slow():
    code = "import sys; import nightfit.cli, nightfit.config; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = set(said.stdout.split())
    assert "nightfit.cli" in imported
    assert imported.isdisjoint({"prefect", "opendp", "dask_ml", "dp_accounting", "matplotlib"})


def sources():
    return [*ROOT.glob("pipeline/nightfit/**/*.py"), *ROOT.glob("flows/nightfit_flows/**/*.py")]


def lines_of_body(function):
    """Without the signature and the docstring."""
    after = function.body[0].end_lineno if ast.get_docstring(function) is not None else function.body[0].lineno - 1
    return function.end_lineno - after


def test_modules_and_functions_stay_small():
    """About 300 lines a module, 40 a function's body; migrations list tables."""
    long = {}
    for path in sources():
        text = path.read_text()
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        lengths = {path.name: (len(text.splitlines()), 320), **{f"{path.name}: {one.name}": (lines_of_body(one), 40) for one in functions}}
        long |= {name: lines for name, (lines, most) in lengths.items() if lines > most and "versions" not in path.parts}
    assert long == {}


def test_few_modules_stand_beside_the_packages():
    beside = [path.stem for path in (ROOT / "pipeline/nightfit").glob("*.py") if path.stem not in ("__init__", "_version")]
    assert len(beside) <= 6
