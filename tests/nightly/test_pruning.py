"""Answers of finished nights are removed on request: the release stays the night's result, and a lost one is refused by name."""

import json

import pytest
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.ledger import Ledger, LedgerError, verify
from nightfit.nightly import open_ledger, prune
from nightfit.release.discovered import claims_in

pytestmark = pytest.mark.process


def test_a_pruned_night_returns_its_release_and_a_lost_one_is_refused_by_name(night, refit):
    config = night()
    first = refit(config)
    ledger, spent = open_ledger(config), first.balance.epsilon_spent
    assert prune(ledger, config.output_folder, [first.release.run_id]) == len(first.release.content["events"])
    written, second = first.release_path.read_bytes(), refit(config)
    assert not second.night.new
    assert second.release_path.read_bytes() == written
    assert second.balance.epsilon_spent == spent
    assert verify(ledger, claims_in(config.output_folder)) == []
    edited = {**first.release.content, "coef": dict.fromkeys(first.release.content["coef"], 0.0)}
    first.release_path.write_text(json.dumps(edited))
    with pytest.raises(LedgerError, match=r"the content changed since, and the answers of run .* were pruned"):
        refit(config)
    first.release_path.unlink()
    with pytest.raises(LedgerError, match=rf"the release of run {first.release.run_id} is lost: .* pay for a new release with --again"):
        refit(config)


def test_only_runs_whose_releases_are_kept_are_pruned(night, refit, tmp_path):
    config = night()
    first = refit(config)

    def said(*options):
        return CliRunner().invoke(app, ["ledger", "prune", *options, "--config", str(tmp_path / "refit.yaml")])

    assert "name runs, or --all" in str(said().exception)
    (tmp_path / "elsewhere").mkdir()
    lost = said(first.release.run_id, "--releases", str(tmp_path / "elsewhere"))
    assert f"the release of run {first.release.run_id} is not in" in str(lost.exception)
    before = (tmp_path / "ledger.db").stat().st_size
    pruned = said("--all")
    assert f"{len(first.release.content['events'])} answers of 1 runs are pruned" in " ".join(pruned.output.split())
    assert (tmp_path / "ledger.db").stat().st_size <= before
    assert verify(Ledger.open(config.ledger_url)) == []
