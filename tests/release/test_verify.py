"""`nightfit verify`: what a stranger can check of a release, and that every forgery that can be seen is named."""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import nightfit.verifier
from nightfit.cli import app
from nightfit.config import load
from nightfit.ledger import Binding, Ledger
from nightfit.ledger.history import chain_records
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.privacy.accounting import tight_epsilon
from nightfit.privacy.events import (
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    SelectionEvent,
    SmoothEvent,
    SmoothGaussianEvent,
)
from nightfit.release import Release, ReleaseError
from nightfit.release.signing import SigningError, load_key, new_key
from nightfit.types import Adjacency, Part, Sample
from nightfit.verifier import verify
from nightfit.verifier.epsilon import routes

STORED = sorted((Path(__file__).parents[1] / "data" / "format_2" / "releases").glob("**/release.json"))
CONTENT: dict[str, Any] = {
    "name": "m",
    "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 3.0, "delta": 1e-5}},
    "method": {"solver": "proximal_gradient", "steps": 2},
    "cluster": {"kind": "synchronous"},
    "sign": {"key": "signing.pem"},
}


@pytest.fixture
def refitted(tmp_path, table, write):
    """The folder of a signed release, its path and its ledger."""
    write("shards", table)
    new_key(tmp_path / "signing.pem")
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(CONTENT))
    config = load(tmp_path / "refit.yaml")
    Ledger.create(config.ledger_url).engine.dispose()
    job, ledger = prepare(config), open_ledger(config)
    published = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))
    yield tmp_path, published.release_path, ledger
    ledger.engine.dispose()


ONE, HALF = {"adjacency": Adjacency.REPLACE_ONE, "coordinates": 3}, 2**31
SETS = {
    "gaussian": [GaussianEvent(label=str(i), sensitivity=2.0**40, sigma=2.0**42 * (i + 2), **ONE) for i in range(5)],
    "coarse grid": [GaussianEvent(label="a", sensitivity=1.0, sigma=2000.0, **ONE)],
    "parts": [
        GaussianEvent(label="a", sensitivity=2.0**40, sigma=2.0**41, draw=Part(0, HALF), **ONE),
        GaussianEvent(label="b", sensitivity=2.0**40, sigma=2.0**42, draw=Part(HALF, 2**32), **ONE),
        GaussianEvent(label="c", sensitivity=2.0**40, sigma=2.0**43, **ONE),
    ],
    "samples": [
        GaussianEvent(label=str(i), sensitivity=1e12, sigma=9e11, coordinates=2, adjacency=adjacency, draw=Sample(0.05, i))
        for i in range(40)
        for adjacency in [Adjacency.ZERO_OUT]
    ],
    "selection": [SelectionEvent(label=str(i), sensitivity=2.0**40, scale=2.0**43, chosen=2, **ONE) for i in range(3)],
    "one selection": [SelectionEvent(label="a", sensitivity=2.0**40, scale=2.0**45, chosen=1, **ONE)],
    "laplace": [SmoothEvent(label="a", family="laplace_log_normal", smoothness=0.01, shift=0.05, spread=0.35, **ONE)],
    "arsinh": [SmoothEvent(label="a", family="arsinh_normal", smoothness=0.01, shift=0.05, spread=1.0, **ONE)],
    "smooth gaussian": [SmoothGaussianEvent(label="a", smoothness=0.01, shift=0.2, epsilon=1.2, delta=1e-6, **ONE)],
    "smooth gaussian beside gaussian": [
        SmoothGaussianEvent(label="a", smoothness=0.01, shift=0.2, epsilon=1.2, delta=1e-6, **ONE),
        GaussianEvent(label="b", sensitivity=2.0**40, sigma=2.0**44, **ONE),
    ],
    "reports": [PureEvent(label="a", epsilon=0.1, reports=30, **ONE)],
    "search": [RepeatedEvent(label="a", attempt_rho=0.01, mean=6, **ONE)],
    "mixed": [
        GaussianEvent(label="a", sensitivity=2.0**40, sigma=2.0**43, **ONE),
        SelectionEvent(label="b", sensitivity=2.0**40, scale=2.0**43, chosen=2, **ONE),
    ],
}


@pytest.mark.parametrize("events", SETS.values(), ids=SETS)
def test_two_routes_agree_with_the_accounting(events):
    claimed = tight_epsilon(events, 2e-6)
    found = routes([event.as_dict() for event in events], 2e-6)
    assert len(found) == 2
    for route in found:
        assert route.epsilon <= claimed * 1.001 or not route.tight
        assert route.epsilon >= claimed * 0.99
    assert any(route.tight for route in found)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_stored_releases_are_what_they_say(path):
    verdict = verify(json.loads(path.read_text()))
    assert list(verdict.wrong) == (["it claims no privacy: it was made with seeded or no noise"] if "seeded" in str(path) else [])


def changed(content: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    made = copy.deepcopy(content)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = to
    return made


def reclaimed(content: dict[str, Any]) -> dict[str, Any]:
    """A forgery whose own receipt was computed anew."""
    made = copy.deepcopy(content)
    made["receipt"]["content"] = Binding.of(made).content
    return made


def test_a_true_release_is_confirmed_and_each_forgery_is_named(refitted):
    folder, path, ledger = refitted
    content, entries, key = json.loads(path.read_text()), chain_records(ledger), (folder / "signing.pub").read_bytes()
    verdict = verify(content, entries, key)
    assert verdict.wrong == ()
    for said in ("privacy loss distributions", "exact profile", "this very content", "by the given key", "closed this release", "of 3 at"):
        assert any(said in line for line in verdict.found), said
    assert "its assumption bounds_are_public" in verdict.trusted
    half = [{**event, "sigma": event["sigma"] * 2} for event in content["events"]]
    forgeries = {
        "epsilon": (changed(content, "guarantee", "epsilon", to=0.5), "its events cost epsilon"),
        "events": (content | {"events": half, "plan": content["plan"] | {"events": half}}, "its plan is not the one of its digest"),
        "fewer events": (content | {"events": content["events"][1:]}, "its events are not those of its plan"),
        "adjacency": (changed(content, "guarantee", "adjacency", to="zero_out"), "other neighbours"),
        "coefficient": (changed(content, "coef", "x0", to=5.0), "edited after it was released"),
        "receipt": (content | {"receipt": None}, "no receipt"),
        "not private": (content | {"private": False}, "claims no privacy"),
        "unsigned": ({name: value for name, value in content.items() if name != "signature"}, "not signed"),
    }
    for name, (forged, said) in forgeries.items():
        assert any(said in line for line in verify(forged, entries, key).wrong), name
        if "signature" in forged:
            assert "its signature is not of this content by this key" in verify(forged, entries, key).wrong, name
    moved = reclaimed(changed(content, "coef", "x0", to=5.0))
    assert verify(moved).wrong == (), "nothing is wrong with the file alone"
    assert any("closed another release" in line for line in verify(moved, entries).wrong)


@pytest.mark.parametrize("content", [{}, [], "a text", {"run": "visits-1", "private": True}])
def test_what_is_no_release_is_said_to_be_none(content):
    assert "it is no release" in verify(content).wrong[0]


def test_a_chain_that_was_changed_is_named(refitted):
    _, path, ledger = refitted
    content, entries = json.loads(path.read_text()), chain_records(ledger)
    body = json.loads(entries[1]["body"])
    cheaper = {**entries[1], "body": json.dumps({**body, "cost": ["0", "0"]}, sort_keys=True, separators=(",", ":"))}
    for made, said in (
        ([entries[0], cheaper, *entries[2:]], "entry 2 of the chain was edited"),
        ([entries[0], *entries[2:]], "entry 2 of the chain was removed"),
        (entries[: content["receipt"]["seq"] - 1], "older copy"),
        ([*entries[1:]], "entry 1 of the chain was removed"),
    ):
        assert any(said in line for line in verify(content, made).wrong), said


def test_the_command_checks_ledger_export_and_key(refitted):
    folder, path, ledger = refitted

    def said(*options: str) -> str:
        answer = CliRunner().invoke(app, ["verify", str(path), *options])
        return answer.output if answer.exit_code == 0 else f"refused: {answer.exception}"

    export = folder / "chain.jsonl"
    export.write_text(CliRunner().invoke(app, ["ledger", "export", "--chain", "--ledger", ledger.url]).output)
    public = str(folder / "signing.pub")
    for options in ([], ["--ledger", ledger.url], ["--export", str(export)], ["--key", public], ["--ledger", ledger.url, "--key", public]):
        assert "is what it says." in said(*options)
    assert "give --ledger or --export" in said()
    assert "not both" in said("--ledger", ledger.url, "--export", str(export))
    assert "cannot be read" in said("--key", str(folder / "nobody.pub"))
    export.write_text('{"seq": 1}\n')
    assert "line 1 of" in said("--export", str(export))
    new_key(folder / "other.pem")
    assert "not of this content by this key" in said("--key", str(folder / "other.pub"))
    assert "no public key" in said("--key", str(path))


@pytest.mark.process
def test_the_verifier_runs_alone_where_nightfit_is_not_installed(refitted):
    folder, path, ledger = refitted
    shutil.copytree(Path(nightfit.verifier.__file__).parent, folder / "alone" / "verifier")
    (folder / "chain.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in chain_records(ledger)))
    blocked = "import sys, runpy; sys.modules['nightfit'] = None; runpy.run_module('verifier', run_name='__main__')"
    for release, code in ((path, 0), (folder / "forged.json", 1)):
        if code:
            release.write_text(json.dumps(changed(json.loads(path.read_text()), "guarantee", "epsilon", to=0.1)))
        ran = subprocess.run(
            [sys.executable, "-c", blocked, str(release), str(folder / "chain.jsonl")], cwd=folder / "alone", capture_output=True, text=True
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        assert ("WRONG" in ran.stdout) == bool(code)


def test_a_key_is_made_once_kept_private_and_checked_before_anything_is_spent(tmp_path, table, write):
    public = new_key(tmp_path / "signing.pem")
    assert (tmp_path / "signing.pem").stat().st_mode & 0o777 == 0o600
    with pytest.raises(SigningError, match="never overwritten"):
        new_key(tmp_path / "signing.pem")
    for no_name in (tmp_path, tmp_path / "other.pub"):
        with pytest.raises(SigningError, match="is no name for a private key"):
            new_key(no_name)
    (tmp_path / "copy.pem").write_bytes(public.read_bytes())
    (tmp_path / "copy.pem").chmod(0o600)
    with pytest.raises(SigningError, match="is no private key"):
        load_key(tmp_path / "copy.pem")
    (tmp_path / "signing.pem").chmod(0o644)
    write("shards", table)
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(CONTENT))
    config = load(tmp_path / "refit.yaml")
    Ledger.create(config.ledger_url).engine.dispose()
    ledger = open_ledger(config)
    for cure in ("chmod 600", "nightfit keys new"):
        with pytest.raises(SigningError, match=cure):
            reserve(prepare(config), ledger)
        (tmp_path / "signing.pem").unlink(missing_ok=True)
    assert ledger.runs() == []


def test_a_damaged_signature_is_refused_on_load(refitted):
    _, path, _ = refitted
    assert Release.load(path).tampering() is None
    path.write_text(json.dumps(json.loads(path.read_text()) | {"signature": "yes"}))
    with pytest.raises(ReleaseError, match="signature"):
        Release.load(path)
