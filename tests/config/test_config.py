"""refit.yaml: what is accepted, what is refused and how it is said."""

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from nightfit.config import Config, ConfigError, load, parse, resolved, schema
from nightfit.config.from_schema import Schema, schema_start
from nightfit.config.sections.columns import lines_of
from nightfit.config.template import configuration, hospital_start
from nightfit.config.text import plain_data
from nightfit.planning.plan import make
from nightfit.privacy.accounting import Currency
from nightfit.shards.manifest import DataError, Manifest, Shard
from nightfit.shards.source import Source
from nightfit.types import Adjacency

GOOD = {
    "name": "visits",
    "data": {
        "path": "shards",
        "target": "y",
        "columns": {"a": {"kind": "number", "bounds": [0, 4]}, "b": {"kind": "number", "bounds": [-10, 10]}},
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-6},
}


def changed(**sections):
    """GOOD with keys set (None removes) per section, or whole top-level values."""
    content = copy.deepcopy(GOOD)
    for section, value in sections.items():
        if isinstance(value, dict) and isinstance(content.get(section), dict):
            for key, inner in value.items():
                if inner is None:
                    content[section].pop(key)
                else:
                    content[section][key] = inner
        elif value is None:
            content.pop(section)
        else:
            content[section] = value
    return content


def parsed(**sections):
    return parse(changed(**sections), Path("/somewhere"))


def manifest(types=None, rows=1000):
    shard = Shard(name="s.parquet", location="file:///s.parquet", size=1, stamp="", footer="", row_groups=(rows,))
    return Manifest(source=Source(path="s"), shards=(shard,), types=types or {"a": "double", "b": "int64", "y": "double"})


def test_the_written_template_is_valid_and_names_every_key(tmp_path):
    path = tmp_path / "refit.yaml"
    path.write_text(configuration("refit.yaml", hospital_start("data/hospital")))
    config = load(path)
    assert config.data_set == "hospital"
    assert config.privacy.epsilon == 1.0
    text = path.read_text()
    sections = [Config, *(field.annotation for field in Config.model_fields.values())]
    for section in sections:
        for key in getattr(section, "model_fields", {}):
            assert key in text or key in ("folder", "unsafe", "blocks"), f"{key} is not explained"


def test_a_configuration_from_a_schema_is_valid_and_knows_no_value(tmp_path):
    """Odd names, a long path, columns of no numbers, and more columns than are worth listing."""
    types = {
        "y: #1": "double",
        "smoker": "bool",
        "seen": "timestamp[us]",
        "no": "int64",
        "age, in years": "int32",
        "raw": "list<item: int8>",
    }
    path = tmp_path / "refit.yaml"
    start = schema_start("a long/path" * 9, "claims", "y: #1", "logistic", Schema(types=types, rows=2_000_000))
    path.write_text(configuration("refit.yaml", start))
    config = load(path)
    assert {name: column.kind for name, column in config.data.columns.items()} == {
        "smoker": "boolean",
        "seen": "date",
        "no": "number",
        "age, in years": "number",
    }
    assert config.data.exclude == ["raw"]
    assert config.data.default is None
    assert (config.data.target, config.data.path, config.model.loss) == ("y: #1", "a long/path" * 9, "logistic")
    assert config.privacy.delta == 1e-9  # at most 1 / (100 rows)
    many = {f"x{j}": "double" for j in range(1000)}
    path.write_text(configuration("refit.yaml", schema_start("d", "d", "x0", "squared", Schema(types=many, rows=10))))
    assert (load(path).data.columns, load(path).data.default.kind) == ({}, "number")


def test_only_what_has_a_safe_default_may_be_left_out():
    config = parsed()
    assert config.privacy.adjacency is Adjacency.REPLACE_ONE
    assert config.method == "auto"
    for section, key in [("privacy", "epsilon"), ("privacy", "delta"), ("data", "target"), ("data", "path")]:
        with pytest.raises(ConfigError, match=rf"{section}\.{key} is missing"):
            parsed(**{section: {key: None}})


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"privacy": {"epsilom": 1.0}}, r"unknown key 'privacy\.epsilom'; did you mean 'epsilon'\?"),
        ({"metod": "auto"}, r"unknown key 'metod'; did you mean 'method'\?"),
        ({"data": {"colums": {}}}, r"unknown key 'data\.colums'; did you mean 'columns'\?"),
        (
            {"data": {"columns": {"a": {"kind": "number", "bound": [0, 1]}}}},
            r"'data\.columns\.a\.bound'; did you mean 'bounds'\?",
        ),
        ({"data": {"columns": {"a": {"kind": "numbr"}}}}, r"data\.columns\.a: every column has a kind: number, category"),
        ({"data": {"columns": {"a": {"bounds": [0, 1]}}}}, r"data\.columns\.a: every column has a kind"),
        (
            {"data": {"columns": {"a": {"kind": "category"}, "b": {"kind": "category", "levels": []}}}},
            r"(?s)columns\.a: levels are missing.*columns\.b",
        ),
        ({"data": {"columns": {"a": {"kind": "category", "levels": [True, False]}}}}, "write it in quotes"),
        ({"data": {"columns": {"a": {"kind": "category", "levels": "none.txt"}}}}, "there is no file of levels at"),
        ({"data": {"columns": {"a": {"kind": "category", "levels": "no\0ne.txt"}}}}, r"data\.columns\.a: the file of levels"),
        ({"data": {"columns": {"a": {"kind": "category", "levels": ["F"], "reference": "M"}}}}, "reference 'M' is not one of F, other"),
        ({"data": {"columns": {"a": {"kind": "date", "parts": ["minute"]}}}}, r"data\.columns\.a\.parts"),
        ({"data": {"columns": {"a": {"kind": "date", "parts": ["hour"], "zone": "Mars"}}}}, "not a time zone"),
        ({"data": {"columns": {"a": {"kind": "number", "missing": "median"}}}}, r"data\.columns\.a\.missing"),
        ({"data": {"columns": {"y": {"kind": "number"}}}}, "'y' is named twice: data.target"),
        ({"data": {"exclude": ["a"]}}, "'a' is named twice: in data.columns and in data.exclude"),
        ({"data": {"default": {"kind": "product", "of": ["a", "b"]}}}, "describe it in data.columns"),
        ({"data": {"target": {"column": "y", "labels": ["a"]}}}, r"unknown key 'data\.target\.labels'"),
        ({"method": {"step": 3}}, r"unknown key 'method\.step'; did you mean 'steps'\?"),
        ({"cluster": {"adress": "tcp://a:1"}}, r"did you mean 'address'\?"),
        ({"cluster": "synchronus"}, "'auto', 'local' or 'synchronous'"),
        ({"cluster": {"wrkers": 3}}, r"did you mean 'workers'\?"),
        ({"model": {"loss": "hubber"}}, r"did you mean 'huber'\?"),
        ({"model": {"penalty": {"l3": 1.0}}}, "'l3' is not one of the penalties"),
        ({"model": {"penalty": {"l1": 1.0, "l2": 1.0}}}, "use elastic_net"),
        ({"model": {"penalty": {"l1": -1.0}}}, "weight"),
        ({"model": {"loss": {"huber": {"d": 1.0}}}}, "parameters that it does not know"),
        ({"method": "softt"}, r"did you mean 'soft'\?"),
        ({"data": {"columns": {"a": {"kind": "number", "bounds": [4, 0]}}}}, "low < high"),
        ({"data": {"default": {"kind": "number", "bounds": [0.0, float("inf")]}}}, "finite"),
        ({"data": {"unit": "patient"}}, "data.units is missing"),
        ({"name": "../x"}, "name"),
        ({"cluster": {"address": "scheduler:8786"}}, "tcp"),
    ],
)
def test_a_fault_is_named_with_its_cure(sections, message):
    with pytest.raises(ConfigError, match=message):
        parsed(**sections)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), 1e-9, 1e3, "1", "1,5", True, None, [1.0]])
def test_an_epsilon_without_meaning_is_refused(epsilon):
    content = changed()
    content["privacy"]["epsilon"] = epsilon
    with pytest.raises(ConfigError, match="epsilon"):
        parse(content, Path("/"))


@pytest.mark.parametrize("delta", [0, 1, -1e-6, 2, float("nan"), "1e-6", None])
def test_a_delta_without_meaning_is_refused(delta):
    content = changed()
    content["privacy"]["delta"] = delta
    with pytest.raises(ConfigError, match="delta"):
        parse(content, Path("/"))


def test_every_fault_is_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        parsed(privacy={"epsilon": "x", "delta": None}, model={"loss": "nope"})
    assert str(caught.value).count("\n") == 3


def test_scientific_numbers_need_no_point(tmp_path):
    path = tmp_path / "refit.yaml"
    path.write_text(yaml.safe_dump(GOOD).replace("delta: 1.0e-06", "delta: 1e-6"))
    assert "1e-6" in path.read_text()
    assert load(path).privacy.delta == 1e-6


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "just words"])
def test_what_is_no_configuration_is_refused(tmp_path, text):
    path = tmp_path / "refit.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load(path)
    with pytest.raises(ConfigError, match="nightfit init"):
        load(tmp_path / "missing.yaml")


def test_paths_are_relative_to_the_file():
    config = parsed(ledger="sqlite:///books/l.db", output="out")
    assert config.ledger_url == "sqlite:////somewhere/books/l.db"
    assert config.output_folder == Path("/somewhere/out")
    assert config.data_path == "/somewhere/shards"
    assert parsed(data={"path": "s3://bucket/x"}).data_path == "s3://bucket/x"
    assert resolved("sqlite:////abs/l.db", Path("/f")) == "sqlite:////abs/l.db"
    assert resolved("postgresql://h/d", Path("/f")) == "postgresql://h/d"


@pytest.mark.parametrize(
    ("path", "name"), [("data/randhie", "randhie"), ("a/b/*.parquet", "b"), ("x.parquet", "x"), ("s3://bucket/day/", "day")]
)
def test_a_data_set_is_named_after_its_folder(path, name):
    assert parsed(data={"path": path}).data_set == name


def test_bounds_are_clamps_and_give_scales_where_they_are_public():
    public = {"mean": "clipped", "scales": "public"}
    shape = parsed(method=public, data={"target": {"column": "y", "bounds": [0, 10]}}).specification(manifest(), Currency.GAUSSIAN)
    assert (shape.preprocessing.centre, shape.preprocessing.scale) == ((2.0, 0.0), (2.0, 10.0))
    assert shape.preprocessing.bounded
    shape = parsed().specification(manifest(), Currency.GAUSSIAN).preprocessing
    assert (shape.centre, shape.scale, shape.reach) == ((0.0, 0.0), (1.0, 1.0), (math.inf, math.inf))
    assert shape.target_reach == (-math.inf, math.inf)
    shape = parsed(data={"target": {"column": "y", "bounds": [0, 10]}}).specification(manifest(), Currency.GAUSSIAN).preprocessing
    assert (shape.target_centre, shape.target_scale, shape.target_reach) == (5.0, 5.0, (-1.0, 1.0))


@pytest.mark.parametrize("method", ["auto", "clipped"])
def test_a_true_public_range_changes_neither_a_query_nor_a_value_so_it_cannot_hurt(method):
    """Of columns with rare large values, rare indicators and constants: the ranges hold all values, as a true fact does."""
    rng = np.random.default_rng(0)
    raw = {"a": np.minimum(rng.pareto(1.0, 500), 1e4), "b": (rng.uniform(size=500) < 0.01).astype(float)}
    stated = {"a": {"kind": "number", "bounds": [0, 1e6]}, "b": {"kind": "number", "bounds": [0, 1]}}
    told, untold = (
        parsed(method=method, data={"columns": columns}).specification(manifest(), Currency.GAUSSIAN)
        for columns in (stated, {name: {"kind": "number"} for name in stated})
    )
    assert make(told, 20_000).events == make(untold, 20_000).events
    one, two = (shape.preprocessing.rows_of(shape.preprocessing.encoded.encode(raw, 500), np.zeros(500)) for shape in (told, untold))
    assert all(np.array_equal(*pair) for pair in zip(one, two, strict=True))


def test_a_column_without_public_bounds_is_refused_where_bounds_are_scales():
    bare = {"columns": {"b": {"kind": "number"}}}
    with pytest.raises(ConfigError, match="'b' has no public bounds"):
        parsed(data=bare, method={"mean": "clipped", "scales": "public"}).specification(manifest(), Currency.GAUSSIAN)
    for method in ("auto", "clipped"):
        assert not parsed(data=bare, method=method).specification(manifest(), Currency.GAUSSIAN).preprocessing.bounded


def test_an_unbounded_target_needs_a_public_size_where_it_is_not_paid_for():
    bare, public = {"target": "y"}, {"scales": "public"}
    with pytest.raises(ConfigError, match="how large a residual may be"):
        parsed(data=bare, method=public).specification(manifest(), Currency.GAUSSIAN)
    assert parsed(data=bare, method=public, model={"loss": "huber"}).specification(manifest(), Currency.GAUSSIAN)
    assert parsed(data=bare, method=public | {"bound": 3.0}).specification(manifest(), Currency.GAUSSIAN)
    assert parsed(data=bare, method="clipped").specification(manifest(), Currency.GAUSSIAN)


def test_a_row_id_that_is_no_column_is_refused_before_any_charge():
    with pytest.raises(DataError, match="row_id"):
        parsed(data={"row_id": "nobody"}).specification(manifest(), Currency.GAUSSIAN)


def test_columns_left_out_become_features():
    config = parsed(data={"columns": None, "exclude": ["c"], "row_id": "id"})
    types = {"id": "string", "a": "double", "c": "string", "b": "double", "y": "double"}
    assert config.specification(manifest(types), Currency.GAUSSIAN).preprocessing.features == ("a", "b")
    with pytest.raises(ConfigError, match="no column is left"):
        parsed(data={"columns": None, "row_id": "id"}).specification(manifest({"id": "string", "y": "double"}), Currency.GAUSSIAN)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"columns": {"zzz": {"kind": "number"}}}, DataError, "'zzz' is missing"),
        (
            {"columns": {"a": {"kind": "date", "parts": ["month"]}}},
            DataError,
            "kind date cannot read: .*kind: number",
        ),
        (
            {"columns": {"a": {"kind": "number"}, "q": {"kind": "product", "of": ["a", "c"]}}},
            ConfigError,
            "'q': it is made of 'c'",
        ),
        ({"columns": {"a": {"kind": "number"}, "q": {"kind": "product", "of": ["a", "q"]}}}, ConfigError, "'q': it is made of itself"),
    ],
)
def test_columns_that_do_not_fit_are_refused(data, error, message):
    with pytest.raises(error, match=message):
        parsed(data=data).specification(manifest(), Currency.GAUSSIAN)


def test_a_public_number_of_units_is_needed_exactly_where_rows_are_private():
    with pytest.raises(ConfigError, match=r"data\.units"):
        parsed(privacy={"adjacency": "add_remove"}).units(manifest())
    with pytest.raises(ConfigError, match="remove it"):
        parsed(data={"units": 5}).units(manifest())
    assert parsed(privacy={"adjacency": "add_remove"}, data={"units": 777}).units(manifest()) == 777
    assert parsed().units(manifest()) == 1000


def test_the_schema_is_one_that_editors_can_use():
    described = schema()
    assert json.loads(json.dumps(described))["properties"]["privacy"]
    assert "folder" not in described["properties"]


@pytest.mark.parametrize(
    "content", [b"F\nM\n", b"\xef\xbb\xbfF\nM\n", b"F\r\nM\r\n", b"\n F \n\nM"], ids=["plain", "mark", "windows", "spaces"]
)
def test_a_file_of_levels_has_one_on_each_line_whichever_editor_wrote_it(tmp_path, content):
    (tmp_path / "levels.txt").write_bytes(content)
    assert lines_of(tmp_path / "levels.txt") == ["F", "M"]


def test_a_level_may_hold_what_is_no_end_of_a_line(tmp_path):
    (tmp_path / "levels.txt").write_text("a\u2028b\nc\x85d\n", encoding="utf-8")
    assert lines_of(tmp_path / "levels.txt") == ["a\u2028b", "c\x85d"]


def test_a_key_that_yaml_1_1_takes_for_a_truth_is_a_key():
    assert plain_data("notify: {on: [failure], off: yes}") == {"notify": {"on": ["failure"], "off": True}}
