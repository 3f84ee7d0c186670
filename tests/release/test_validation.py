"""A release is checked whole when it is loaded: damage anywhere is refused by one message, and never read past."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.release import Release, ReleaseError, damaged_in, releases_in
from nightfit.shards.manifest import DataError
from nightfit.shards.scorer import Scorer

STORED = Path(__file__).parents[1] / "data" / "format_2" / "releases"
LINEAR = "clinic/visits-b843fa06"
REAL = (LINEAR, "ward/means-6f77b881", "survey/reports-ba84c1d6", "trial/tuned-search-b4348a2b", "cohort/persons-90c461c1")
ROWS = np.array([[0.5, -1.0], [9.0, 0.0], [np.nan, 1.0]])


def stored(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((STORED / name / "release.json").read_text())
    return content | {"path": content["path"][:2], "events": content["events"][:2]}


def predictions(release: Release) -> bytes:
    if release.of_columns:
        return release.weights.tobytes()
    return bytes(Scorer(release.preprocessing, release.weights, release.link).predict(ROWS).tobytes())


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value that holds no other, and of every list and dictionary."""
    if path:
        yield path
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from leaves(node[key], (*path, key))


GONE = object()
DAMAGES: tuple[Any, ...] = (GONE, None, "text", "", [], {}, [[]], True, -1, 0, float("nan"), float("inf"), "NaN")


def damaged(content: dict[str, Any], path: tuple[Any, ...], damage: Any) -> dict[str, Any]:
    made = copy.deepcopy(content)
    *outer, last = path
    inside: Any = made
    for key in outer:
        inside = inside[key]
    if damage is GONE:
        del inside[last]
    else:
        inside[last] = damage
    return made


@pytest.mark.parametrize("name", [REAL[0], *(pytest.param(name, marks=pytest.mark.sweep) for name in REAL[1:])])
def test_a_release_damaged_at_any_leaf_is_refused_or_predicts_the_same(name: str, tmp_path: Path) -> None:
    content, file = stored(name), tmp_path / "release.json"
    file.write_text(json.dumps(content))
    expected, refused, same = predictions(Release.load(file)), 0, 0
    for path in leaves(content):
        for damage in DAMAGES:
            before = _at(content, path)
            is_another_number = isinstance(before, int | float) and not isinstance(before, bool) and damage in (-1, 0)
            if is_another_number:
                continue  # an edit: what binds numbers is the digest, see tests/ledger/test_releases.py
            file.write_text(json.dumps(damaged(content, path, damage)))
            found = loaded(file)
            if isinstance(found, str):
                refused += 1
                assert str(file) in found
                assert "\n" not in found
                continue
            same += 1
            if path[0] == "preprocessing" and _is_an_edit(path, damage):
                continue
            assert predictions(found) == expected, (path, damage)
            found.statement()
            assert found.claim
            assert found.terms
    assert refused > 500
    assert same > 50


def loaded(file: Path) -> Release | str:
    """The release, or why it is refused."""
    try:
        return Release.load(file)
    except ReleaseError as error:
        return str(error)


def _at(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def _is_an_edit(path: tuple[Any, ...], damage: Any) -> bool:
    """Edits that are as good a release as the first one: a column whose clamp is gone, or another task. The digest names them."""
    return (path[-1] == "clamp" and damage in (None, GONE)) or path[-1] in ("intercept", "classification", "domain")


FAULTS = {
    "no weights": (("scaled_weights",), [], "scaled_weights has 0 numbers, and the model has 3 terms"),
    "short": (("scaled_weights",), [1.0], "scaled_weights has 1 numbers"),
    "long": (("scaled_weights",), [1.0] * 4, "scaled_weights has 4 numbers"),
    "text among weights": (("scaled_weights", 0), "1.0", "scaled_weights.0: Input should be a valid number"),
    "NaN": (("scaled_weights", 0), float("nan"), "NaN is not a number"),
    "Infinity": (("coef", "x0"), float("inf"), "Infinity is not a number"),
    "no coefficient": (("coef", "x0"), GONE, "coef does not name the features"),
    "no scale": (("preprocessing", "columns", "x0", "scale"), GONE, r"preprocessing.columns.x0.scale: Field required"),
    "no width": (("preprocessing", "columns", "x0", "scale"), 0.0, "greater than 0"),
    "another feature": (("features",), ["x0", "x9"], "preprocessing.columns does not name the features"),
    "no guarantee": (("guarantee",), None, "private is true, and there is no guarantee"),
    "epsilon": (("guarantee", "epsilon"), -1.0, "guarantee.epsilon"),
    "unknown mechanism": (("events", 0, "mechanism"), "laplace", "events: unknown mechanism 'laplace'"),
    "unknown link": (("link",), "probit", "link: 'probit' is not one of the links"),
    "digest": (("receipt", "digest"), "abc", "receipt.digest"),
    "unknown kind": (("kind",), "tree", "kind"),
    "path": (("path", 0), [1.0], "path has 1 numbers"),
}


@pytest.mark.parametrize(("path", "damage", "said"), FAULTS.values(), ids=FAULTS)
def test_each_kind_of_damage_has_a_message(tmp_path: Path, path: tuple[Any, ...], damage: Any, said: str) -> None:
    file = tmp_path / "release.json"
    file.write_text(json.dumps(damaged(stored(LINEAR), path, damage)))
    with pytest.raises(ReleaseError, match=said):
        Release.load(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a release.json of nightfit"),
        ("\x00\xff", "is not a release.json"),
        ("[" * 100_000, "nested too deeply"),
        ('{"nightfit_release": 1, "nightfit_release": 1}', "given twice"),
        ('{"nightfit_release": 1, "coef": 1e999}', "too large for a number"),
        ("[]", "that nightfit"),
        ('{"nightfit_release": 2}', "that nightfit"),
    ],
)
def test_a_file_that_is_no_release_has_a_message(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "release.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ReleaseError, match=said):
        Release.load(file)


def test_predict_refuses_a_damaged_release_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "release.json"
    file.write_text(json.dumps(damaged(stored(LINEAR), ("scaled_weights",), [])))
    said = CliRunner().invoke(app, ["predict", str(file), str(tmp_path / "none.parquet"), "-o", str(tmp_path / "out.parquet")])
    assert said.exit_code != 0
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("weights", [[], [1.0, 2.0], [1.0, 2.0, np.nan], [1.0] * 4])
def test_a_scorer_reads_no_further_than_its_weights(weights: list[float]) -> None:
    file = STORED / LINEAR / "release.json"
    release = Release.load(file)
    with pytest.raises(DataError, match="3 terms"):
        Scorer(release.preprocessing, np.array(weights), release.link).predict(ROWS)


def test_a_folder_with_a_damaged_release_gives_the_others_and_names_it(tmp_path: Path) -> None:
    for name, text in (("a", json.dumps(stored(LINEAR))), ("b", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "release.json").write_text(text)
    assert [name for name, _ in releases_in(tmp_path)] == ["a/release.json"]
    (problem,) = damaged_in(tmp_path)
    assert "b/release.json" in problem
