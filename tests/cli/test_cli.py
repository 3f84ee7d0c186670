"""The command line as its user meets it: exit codes, messages, files."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from nightfit.cli import app, results
from nightfit.ledger import Ledger
from nightfit.methods.procedure import Progress
from nightfit.release import Release


@dataclass(frozen=True)
class Place:
    """A folder with shards and a configuration, where `nightfit` can be called."""

    folder: Path
    forked: Callable[..., "subprocess.CompletedProcess[str]"]

    def __truediv__(self, name):
        return self.folder / name

    def nightfit(self, *words):
        """The command in a process that was forked after its imports."""
        return self.forked(self.folder, *words, COLUMNS="200", XDG_STATE_HOME=str(self.folder / "state"))


@pytest.fixture(scope="module")
def place(tmp_path_factory, forked):
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    (folder / "shards").mkdir()
    for part in range(3):
        X = rng.uniform(-1, 1, (2000, 3))
        columns = {f"x{j}": X[:, j] for j in range(3)}
        table = pa.table({**columns, "y": X @ [1.0, -1.0, 0.5] + rng.standard_t(3, 2000)})
        pq.write_table(table, folder / "shards" / f"part-{part}.parquet")
    write(folder)
    return Place(folder, forked)


def write(place, name="refit.yaml", **changes):
    content = {
        "name": "m",
        "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 2.0, "delta": 1e-5}},
        "method": {"steps": 5},
        "cluster": {"kind": "synchronous"},
        "output": "releases",
        **changes,
    }
    (place / name).write_text(yaml.safe_dump(content))
    return place / name


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["demo"],
        ["init"],
        ["plan"],
        ["refit"],
        ["search"],
        ["ledger"],
        ["ledger", "policy", "set"],
        ["predict"],
        ["serve"],
        ["generate", "shards"],
        ["generate", "hospital"],
    ],
    ids=" ".join,
)
@pytest.mark.unit
def test_every_command_explains_itself(words):
    said = CliRunner().invoke(app, [*words, "--help"])
    assert said.exit_code == 0, said.output
    assert "Usage" in said.output
    assert len(said.output) > 300


def test_a_plan_needs_no_row_and_no_ledger(place):
    config = write(place, "plan.yaml", ledger="sqlite:///nowhere.db")
    garbled = place / "garbled"
    garbled.mkdir()
    for part in (place / "shards").iterdir():
        content = bytearray(part.read_bytes())
        content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
        (garbled / part.name).write_bytes(content)
    plain, blind = place.nightfit("plan", config.name, "--json"), None
    write(place, "blind.yaml", data={"name": "d", "path": "garbled", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}})
    blind = place.nightfit("plan", "blind.yaml", "--json")
    assert plain.returncode == 0, plain.stderr
    assert json.loads(plain.stdout) == json.loads(blind.stdout)
    assert not (place / "nowhere.db").exists()
    assert "epsilon 1 at delta 1e-06" in place.nightfit("plan", config.name).stdout


def test_init_writes_once(place):
    assert place.nightfit("init", "new.yaml", "--schema").returncode == 0
    assert (place / "new.schema.json").exists()
    said = place.nightfit("init", "new.yaml")
    assert said.returncode == 1
    assert "exists already" in said.stderr


def test_init_for_own_data_can_be_planned_at_once(place):
    assert place.nightfit("init", "own.yaml", "--data", "shards", "--target", "y").returncode == 0
    said = place.nightfit("plan", "own.yaml")
    assert said.returncode == 0, said.stderr
    assert "the scale of each column" in said.stdout  # nothing is known of their bounds
    for wrong, cure in [(["--data", "shards"], "--target"), (["--data", "shards", "--target", "nobody"], "is missing in")]:
        said = place.nightfit("init", "other.yaml", *wrong)
        assert said.returncode != 0
        assert cure in said.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "missing.yaml"], "nightfit init missing.yaml"),
        (["predict", "missing.json", "shards", "-o", "x.parquet"], "no release"),
        (["ledger", "show"], "--ledger URL or by --config"),
        (["ledger", "show", "--ledger", "sqlite:///none.db"], "nightfit ledger init"),
        (["ledger", "abandon", "nobody", "--config", "refit.yaml"], "nightfit ledger init"),
        (["generate", "shards", "out", "--rows", "0"], "rows"),
    ],
)
def test_an_error_is_one_message_without_a_traceback(place, words, message):
    said = place.nightfit(*words)
    assert said.returncode == 1
    assert message in " ".join(said.stderr.split())
    assert "Traceback" not in said.stderr
    assert not (place / "none.db").exists()


class TestOneRefit:
    """In order: refused without a ledger, paid once, returned, refused when changed, composed, refused when exhausted."""

    def test_a_refit_without_a_ledger_is_refused(self, place):
        said = place.nightfit("refit", "refit.yaml")
        assert said.returncode == 1
        assert "nightfit ledger init" in said.stderr
        assert not (place / "ledger.db").exists()

    def test_a_refit_leaves_a_release_and_a_report(self, place):
        assert place.nightfit("ledger", "init", "--config", "refit.yaml").returncode == 0
        planned = json.loads(place.nightfit("plan", "refit.yaml", "--json").stdout)
        said = place.nightfit("refit", "refit.yaml", "--json")
        assert said.returncode == 0, said.stderr
        result = json.loads(said.stdout)
        release = Release.load(place / "releases" / result["run"] / "release.json")
        assert (place / "releases" / result["run"] / "report.html").exists()
        assert release.private
        assert release.content["events"] == planned["events"]
        assert release.content["guarantee"]["epsilon"] == planned["epsilon"] <= 1.0
        assert release.content["plan_digest"] == planned["digest"]
        assert set(release.content["coef"]) == {"x0", "x1", "x2"}

    def test_the_same_refit_again_is_returned_and_not_paid_twice(self, place):
        ledger = Ledger.open(f"sqlite:///{place / 'ledger.db'}")
        spent, (run,) = ledger.spent("d"), ledger.runs()
        said = place.nightfit("refit", "refit.yaml", "--json")
        assert said.returncode == 0, said.stderr
        assert json.loads(said.stdout)["run"] == run["run"]
        assert ledger.spent("d") == spent

    def test_a_finished_refit_whose_plan_changed_is_refused_naming_again(self, place):
        write(place, "changed.yaml", method={"steps": 6})
        said = place.nightfit("refit", "changed.yaml")
        assert said.returncode == 1
        assert "--again" in said.stderr

    def test_again_composes_and_an_exhausted_budget_is_refused_before_reading(self, place):
        ledger = Ledger.open(f"sqlite:///{place / 'ledger.db'}")
        before = ledger.spent("d")
        said = place.nightfit("refit", "refit.yaml", "--again")
        assert said.returncode == 0, said.stderr
        assert ledger.spent("d").amount == 2 * before.amount
        write(place, "large.yaml", privacy={"epsilon": 2.0, "delta": 1e-6, "lifetime": {"epsilon": 2.0, "delta": 1e-5}})
        for part in (place / "shards").iterdir():
            os.utime(part)
        said = place.nightfit("refit", "large.yaml", "--again")
        assert said.returncode == 1
        assert "does not fit the lifetime budget" in said.stderr
        assert "would pay" in said.stderr
        assert ledger.spent("d").amount == 2 * before.amount

    def test_a_lifetime_that_disagrees_with_the_policy_is_refused(self, place):
        write(place, "looser.yaml", privacy={"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 9.0, "delta": 1e-5}})
        said = place.nightfit("refit", "looser.yaml")
        assert said.returncode == 1
        assert "differs from the policy" in said.stderr

    def test_unsafe_noise_needs_the_switch(self, place):
        write(
            place,
            "unsafe.yaml",
            unsafe={"noise": "seeded", "seed": 3},
            data={"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}, "window": "unsafe"},
            privacy={"epsilon": 0.1, "delta": 1e-6},
        )
        said = place.nightfit("refit", "unsafe.yaml")
        assert said.returncode == 1
        assert "--unsafe" in said.stderr

    def test_the_ledger_shows_verifies_and_knows_foreign_releases(self, place):
        shown = json.loads(place.nightfit("ledger", "show", "--config", "refit.yaml", "--json").stdout)
        assert [run["state"] for run in shown["runs"]] == ["finished", "finished"]
        assert 0 < shown["data_sets"][0]["epsilon_spent"] < 2.0
        said = place.nightfit("ledger", "verify", "--config", "refit.yaml", "--releases", "releases")
        assert said.returncode == 0, said.stderr
        assert "every release (2)" in said.stdout
        write(place, "foreign.yaml", ledger="sqlite:///other.db")
        assert place.nightfit("ledger", "init", "--config", "foreign.yaml").returncode == 0
        said = place.nightfit("ledger", "verify", "--config", "foreign.yaml", "--releases", "releases")
        assert said.returncode == 1
        assert "paid in another ledger" in said.stderr
        said = place.nightfit("refit", "foreign.yaml")
        assert said.returncode == 1
        assert "was paid in another ledger" in said.stderr

    def test_new_records_are_scored_with_the_release(self, place):
        (release, *_) = sorted((place / "releases").glob("*/release.json"))
        said = place.nightfit("predict", str(release), "shards", "-o", "scored.parquet")
        assert said.returncode == 0, said.stderr
        scored = pq.read_table(place / "scored.parquet")
        assert scored.num_rows == 6000
        assert "prediction" in scored.column_names


DIRECT = """
import sys
from nightfit import nightly
from nightfit.cli import main
planned = []
prepare = nightly.prepare
nightly.prepare = lambda *words, **more: planned.append(1) or prepare(*words, **more)
sys.argv = ["nightfit", "refit", "refit.yaml", "--direct", "--json"]
main.__globals__["app"](standalone_mode=False)
print(planned == [1], "prefect" in sys.modules, "distributed" in sys.modules, file=sys.stderr)
"""


@pytest.mark.process
def test_direct_runs_the_same_steps_without_prefect_and_plans_once(place, tmp_path):
    (tmp_path / "shards").symlink_to(place / "shards")
    write(tmp_path, cluster="auto")
    Ledger.create(f"sqlite:///{tmp_path}/ledger.db").engine.dispose()
    done = subprocess.run([sys.executable, "-c", DIRECT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == ["True", "False", "False"]
    said = json.loads(done.stdout)
    assert said["private"]
    assert Path(said["report"]).exists()


def test_the_bar_shows_steps_rows_per_second_and_the_time_left(monkeypatch):
    told = io.StringIO()
    monkeypatch.setattr(results, "err", Console(file=told, force_terminal=True, color_system=None, width=160))
    with results.progress(False, 1000, "starting") as show:
        for step in (1, 2, 3):
            show(Progress(step=step, steps=4, moved=0.5, noise=0.125))
    _, found, last = told.getvalue().rpartition("step norm 0.5, noise 0.125")
    assert found
    assert "3/4 steps" in last
    assert "rows/s" in last
    assert "0:00:0" in last


def shown(monkeypatch, **result):
    told = io.StringIO()
    monkeypatch.setattr(results, "out", Console(file=told, width=200))
    balance = {"data_set": "d", "epsilon_spent": 0.5, "epsilon_lifetime": 1.0, "delta": 1e-6, "scope": "", "runs_left": None}
    results.show_result(
        {"run": "r", "guarantee": None, "balance": balance, "release": "a", "report": "b", "used": [], "night": {"line": "a night"}}
        | result
    )
    return told.getvalue()


def test_a_coefficient_outside_of_its_interval_is_shown_beside_its_estimate_with_the_reason(monkeypatch):
    terms = {"x": {"estimate": 0.7321, "95%": [0.5, 0.9]}, "(intercept)": {"estimate": 2.0, "95%": [1.0, 3.0]}}
    found = {"of": "the truth", "assumed": ["it holds"], "terms": terms}
    inside, outside = (shown(monkeypatch, coef={"x": value}, intercept=2.0, intervals=found) for value in (0.6, 0.1))
    assert "0.7321" in outside
    assert "A value outside of its interval was moved there by shrinkage" in outside
    assert "outside of its interval" not in inside


def test_a_coefficient_is_shown_with_the_clamp_that_was_paid_for(monkeypatch):
    text = shown(monkeypatch, coef={"x": 0.1, "z": 2.0}, intercept=2.0, clamps={"x": [-1.5, 20.25]})
    assert "clamped to" in text
    assert "-1.5 to 20.25" in text
    assert "a value beyond counts as the clamp's end" in text
    assert "clamped" not in shown(monkeypatch, coef={"x": 0.1}, intercept=2.0, clamps={})


def test_a_table_of_many_coefficients_shows_none_that_is_zero(monkeypatch):
    few = {f"x{j}": float(j) if j < 3 else 0.0 for j in range(100)}
    many = {f"x{j}": 1.0 + j for j in range(100)}
    first, second = (shown(monkeypatch, coef=coef) for coef in (few, many))
    assert "The 2 largest of 100 coefficients; the others are zero." in first
    assert "x3 " not in first
    assert "The 20 largest of 100 coefficients; all are in the release." in second
