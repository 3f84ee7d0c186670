"""What each epsilon would buy: from public facts, in the terminal, as JSON and as a page."""

import json
from dataclasses import replace

import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.planning.trade_off import EPSILONS, swept
from nightfit.privacy.accounting import Currency, limit
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.trade_off import page
from nightfit.types import NightfitError

SHAPE = Preprocessing(features=("<a>", "b"), target="y", centre=(0.0, 0.0), scale=(1.0, 1.0), reach=(1.0, 1.0), intercept=True)


def said():
    known = {
        "name": "m",
        "data_set": "d",
        "preprocessing": SHAPE,
        "loss": Squared(),
        "penalty": penalty_of({}),
        "method": Method(solver="auto"),
    }
    return Specification(**known, budget=Budget(epsilon=0.9, delta=1e-6))


def test_more_epsilon_buys_less_error_and_fewer_refits():
    whole = limit(8.0, 1e-5, Currency.GAUSSIAN)
    points = list(swept(said(), 10_000, whole))
    assert [point.epsilon for point in points] == sorted({*EPSILONS, 0.9})
    errors, refits = [point.prediction.error for point in points], [point.refits for point in points]
    assert errors == sorted(errors, reverse=True)
    assert refits == sorted(refits, reverse=True)
    cheapest = make(replace(said(), budget=Budget(epsilon=0.1, delta=1e-6)), 10_000)
    assert refits[0] == whole.amount // cheapest.cost.amount
    text = page("<m>", points, 0.9)
    assert "&lt;m&gt;" in text
    assert "<svg" in text
    assert "<script" not in text


@pytest.fixture
def config(tmp_path, table, write):
    write("shards", table)
    content = {
        "name": "m",
        "data": {"path": "shards", "target": "y"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    return tmp_path / "refit.yaml"


def test_the_command_prints_a_table_and_writes_a_page_without_a_ledger(config, tmp_path):
    told = CliRunner().invoke(app, ["plan", str(config), "--sweep", "epsilon", "--html", str(tmp_path / "curve.html")])
    assert told.exit_code == 0, told.output
    assert "expected noise" in told.output
    assert "█" in told.output
    assert (tmp_path / "curve.html").read_text().startswith("<!DOCTYPE html>")
    assert not list(tmp_path.glob("*.db"))
    told = CliRunner().invoke(app, ["plan", str(config), "--sweep", "epsilon", "--json"])
    assert len(json.loads(told.output)["sweep"]) == len(EPSILONS)
    with pytest.raises(NightfitError, match="give both"):
        CliRunner().invoke(app, ["plan", str(config), "--html", "x.html"], catch_exceptions=False)


def test_the_plan_tells_the_expected_noise_and_what_would_help(config):
    told = CliRunner().invoke(app, ["plan", str(config)])
    assert "Expected noise:" in told.output
    predicted = json.loads(CliRunner().invoke(app, ["plan", str(config), "--json"]).output)["predicted"]["noise"]
    assert predicted["noise"] > 0
