"""What is no path where a command writes is refused; a URL would become a folder named after its scheme."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.types import NightfitError

pytestmark = pytest.mark.unit

WRITES = [
    ["init"],
    ["keys", "new"],
    ["generate", "shards"],
    ["generate", "hospital"],
    ["demo", "--folder"],
    ["predict", "release.json", "shards", "--output"],
    ["export", "release.json", "--format", "sql", "--output"],
    ["plan", "refit.yaml", "--sweep", "epsilon", "--html"],
    ["history", "refit.yaml", "--html"],
    ["card", "refit.yaml", "--output"],
    ["site", "folder", "--output"],
    ["ledger", "show", "--html"],
    ["reproduce", "prestige", "--output"],
]


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
@pytest.mark.parametrize("url", ["s3://bucket/place", "file:///place", "sqlite:///place.db"])
def test_a_url_where_a_command_writes_is_refused(words: list[str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, [*words, url]).exception
    assert isinstance(refused, NightfitError)
    assert f"{url} is a URL" in str(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
@pytest.mark.parametrize("name", ["", " ", "a\0b", "a\u202eb", "x" * 300], ids=["empty", "blank", "NUL", "backwards", "long"])
def test_what_is_no_name_of_a_file_is_refused(words: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, [*words, name]).exception
    assert isinstance(refused, NightfitError)
    assert "is no name of a file" in str(refused)
    assert list(tmp_path.iterdir()) == []


def test_a_default_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    assert (tmp_path / "refit.yaml").exists()
