"""`nightfit check`: every place that is still open is named with its cure, and other faults at the same time."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import parse
from nightfit.config.completeness import filled, still_open
from nightfit.config.from_schema import Schema, schema_start
from nightfit.config.template import configuration
from nightfit.records.columns import Levels
from nightfit.shards.hospital import Hospital
from nightfit.types import NightfitError

CONTENT = {
    "name": "m",
    "data": {
        "path": "export",
        "target": "readmitted",
        "columns": {
            "sex": {"kind": "category", "levels": None},
            "ward": {"kind": "category"},
            "admitted": {"kind": "date", "parts": None},
            "age": {"kind": "number"},
        },
        "unit": "patient_id",
        "units": None,
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-6},
}


def test_every_open_place_is_named_and_filling_them_leaves_no_fault() -> None:
    places = [place.place for place in still_open(CONTENT)]
    assert places == ["data.columns.sex.levels", "data.columns.ward.levels", "data.columns.admitted.parts", "data.units"]
    assert all(place.cure.startswith("fill in") for place in still_open(CONTENT))
    assert still_open(filled(CONTENT)) == []
    assert parse(filled(CONTENT), Path()).data.units == 1
    assert still_open({"data": None}) == still_open({}) == []


def test_a_file_of_levels_may_begin_with_a_byte_order_mark_and_a_date_may_stand_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "levels.txt").write_text("\ufeffF\r\nM, X\n", encoding="utf-8")
    columns = {
        "sex": {"kind": "category", "levels": "levels.txt"},
        "admitted": {"kind": "date", "parts": [{"days_since": "2020-01-01"}]},
    }
    made = parse({**CONTENT, "data": {**filled(CONTENT)["data"], "columns": columns}}, tmp_path).data.described(tmp_path)
    assert made["sex"].reading == Levels(("F", "M, X"))
    assert made["admitted"].features("admitted")[0].name == "admitted days since 2020-01-01"


@pytest.mark.parametrize(
    ("kind", "loss", "opened"), [("string", "logistic", ["data.target.positive"]), ("bool", "logistic", []), ("double", "squared", [])]
)
def test_the_type_of_the_target_proposes_labels_or_numbers(kind: str, loss: str, opened: list[str]) -> None:
    start = schema_start("export", "export", "y", None, Schema(types={"y": kind, "age": "double"}, rows=100))
    content = yaml.safe_load(configuration("refit.yaml", start))
    assert [place.place for place in still_open(content)] == opened
    made = parse(filled(content), Path())
    assert (made.model.loss, made.data.target_column) == (loss, "y")


def test_the_command_names_open_places_and_wrong_columns_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Hospital(rows=40, days=2).write(tmp_path / "export")
    monkeypatch.chdir(tmp_path)
    columns = {**CONTENT["data"]["columns"], "age": {"kind": "date", "parts": ["month"]}, "agee": {"kind": "number"}}  # type: ignore[index]
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump({**CONTENT, "data": {**CONTENT["data"], "columns": columns}}))  # type: ignore[dict-item]
    said = CliRunner().invoke(app, ["check", "refit.yaml"])
    assert isinstance(said.exception, NightfitError)
    assert "6 places" in str(said.exception)
    for place in ("data.columns.sex.levels", "data.units", "'age' in", "data.columns.agee"):
        assert place in said.output
    wrong = {**filled(CONTENT)["data"], "units": 10, "target": {"column": "readmitted", "positive": 1}}
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump({**filled(CONTENT), "model": {"kind": "logistic"}, "data": wrong}))
    assert "'1' cannot occur in column 'readmitted'" in CliRunner().invoke(app, ["check", "refit.yaml"]).output
    right = {**filled(CONTENT), "data": {**filled(CONTENT)["data"], "units": 10}}
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(right))
    said = CliRunner().invoke(app, ["check", "refit.yaml"])
    assert said.exit_code == 0, said.output
    assert "is complete" in said.output
