"""A release is bound to what its run paid for: an edited one is named by verify, warned of by predict, and not started from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import Config, load
from nightfit.ledger import Binding, Claim, Ledger, LedgerError, unbound, verify
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.release import Release, releases_in

CONTENT: dict[str, Any] = {
    "name": "m",
    "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}, "window": "first"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 30.0, "delta": 1e-5}},
    "model": {"start": "previous"},
    "method": {"solver": "proximal_gradient", "steps": 3},
    "cluster": {"kind": "synchronous"},
}


@pytest.fixture
def night(tmp_path: Path, table: pa.Table, write: Callable[..., Path]) -> Callable[..., Config]:
    """The configuration of a window."""
    write("shards", table)

    def configured(window: str, **changes: Any) -> Config:
        content = {**CONTENT, "data": {**CONTENT["data"], "window": window}, **changes}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return load(tmp_path / "refit.yaml")

    Ledger.create(configured("first").ledger_url).engine.dispose()
    return configured


def refit(config: Config, unsafe: bool = False) -> Path:
    job, ledger = prepare(config), open_ledger(config)
    return publish(job, ledger, run_fit(job, ledger, reserve(job, ledger, unsafe=unsafe))).release_path


def claims_in(config: Config) -> list[tuple[str, Claim]]:
    return [(name, release.claim) for name, release in releases_in(config.output_folder)]


def edited(content: dict[str, Any], *path: str, to: Any) -> dict[str, Any]:
    """A copy in which one value is another."""
    name, *rest = path
    return {**content, name: edited(content[name], *rest, to=to) if rest else to}


EDITS = {
    "private flag": (("private",), False, "the private flag"),
    "epsilon": (("guarantee", "epsilon"), 0.01, "the content"),
    "coefficient": (("coef", "x0"), 123.0, "the content"),
    "weights": (("scaled_weights",), [0.0, 0.0, 0.0, 0.0], "the content"),
    "plan": (("plan_digest",), "0" * 64, "the plan"),
    "events": (("events",), [], "the events"),
    "version": (("versions", "numpy"), "0.1", "the content"),
    "data set": (("plan", "data_set"), "another", "the content"),
}


def test_an_edited_release_is_refused(night: Callable[..., Config]) -> None:
    config = night("first")
    release = refit(config)
    ledger, whole = Ledger.open(config.ledger_url), json.loads(release.read_text())
    assert verify(ledger, claims_in(config)) == unbound(ledger, claims_in(config)) == []
    assert Release.load(release).tampering() is None
    command = ["ledger", "verify", "--ledger", config.ledger_url, "--releases", str(config.output_folder)]
    assert CliRunner().invoke(app, command).exit_code == 0
    for path, to, named in EDITS.values():
        release.write_text(json.dumps(edited(whole, *path, to=to)))
        (problem,) = verify(ledger, claims_in(config))
        assert problem.endswith(f"is not the release that entry {whole['receipt']['seq']} closed: {named} changed since")
        assert not ledger.check_release(Release.load(release).claim).trusted, path
        assert "was edited after it was released" in str(Release.load(release).tampering()), path
        assert CliRunner().invoke(app, command).exit_code != 0, path


def test_an_edited_release_is_not_started_from(night: Callable[..., Config]) -> None:
    release = refit(night("first"))
    whole = json.loads(release.read_text())
    assert prepare(night("second")).plan.specification.start.run == whole["run"]
    for path, to, _ in EDITS.values():
        release.write_text(json.dumps(edited(whole, *path, to=to)))
        assert prepare(night("second")).plan.specification.start.run is None, path


def test_a_release_without_noise_is_not_started_from_when_its_json_says_private(night: Callable[..., Config]) -> None:
    """The attack: an unsafe release is edited to claim privacy, its own receipt recomputed; the next private refit must not start there."""
    config = night("first", unsafe={"noise": "none"})
    release = refit(config, unsafe=True)
    forged = json.loads(release.read_text()) | {"private": True}
    forged["guarantee"] = {"epsilon": 0.01, "delta": 1e-6, "currency": "gaussian", "adjacency": "replace_one", "unit": "record"}
    release.write_text(json.dumps(forged))
    assert "was edited after it was released" in str(Release.load(release).tampering()), "predict warns of this"
    assert prepare(night("second")).plan.specification.start.run is None
    forged["receipt"]["content"] = Binding.of(forged).content
    release.write_text(json.dumps(forged))
    assert Release.load(release).tampering() is None, "nothing is wrong with the file alone"
    (problem,) = verify(Ledger.open(config.ledger_url), claims_in(config))
    assert "the private flag changed" in problem
    assert prepare(night("second")).plan.specification.start.run is None


def test_a_release_with_the_receipt_of_another_run_is_named(night: Callable[..., Config]) -> None:
    first, second = refit(night("first")), refit(night("second"))
    config = night("second")
    content = json.loads(second.read_text()) | {"receipt": json.loads(first.read_text())["receipt"]}
    second.write_text(json.dumps(content))
    (problem,) = verify(Ledger.open(config.ledger_url), claims_in(config))
    assert problem.endswith(f"which did not close run {content['run']}")


def test_predict_warns_of_an_edited_release_and_scores_all_the_same(night: Callable[..., Config], tmp_path: Path) -> None:
    release = refit(night("first"))
    whole = json.loads(release.read_text())
    for content, warned in (
        (whole, None),
        (edited(whole, "coef", "x0", to=9.0), "was edited after it was released"),
        (whole | {"receipt": None}, "has no receipt"),
        (edited(whole, "receipt", "content", to=None), "may have been edited"),
    ):
        release.write_text(json.dumps(content))
        said = CliRunner().invoke(
            app, ["predict", str(release), str(tmp_path / "shards"), "-o", str(tmp_path / "p.parquet"), "--overwrite"]
        )
        assert said.exit_code == 0, said.output
        assert "Scored 700 rows" in said.output
        assert ("warning: " in said.output) == (warned is not None)
        assert warned is None or warned in said.output


def test_a_run_closes_only_a_release_of_what_was_reserved(night: Callable[..., Config]) -> None:
    config = night("first", unsafe={"noise": "none"})
    job, ledger = prepare(config), open_ledger(config)
    run = reserve(job, ledger, unsafe=True)
    for event in run.events.values():
        run.asked(event)
        run.answered(event, np.zeros(event.coordinates, dtype=np.int64))
    events = [event.as_dict() for event in run.events.values()]
    content = {"run": run.run_id, "private": False, "plan_digest": job.plan.digest(), "events": events}
    for change, named in (
        ({"private": True}, "the private flag"),
        ({"plan_digest": "x"}, "the plan"),
        ({"events": events[1:]}, "the events"),
    ):
        with pytest.raises(LedgerError, match=f"cannot finish: {named} of its release is not what was reserved"):
            run.finish(Binding.of(content | change))
    assert run.finish(Binding.of(content)).content == Binding.of(content).content


def test_a_release_that_is_made_anew_from_the_same_answers_is_bound_too(
    night: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library was upgraded between the crash and the next start, so that the content differs: the paid answers are not lost."""
    config = night("first")
    first = refit(config)
    kept = first.read_text()
    versions = json.loads(kept)["versions"] | {"python": "3.99"}
    monkeypatch.setattr("nightfit.release.assembly._versions", lambda: versions)
    assert refit(config) == first
    anew, ledger = json.loads(first.read_text()), Ledger.open(config.ledger_url)
    assert anew["versions"]["python"] == "3.99"
    assert anew["receipt"]["seq"] > json.loads(kept)["receipt"]["seq"]
    for text in (kept, json.dumps(anew)):
        first.write_text(text)
        assert verify(ledger, claims_in(config)) == []
    assert [run["state"] for run in ledger.runs()] == ["finished"]


def test_an_abandoned_run_cannot_be_closed(night: Callable[..., Config]) -> None:
    config = night("first")
    job, ledger = prepare(config), open_ledger(config)
    run = reserve(job, ledger)
    for event in run.events.values():
        run.asked(event)
        run.answered(event, np.zeros(event.coordinates, dtype=np.int64))
    ledger.abandon(run.run_id)
    events = [event.as_dict() for event in run.events.values()]
    with pytest.raises(LedgerError, match="it was abandoned"):
        run.finish(Binding.of({"private": True, "plan_digest": job.plan.digest(), "events": events}))
