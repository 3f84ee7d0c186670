"""Every export format predicts what `predict` predicts, on raw records of the generated hospital and on hostile ones."""

import importlib.util
import json
import math
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.plugins import members
from nightfit.problem import links
from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.links.log import Log
from nightfit.problem.links.logit import Logit
from nightfit.problem.links.softmax import Softmax
from nightfit.records import columns
from nightfit.records.columns import NEVER, NULL, Clock, Levels, Numbers
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import Category
from nightfit.records.columns.date import Date
from nightfit.records.columns.number import Number
from nightfit.records.columns.product import Product
from nightfit.records.encoding import Encoding
from nightfit.records.expressions import calendar, of
from nightfit.records.outcomes import Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.release import Release, ReleaseError, export
from nightfit.release.export import Formula, standalone
from nightfit.release.export.files import write
from nightfit.shards.hospital import CHAPTERS, Hospital
from nightfit.shards.predict import predict
from nightfit.types import NightfitError

Array = Any
INTERCEPTS = {"margins": 3.0, "dropping": 3.0}  # so that both labels are predicted
COLUMNS = {
    "age": Number(bounds=(0.0, 110.0), knots=(18.0, 65.0), missing="indicator"),
    "creatinine": Number(transform="log", missing="indicator"),
    "systolic": Number(bounds=(60.0, 250.0), transform="sqrt"),
    "bmi": Number(bounds=(10.0, 60.0), transform="log1p", missing=26.0),
    "sex": Category(levels=("F", "M"), reference="F"),
    "diagnosis": Category(levels=tuple(list(CHAPTERS)[:12]), missing="indicator"),
    "ward": Category(levels=("W00", 'O\'Neil "x"', "W01")),
    "prior_visits": Category(levels=("0", "1", "2"), missing="0"),
    "emergency": Boolean(missing="indicator"),
    "admitted": Date(parts=("weekday", "month", "hour", "year"), days_since="2020-01-01", zone="Europe/Berlin", missing="indicator"),
    "sex and age": Product(of=("sex", "age")),
    "emergency and creatinine": Product(of=("emergency", "creatinine")),
}
EXPOSURE = "stay_days"
OUTCOMES = {
    "outcomes": Outcome(labels=("home", 'O\'Neil "x"', "died")),
    "ended": Outcome(labels=("home", "died")),
    "rates": Outcome(exposure=EXPOSURE, exposures=(0.5, 20.0)),
    "logged": Outcome(transform="log1p"),
}
NAMED = {"outcomes", "ended"}  # models whose predictions are texts
STRICT = {**COLUMNS, "age": Number(bounds=(0.0, 110.0), missing="drop"), "ward": Category(levels=("W00", "W01"), missing="drop")}
MODELS: dict[str, tuple[dict[str, Any], Link, Target]] = {
    "outcomes": (COLUMNS, Softmax(), Target.LABELS),
    "ended": (STRICT, Logit(), Target.LABELS),
    "rates": (COLUMNS, Log(low=0.05, high=6.0), Target.NON_NEGATIVE),
    "logged": (COLUMNS, Identity(), Target.REAL),
    "stays": (COLUMNS, Identity(), Target.REAL),
    "visits": (COLUMNS, Log(low=0.05, high=6.0), Target.COUNTS),
    "readmitted": (COLUMNS, Logit(), Target.LABELS),
    "margins": (STRICT, Identity(), Target.LABELS),
    "dropping": (STRICT, Logit(), Target.LABELS),
}


def shape_of(described: dict[str, Any], domain: Target, outcome: Outcome) -> Preprocessing:
    """Scales that the columns' values exceed and do not reach, some features without a reach, some with a value for a missing one."""
    encoding, rng = Encoding.in_order(described), np.random.default_rng(7)
    many = len(encoding.features)
    return Preprocessing(
        features=encoding.names,
        encoding=encoding,
        target="y",
        centre=tuple(rng.normal(0.3, 0.2, many).tolist()),
        scale=tuple(np.exp(rng.normal(0, 1, many)).tolist()),
        absent=tuple(rng.uniform(-0.5, 0.5, many).tolist()),
        reach=tuple(math.inf if j % 5 == 0 and made.indicator else 1.0 for j, made in enumerate(encoding.features)),
        intercept=True,
        target_domain=domain,
        target_centre=0.0 if domain is not Target.REAL else 7.5 if outcome == Outcome() else 1.5,
        target_scale=2.5 if domain is Target.REAL and outcome == Outcome() else 1.0,
        outcome=outcome,
    )


def release_of(name: str) -> Release:
    described, link, domain = MODELS[name]
    shape = shape_of(described, domain, OUTCOMES.get(name, Outcome()))
    weights = np.random.default_rng(8).normal(0, 0.4, (shape.columns, 3) if name == "outcomes" else shape.columns)
    weights[-1] = INTERCEPTS.get(name, 0.3)
    ranges = {"range": [link.low, link.high]} if isinstance(link, Log) else {}
    content = {
        "model": name,
        "run": "visits-1",
        "private": False,
        "preprocessing": shape.as_dict(),
        "scaled_weights": weights.T.tolist(),
        **({"classes": list(OUTCOMES[name].labels)} if name == "outcomes" else {}),
        "link": link.name,
        "plan": {"loss": {"kind": "squared"}},
        **ranges,
    }
    return Release(content=json.loads(json.dumps(content)))


@pytest.fixture(scope="module")
def records() -> pa.Table:
    """A thousand admissions, and twelve that no hospital has: nulls, infinities, unknown levels, far and old dates."""
    days = [table.select([*read(), EXPOSURE]) for _, table in Hospital(rows=988, days=26, start=date(2024, 2, 10), seed=3).tables()]
    odd = {
        "age": [None, -5.0, 1e300, math.inf, math.nan, 0.0, 65.0, 18.0, 110.0, 40.0, None, 1e-300],
        "creatinine": [None, 0.0, -1.0, 1e308, math.nan, 1.0, 5e-324, 0.5, 2.0, -math.inf, None, 1.0],
        "systolic": [None, -4.0, 0.0, 1e300, 61.0, 250.0, 251.0, 0.1, math.nan, 120.0, None, 130.0],
        "bmi": [None, -2.0, 0.0, 9.0, 1e12, 60.0, math.inf, 25.0, 26.0, 27.0, None, 30.0],
        "sex": ["F", "M", "X", None, "f", "M", "O'Neil", "F", None, "other", None, "F"],
        "diagnosis": [None, "A00", "Z99", "other", "a00", "C00", "I00", None, "J00", "K00", None, "M00"],
        "ward": ['O\'Neil "x"', "W00", None, "W99", "W01", "W00", "W00", "W01", "W02", "W03", None, "W00"],
        "prior_visits": [None, 0, 1, 2, 3, 2**31 - 1, -1, 0, 1, 2, None, 0],
        "emergency": [None, True, False, None, True, False, True, False, True, False, None, True],
        EXPOSURE: [None, 0.0, -1.0, math.inf, math.nan, 1.0, 0.1, 400.0, 2.0, 3.0, 4.0, 5.0],
        "admitted": [None, *(datetime(*when, tzinfo=UTC) for when in INSTANTS), None, datetime(2000, 2, 29, 12, tzinfo=UTC)],
    }
    return pa.concat_tables(
        [*days, pa.table({name: pa.array(odd[name], type=days[0].schema.field(name).type) for name in [*read(), EXPOSURE]})]
    ).combine_chunks()


INSTANTS = [
    (1969, 12, 31, 23, 59, 59, 999999), (1970, 1, 1), (2000, 2, 29, 22, 59, 59, 999999), (1900, 3, 1), (2100, 2, 28, 23), (1600, 2, 29, 3),
    (2255, 1, 1), (2027, 10, 31, 0, 30), (2027, 10, 31, 1, 30),
]  # fmt: skip


def read() -> dict[str, Any]:
    return {name: column for name, column in COLUMNS.items() if not column.of}


@pytest.fixture(scope="module")
def expected(records: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Array]]:
    """What `nightfit predict` writes for a model, with NaN for null."""
    folder = tmp_path_factory.mktemp("expected")
    pq.write_table(records, folder / "records.parquet")

    def of_model(name: str) -> dict[str, Array]:
        release, output = release_of(name), folder / f"{name}.parquet"
        predict(release.preprocessing, release.weights, release.link, str(folder / "records.parquet"), output, keep=[], overwrite=True)
        table = pq.read_table(output)
        return {column: as_found(table[column].to_pylist(), column == "prediction" and name in NAMED) for column in table.column_names}

    return of_model


def as_found(values: Any, text: bool) -> Array:
    """An array with NaN for None; of texts with None."""
    return np.array(list(values), dtype=object if text else float)


def check(found: dict[str, Array], wanted: dict[str, Array], labels: bool) -> None:
    """Equal to 1e-9; a label may differ where the probability is a half to 1e-9, which no record here has."""
    assert found.keys() == wanted.keys()
    if wanted["prediction"].dtype == object:
        assert list(found.pop("prediction")) == list(wanted["prediction"])
        assert len(set(wanted["prediction"]) - {None}) > 1
        wanted = {name: values for name, values in wanted.items() if name != "prediction"}
        labels = False
    kept = ~np.isnan(next(iter(wanted.values())))
    assert kept.sum() > 100
    if labels:
        assert 0.02 < wanted["prediction"][kept].mean() < 0.98
    for name, values in wanted.items():
        np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(values))
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9)


every_model = pytest.mark.parametrize("name", list(MODELS))


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@every_model
def test_the_pipeline_predicts_as_predict(name: str, records: pa.Table, expected: Any, tmp_path: Path) -> None:
    pipeline = loaded(write(release_of(name), "sklearn", tmp_path / "model.py")).pipeline
    frame, wanted = records.to_pandas(), expected(name)
    found = {"prediction": pipeline.predict(frame)}
    if name == "outcomes":
        found |= {f"probability_{label}": chance for label, chance in zip(pipeline.classes_, pipeline.predict_proba(frame).T, strict=True)}
    if "probability" in wanted:
        found["probability"] = pipeline.predict_proba(frame)[:, 1]
    check(found, wanted, labels=MODELS[name][2] is Target.LABELS)


@pytest.mark.process
def test_the_pipeline_loads_where_nightfit_cannot_be_imported(records: pa.Table, expected: Any, tmp_path: Path) -> None:
    write(release_of("readmitted"), "sklearn", tmp_path / "model.py")
    pq.write_table(records, tmp_path / "records.parquet")
    program = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0].startswith(("nightfit", "dask", "opendp", "prefect", "numba")):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import numpy as np, pandas as pd
from sklearn.base import clone
from model import pipeline
frame = pd.read_parquet("records.parquet")
np.save("found.npy", clone(pipeline).predict_proba(frame)[:, 1])
print(sorted(name for name in sys.modules if name.startswith("nightfit")))
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "[]\n"), said.stderr
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), expected("readmitted")["probability"], rtol=1e-9)


def wall_clock(records: pa.Table, zone: str) -> pa.Array:
    """Microseconds since 1970-01-01 by the wall clock of a zone."""
    import pyarrow.compute as pc

    return pc.local_timestamp(records["admitted"].cast(pa.timestamp("us", tz=zone))).cast(pa.int64())


@every_model
def test_the_graph_predicts_as_predict_in_onnxruntime(name: str, records: pa.Table, expected: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime, of the extra `test`, is not installed")
    pytest.importorskip("onnx", reason="onnx, of the extra `export`, is not installed")
    session = onnxruntime.InferenceSession(write(release_of(name), "onnx", tmp_path / "m.onnx").read_bytes())
    inputs: dict[str, Array] = {}
    if name == "rates":
        inputs[EXPOSURE] = records[EXPOSURE].cast(pa.float64()).to_numpy()
    for column, described in read().items():
        values = records[column]
        match described.reading:
            case Numbers():
                inputs[column] = values.cast(pa.float64()).to_numpy()
            case Levels():
                inputs[column] = np.array(["" if value is None else str(value) for value in values.to_pylist()], dtype=object)
            case Clock(zone):
                inputs[column] = wall_clock(records, zone).fill_null(NEVER).to_numpy()
    found = dict(
        zip((out.name for out in session.get_outputs()), session.run(None, {k: v[:, None] for k, v in inputs.items()}), strict=True)
    )
    labels = MODELS[name][2] is Target.LABELS
    columns_found = {key: value[:, 0].astype(object if value.dtype == object else float) for key, value in found.items()}
    if name in NAMED:
        columns_found["prediction"] = np.where(columns_found["prediction"] == "", None, columns_found["prediction"])
    elif labels:
        columns_found["prediction"][columns_found["prediction"] == -1] = np.nan
    check(columns_found, expected(name), labels)


def sql_columns(name: str) -> list[str]:
    if name == "outcomes":
        return [*(f"probability_{label}" for label in OUTCOMES[name].labels), "prediction"]
    return ["probability", "prediction"] if name in ("readmitted", "dropping", "ended") else ["prediction"]


@pytest.mark.parametrize("name", ["stays", "dropping", "outcomes", "rates"])
def test_the_query_predicts_as_predict_in_duckdb(name: str, records: pa.Table, expected: Any, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb, of the extra `test`, is not installed")
    query = write(release_of(name), "sql", tmp_path / "m.sql").read_text()
    local = records.set_column(
        records.column_names.index("admitted"), "admitted", wall_clock(records, "Europe/Berlin").cast(pa.timestamp("us"))
    )
    with duckdb.connect() as connection:
        connection.register("records", local)
        result = connection.sql(query).to_arrow_table()
    assert result.num_rows == records.num_rows
    found = {one: as_found(result[one].to_pylist(), one == "prediction" and name in NAMED) for one in sql_columns(name)}
    check(found, expected(name), "probability" in sql_columns(name))


@every_model
def test_the_query_predicts_as_predict_in_sqlite(name: str, records: pa.Table, expected: Any, tmp_path: Path) -> None:
    query = write(release_of(name), "sql", tmp_path / "m.sql", dialect="sqlite", table="our records").read_text()
    moments = wall_clock(records, "Europe/Berlin").cast(pa.timestamp("us")).to_pylist()
    rows = [{**row, "admitted": None if at is None else str(at)} for row, at in zip(records.to_pylist(), moments, strict=True)]
    with sqlite3.connect(":memory:") as connection:
        connection.row_factory = sqlite3.Row
        names = ", ".join(f'"{one}"' for one in records.column_names)
        connection.execute(f'CREATE TABLE "our records" ({names})')
        places = ", ".join(f":{one}" for one in records.column_names)
        connection.executemany(f'INSERT INTO "our records" VALUES ({places})', rows)
        result = connection.execute(query).fetchall()
    connection.close()
    found = {one: as_found((row[one] for row in result), one == "prediction" and name in NAMED) for one in sql_columns(name)}
    check(found, expected(name), "probability" in sql_columns(name))


def hostile(column: Any, draw: Any, rows: int) -> Array:
    """What a reader may hand over."""
    match column.reading:
        case Numbers():
            anything = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True) | st.sampled_from([0.0, 1.0])
            return np.array(draw(st.lists(anything, min_size=rows, max_size=rows)))
        case Levels(levels):
            return np.array(draw(st.lists(st.integers(NULL, len(levels)), min_size=rows, max_size=rows)), dtype=np.int64)
        case Clock():
            year_10000 = 253_402_300_800_000_000
            near = st.integers(-year_10000, year_10000) | st.just(NEVER)
            return np.array(draw(st.lists(near, min_size=rows, max_size=rows)), dtype=np.int64)


def as_read(column: Any, values: Array) -> Any:
    """The same for the file of its own that an export is."""
    match column.reading:
        case Numbers():
            return np.where(np.isfinite(values), values, np.nan)
        case Levels(levels):
            return np.array([*levels, "no level", ""], dtype=object)[values], values == NULL
        case Clock():
            return np.where(values == NEVER, 0, values), values == NEVER


READ = [example for examples in members(columns).values() for example in examples if example.reading is not None]


@pytest.mark.parametrize("column", READ, ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_the_expressions_of_a_column_are_what_it_encodes(column: Any, data: Any) -> None:
    values = hostile(column, data.draw, 5)
    out = np.empty((5, len(column.features("c"))))
    column.encode(values, out)
    expressions = column.expressions("c")
    assert len(expressions) == out.shape[1]
    with np.errstate(all="ignore"):
        found = [standalone.evaluate(one.as_list(), {"c": as_read(column, values)}, {}, None) for one in expressions]
    np.testing.assert_allclose(np.column_stack(found).astype(float), out, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(
    "link",
    [*(link for examples in members(links).values() for link in examples if hasattr(link, "expression")), Log(low=0.1, high=9.0)],
    ids=str,
)
def test_the_expression_of_a_link_is_its_inverse(link: Link) -> None:
    margins = np.array([-1e308, -750.0, -3.0, 0.0, 0.7, 30.0, 690.0, math.nan])
    with np.errstate(all="ignore"):
        found = standalone.evaluate(link.expression(of("margin")).as_list(), {}, {}, margins)
    np.testing.assert_allclose(found, link.inverse(margins), rtol=1e-12, atol=1e-300)


def test_the_calendar_of_the_formats_without_one_is_the_calendar() -> None:
    days = np.concatenate([np.arange(-750_000, 750_000, 367), np.arange(-800, 800), np.arange(10_900, 11_300)])
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    for part, wanted in (("year", 1970 + months // 12), ("month", months % 12), ("weekday", (days + 3) % 7)):
        found = standalone.evaluate(calendar(part, of("margin")).as_list(), {}, {}, days.astype(float))
        np.testing.assert_array_equal(found, wanted)


def test_the_formula_is_json_that_says_everything_that_the_pipeline_needs(tmp_path: Path) -> None:
    path = write(release_of("readmitted"), "json", tmp_path / "m.json")
    stored = json.loads(path.read_text())
    assert stored == json.loads(json.dumps(Formula.of(release_of("readmitted")).as_dict()))
    assert [one["name"] for one in stored["inputs"]] == list(read())
    assert {one["kind"] for one in stored["inputs"]} == {"number", "text", "instant"}
    assert stored["statement"].startswith("NOT PRIVATE")


@pytest.mark.parametrize(("name", "form"), list(product(MODELS, ["pmml"])))
def test_the_pmml_has_the_structure_of_its_schema(name: str, form: str, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    root = ElementTree.parse(write(release_of(name), form, tmp_path / "m.pmml")).getroot()
    prefix = "{http://www.dmg.org/PMML-4_4}"
    assert (root.tag, root.get("version")) == (f"{prefix}PMML", "4.4")
    assert [child.tag.removeprefix(prefix) for child in root] == ["Header", "DataDictionary", "TransformationDictionary", "RegressionModel"]
    _, dictionary, derived, model = root
    assert [child.tag.removeprefix(prefix) for child in model] == ["MiningSchema", "Output", "RegressionTable"]
    known = {one.get("name") for one in dictionary}
    assert int(dictionary.get("numberOfFields", "")) == len(known) == len(read()) + (name == "rates")
    for one in derived:
        assert {ref.get("field") for ref in one.iter(f"{prefix}FieldRef")} <= known, "a field is derived before it is used"
        assert len(one) == 1
        known.add(one.get("name"))
    assert {one.get("name") for one in model[2]} <= known
    arity = {"if": (2, 3), "isMissing": (1, 1), "isNotMissing": (1, 1), "floor": (1, 1), "/": (2, 2), "lessThan": (2, 2)}
    for applied in root.iter(f"{prefix}Apply"):
        low, high = arity.get(str(applied.get("function")), (1, 99))
        assert low <= len(applied) <= high


@pytest.mark.sweep
@every_model
def test_jpmml_predicts_as_predict(name: str, records: pa.Table, expected: Any, tmp_path: Path) -> None:
    evaluators = pytest.importorskip("jpmml_evaluator", reason="NO PMML WAS EVALUATED: jpmml-evaluator, jpype1 and Java are not installed")
    from jpmml_evaluator.jpype import JPypeBackend

    evaluator = evaluators.make_evaluator(str(write(release_of(name), "pmml", tmp_path / "m.pmml")), backend=JPypeBackend())
    evaluator.verify()
    raw = {column: of_pmml(records, column) for column in (one.getName() for one in evaluator.getInputFields())}
    answers = [evaluator.evaluate({column: values[row] for column, values in raw.items()}) for row in range(records.num_rows)]
    wanted = expected(name)
    found = {one: as_found((answer.get(one) for answer in answers), one == "prediction" and name in NAMED) for one in wanted}
    check(found, wanted, labels=MODELS[name][2] is Target.LABELS)


def of_pmml(records: pa.Table, column: str) -> list[Any]:
    """A column as PMML takes it: texts, and numbers as double, also of dates."""
    if column == "admitted":
        return [None if at is None else float(at) for at in wall_clock(records, "Europe/Berlin").to_pylist()]
    values = records[column].to_pylist()
    if column != EXPOSURE and isinstance(COLUMNS[column].reading, Levels):
        return [None if one is None else str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    return [None if one is None or math.isnan(one) else float(one) for one in values]


def test_every_format_has_a_file_and_is_an_option_of_the_command() -> None:
    assert set(members(export)) == {"onnx", "sklearn", "pmml", "sql", "json"}


def test_means_are_refused() -> None:
    release = release_of("stays")
    with pytest.raises(ReleaseError, match="nothing to export"):
        Formula.of(Release(content={**release.content, "kind": "mean"}))


def test_an_option_that_a_format_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NightfitError, match="the format json has no option dialect"):
        write(release_of("stays"), "json", tmp_path / "m", dialect="sqlite")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["sql", "sklearn", "pmml", "json"])
def test_names_are_data_in_every_format(form: str, tmp_path: Path) -> None:
    """A column named like the end of a literal stays a name."""
    awkward = "x'''\"); DROP TABLE records; --\\ <&> é"
    shape = Preprocessing(features=(awkward,), target="y", centre=(0.0,), scale=(1.0,), intercept=True)
    content = {**release_of("stays").content, "preprocessing": shape.as_dict(), "scaled_weights": [2.0, 1.0]}
    path = write(Release(content=content), form, tmp_path / "m")
    raw = {awkward: np.array([0.25, 9.0, math.nan])}
    if form == "sklearn":
        path = path.rename(tmp_path / "named.py")
        np.testing.assert_allclose(loaded(path).pipeline.predict(raw), [1.5, 3.0, math.nan])
    elif form == "sql":
        query = write(Release(content=content), form, tmp_path / "m.sql", dialect="sqlite").read_text()
        with sqlite3.connect(":memory:") as connection:
            connection.execute('CREATE TABLE records ("' + awkward.replace('"', '""') + '")')
            connection.executemany("INSERT INTO records VALUES (?)", [(0.25,), (9.0,), (None,)])
            assert [row[-1] for row in connection.execute(query)] == [1.5, 3.0, None]
        connection.close()


def test_the_command_writes_the_current_release_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["export", str(tmp_path / "none.json"), "--format", "sql"])
    assert isinstance(said.exception, ReleaseError)
