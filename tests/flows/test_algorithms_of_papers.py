"""docs/explanation/papers.md: every algorithm of the five papers is a configuration, and the tests that it names exist."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from nightfit.config import Config, parse
from nightfit.planning.plan import make
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise, SeededNoise
from nightfit.shards.arrays import ArrayRecords
from nightfit.shards.manifest import scan
from nightfit.shards.synthetic import Synthetic
from nightfit_flows.reproduce.fits import Unpaid, drawn

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "papers.md").read_text()
ROWS = Synthetic(rows=4_000, columns=3, shards=1, task="linear", noise="student", noise_tail=3.0, noise_scale=0.3, seed=0)
PAPERS = {"Wang et al. 2020": 6, "Han et al. 2018": 3, "Tao et al. 2022": 5, "Kamath et al. 2021": 5, "Xie et al. 2023": 3}


def listed():
    """Paper, algorithm, configuration and test of each row of the table."""
    table = PAGE.split("## Every algorithm by a configuration")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")][1:]
    return [(paper, algorithm, yaml.safe_load(said.strip("`")), test.strip("`")) for paper, algorithm, said, _, test in rows]


def merged(content, changes):
    """The content of a configuration with these changes, section by section."""
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(content.get(name), dict) and name != "method"
        content[name] = merged(dict(content[name]), value) if both else value
    return content


def configured(said) -> Config:
    local = said.get("privacy", {}).get("trust") == "local"
    content = {
        "name": "paper",
        "data": {"name": "rows", "path": "shards", "target": "y", "default": {"kind": "number"}},
        "privacy": {"epsilon": 4.0, "delta": 1e-6, "lifetime": {"epsilon": 30.0, "delta": 1e-2, "currency": "pure" if local else "zcdp"}},
        "model": {"loss": "logistic", "penalty": {"l2": 0.001}} if local else {},
    }
    if local:
        content["data"]["default"] = {"kind": "number", "bounds": [-1, 1]}
    if said.get("model", {}).get("kind") == "mean":
        del content["data"]["target"]
    return parse(merged(content, said), Path("/"))


@pytest.mark.parametrize(("paper", "algorithm", "said", "test"), listed(), ids=[f"{paper}, {name}" for paper, name, *_ in listed()])
def test_every_algorithm_of_the_papers_is_a_configuration(paper, algorithm, said, test, tmp_path):
    """It is planned and fitted as it stands, and the method that it names is the one that runs."""
    ROWS.write(tmp_path)
    config = configured(said)
    spec = config.specification(scan(str(tmp_path)), config.privacy.lifetime.currency)
    plan = make(spec, ROWS.rows)
    method = said["method"] if isinstance(said["method"], dict) else {"mean": said["method"]}
    assert method.get("mean", method.get("solver")) in str(plan.procedure.describe())
    if spec.local is None:
        X, y, _ = drawn(ROWS, 0)
        X = X[:, : len(spec.preprocessing.features)]  # a mean may be of some columns
        noise = SeededNoise(np.random.default_rng(0)) if plan.procedure.private else NoNoise()
        gate = Gate(
            account=Unpaid({event.label: event for event in plan.events}), records=ArrayRecords(X, y, spec.preprocessing), noise=noise
        )
        assert np.isfinite(plan.procedure.run(gate, lambda _: None).weights).all()
    assert any(f"def {test}(" in path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_the_table_has_every_paper():
    found = [paper for paper, *_ in listed()]
    assert {paper: found.count(paper) for paper in PAPERS} == PAPERS
    assert all(re.fullmatch(r"test_\w+", test) for *_, test in listed())
