"""The paper's experiment: its data, its table, and that it is no way around a budget."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.types import NightfitError
from nightfit_flows.reproduce import prestige as reproduce


@pytest.mark.parametrize("made", [reproduce.adult_like, reproduce.digits_like])
def test_the_generators_make_rows_of_norm_one_that_a_line_can_tell_apart(made):
    data, again = made(train=4_000, test=2_000), made(train=4_000, test=2_000)
    assert (data.train.X == again.train.X).all()
    assert np.linalg.norm(data.train.X, axis=1) == pytest.approx(1.0)
    assert (len(data.train), len(data.test)) == (4_000, 2_000)
    assert len(np.unique(np.concatenate([data.train.slots, data.test.slots]))) == 6_000
    rarer = min((data.test.y > 0).mean(), (data.test.y < 0).mean())
    error = data.error(reproduce.plain_fit(data, reproduce.LOSSES["hinge"], 5, np.random.default_rng(0)))
    assert 0.02 < error < 0.8 * rarer


def test_the_table_has_every_number_once_and_privacy_costs_accuracy():
    data = reproduce.digits_like(train=3_000, test=1_000)
    cells = list(reproduce.prestige([data], repeats=2, losses=("hinge", "ramp"), batches=(10, 50), epsilons=(0.5, 8.0)))
    assert len(cells) == 2 * 2 * (1 + 2 * 2)
    assert len({(cell.loss, cell.method, cell.batch, cell.epsilon) for cell in cells}) == len(cells)
    found = {(cell.loss, cell.method, cell.batch, cell.epsilon): cell.error for cell in cells}
    assert found["hinge", "sgd", 10, math.inf] < found["hinge", "djw", 10, 8.0] < found["hinge", "djw", 10, 0.5]
    again = list(reproduce.prestige([data], repeats=2, losses=("hinge",), batches=(50,), epsilons=(8.0,)))
    assert [cell for cell in cells if cell in again] == again


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=300) for j in range(3)}
    split = (np.arange(300) >= 200).astype(int)
    label = np.where(columns["x0"] > 0, 8, 3)
    pq.write_table(pa.table({**columns, "y_digit": label, "_split": split, "_name": ["a"] * 300}), tmp_path / "own.parquet")
    return tmp_path / "own.parquet"


def test_any_parquet_can_be_used(file):
    data = reproduce.parquet(file)
    assert data.train.X.shape == (200, 4)
    assert data.test.X.shape == (100, 4)
    assert data.error(np.array([1.0, 0, 0, 0])) == 0
    for target, message in (("nothing", "no column"), ("x1", "two values")):
        with pytest.raises(NightfitError, match=message):
            reproduce.parquet(file, target)
    with pytest.raises(NightfitError, match="cannot be read"):
        reproduce.parquet(file.parent / "none.parquet")


def nightfit(*words):
    code = "from nightfit.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], cwd=Path(__file__).parents[2], capture_output=True, text=True)


@pytest.mark.process
def test_the_command_shows_data_only_if_they_are_public(tmp_path):
    refused = nightfit("reproduce", "wang2020", "--data", str(tmp_path))
    assert refused.returncode == 1
    assert "--public" in refused.stderr
    missing = nightfit("reproduce", "wang2020", "--public", "--data", str(tmp_path / "none"))
    assert missing.returncode == 1
    assert "is no folder" in missing.stderr


@pytest.mark.sweep
@pytest.mark.parametrize("paper", ["wang2020", "han2018", "tao2022", "kamath2021", "xie2023"])
def test_every_paper_has_its_page(paper, tmp_path):
    said = nightfit("reproduce", paper, "--fast", "--json", "--output", str(tmp_path))
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == json.loads((tmp_path / f"{paper}.json").read_text())
    assert "<svg" in (tmp_path / f"{paper}.html").read_text()
