"""Predictions are the release's formula, row for row, for data of any size."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.links.log import Log
from nightfit.problem.links.logit import Logit
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards.manifest import DataError
from nightfit.shards.predict import predict
from nightfit.shards.scorer import Scorer

QUIET: dict[str, Any] = {"dashboard_address": None, "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
WEIGHTS = np.array([0.7, -1.3, 0.2])


def shape(**changes: Any) -> Preprocessing:
    fields: dict[str, Any] = {
        "features": ("a", "b"),
        "target": "y",
        "centre": (1.0, -2.0),
        "scale": (3.0, 0.5),
        "target_centre": 10.0,
        "target_scale": 4.0,
        "intercept": True,
    }
    return Preprocessing(**(fields | changes))


def labels() -> Preprocessing:
    return shape(target_domain=Target.LABELS, target_centre=0.0, target_scale=1.0)


MODELS = {"identity": (shape(), Identity()), "logistic": (labels(), Logit()), "sign": (labels(), Identity())}


def table(rows: int = 1000, seed: int = 5) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"id": np.arange(rows), "a": rng.normal(1, 4, rows), "b": rng.normal(-2, 1, rows), "note": [f"row {i}" for i in range(rows)]}
    return pa.table(columns)


def margin(data: pa.Table) -> np.ndarray:
    """The release's formula, written out."""
    a = np.clip((data["a"].to_numpy() - 1.0) / 3.0, -1, 1)
    b = np.clip((data["b"].to_numpy() + 2.0) / 0.5, -1, 1)
    return a * 0.7 + b * -1.3 + 0.2


def written(folder: Path, data: pa.Table, row_group_size: int = 137) -> str:
    pq.write_table(data, folder / "in.parquet", row_group_size=row_group_size)
    return str(folder / "in.parquet")


def test_a_linear_prediction_is_the_releases_formula_and_every_column_is_kept_in_order(tmp_path: Path) -> None:
    data, output = table(), tmp_path / "out.parquet"
    assert predict(shape(), WEIGHTS, Identity(), written(tmp_path, data), output) == 1000
    scored = pq.read_table(output)
    assert scored.drop_columns("prediction").equals(data)
    np.testing.assert_allclose(scored["prediction"].to_numpy(), 10.0 + 4.0 * margin(data), rtol=1e-14)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_prediction_of_counts_is_in_their_units(tmp_path: Path) -> None:
    data, output = table(), tmp_path / "out.parquet"
    counts = shape(target_domain=Target.COUNTS, target_centre=0.0, target_scale=1.0, target_reach=(0.0, 20.0))
    predict(counts, WEIGHTS, Log(), written(tmp_path, data), output)
    np.testing.assert_allclose(pq.read_table(output)["prediction"].to_numpy(), np.exp(margin(data)), rtol=1e-14)


@pytest.mark.parametrize(("link", "columns"), [(Logit(), ["probability", "prediction"]), (Identity(), ["prediction"])])
def test_a_classifier_writes_labels_and_a_logistic_one_probabilities(tmp_path: Path, link: Link, columns: list[str]) -> None:
    data, output = table(), tmp_path / "out.parquet"
    predict(labels(), WEIGHTS, link, written(tmp_path, data), output, keep=["id"])
    scored, z = pq.read_table(output), margin(data)
    assert scored.column_names == ["id", *columns]
    assert scored["prediction"].type == pa.int64()
    np.testing.assert_array_equal(scored["prediction"].to_numpy(), (z > 0).astype(int))
    if link == Logit():
        np.testing.assert_allclose(scored["probability"].to_numpy(), 1 / (1 + np.exp(-z)), rtol=1e-14)


def test_a_row_with_a_null_nan_or_infinite_feature_gets_a_null_prediction(tmp_path: Path) -> None:
    data = pa.table({"a": pa.array([0.0, None, np.nan, np.inf, -np.inf, 1.0]), "b": pa.array([1, 2, 3, 4, 5, None], type=pa.int32())})
    for name, (preprocessing, link) in MODELS.items():
        output = tmp_path / f"{name}.parquet"
        predict(preprocessing, WEIGHTS, link, written(tmp_path, data), output)
        scored = pq.read_table(output)
        assert scored["prediction"].is_null().to_pylist() == [False, True, True, True, True, True]
        assert scored["b"].type == pa.int32()


def test_a_folder_becomes_one_file_in_the_order_of_names_or_a_folder_of_parts(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    parts = [table(100, seed) for seed in (1, 2, 3)]
    for number, part in enumerate(parts):
        pq.write_table(part, source / f"{number}.parquet")
    predict(shape(), WEIGHTS, Identity(), str(source), tmp_path / "one.parquet")
    predict(shape(), WEIGHTS, Identity(), str(source), tmp_path / "many")
    together = pq.read_table(tmp_path / "one.parquet")
    assert together.drop_columns("prediction").equals(pa.concat_tables(parts))
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == [f"part-0000{k}.parquet" for k in range(3)]
    assert pq.read_table(tmp_path / "many").equals(together)


@pytest.mark.process
def test_workers_of_a_cluster_give_the_same_file(tmp_path: Path) -> None:
    source = written(tmp_path, table(5000))
    with LocalCluster(**QUIET, n_workers=2, threads_per_worker=1, processes=False) as cluster, Client(cluster) as client:
        for preprocessing, link in MODELS.values():
            predict(preprocessing, WEIGHTS, link, source, tmp_path / "there.parquet", client=client, overwrite=True)
            predict(preprocessing, WEIGHTS, link, source, tmp_path / "here.parquet", overwrite=True)
            assert pq.read_table(tmp_path / "there.parquet").equals(pq.read_table(tmp_path / "here.parquet"))


@pytest.mark.parametrize(
    ("drop", "keep", "named"), [("b", None, "'b'"), (None, ["id", "c"], "'c'"), (None, ["prediction"], "'prediction'")]
)
def test_a_missing_column_is_refused_by_name(tmp_path: Path, drop: str | None, keep: list[str] | None, named: str) -> None:
    data = table().drop_columns(drop) if drop else table()
    with pytest.raises(DataError, match=named):
        predict(shape(), WEIGHTS, Identity(), written(tmp_path, data), tmp_path / "out.parquet", keep=keep)
    assert sorted(os.listdir(tmp_path)) == ["in.parquet"]


def test_a_column_without_any_value_is_scored_and_written_with_the_type_of_the_others(tmp_path: Path) -> None:
    data = table(4)
    (tmp_path / "in").mkdir()
    pq.write_table(data.set_column(1, "a", pa.nulls(4)), tmp_path / "in" / "0.parquet")
    pq.write_table(data, tmp_path / "in" / "1.parquet")
    predict(*MODELS["identity"][:1], WEIGHTS, Identity(), str(tmp_path / "in"), tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.schema.field("a").type == pa.float64()
    assert out["prediction"].null_count == out["a"].null_count == 4


def test_a_column_that_the_prediction_would_hide_is_refused_unless_left_out(tmp_path: Path) -> None:
    source = written(tmp_path, table().append_column("prediction", pa.array(np.zeros(1000))))
    with pytest.raises(DataError, match="'prediction' already"):
        predict(shape(), WEIGHTS, Identity(), source, tmp_path / "out.parquet")
    assert predict(shape(), WEIGHTS, Identity(), source, tmp_path / "out.parquet", keep=["id"]) == 1000


def test_nothing_is_overwritten_unasked_and_the_source_never(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source, output = written(tmp_path / "source", table()), tmp_path / "out.parquet"
    output.write_text("precious")
    with pytest.raises(DataError, match="exists already"):
        predict(shape(), WEIGHTS, Identity(), source, output)
    assert output.read_text() == "precious"
    assert predict(shape(), WEIGHTS, Identity(), source, output, overwrite=True) == 1000
    for where, place in ((source, Path(source)), (str(Path(source).parent), Path(source).parent / "among.parquet")):
        with pytest.raises(DataError, match="source's own files"):
            predict(shape(), WEIGHTS, Identity(), where, place, overwrite=True)


def test_a_source_that_breaks_off_leaves_no_output(tmp_path: Path) -> None:
    source = Path(written(tmp_path, table(20_000), row_group_size=1000))
    whole = bytearray(source.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 5000] = b"\xff" * 5000
    source.write_bytes(whole)
    with pytest.raises(DataError, match=r"in\.parquet cannot be read"):
        predict(shape(), WEIGHTS, Identity(), str(source), tmp_path / "out.parquet")
    assert sorted(os.listdir(tmp_path)) == ["in.parquet"]


def test_a_scorer_gives_the_same_numbers_however_rows_are_sliced_and_can_be_cloned() -> None:
    rng = np.random.default_rng(9)
    many = Preprocessing(
        features=tuple(f"x{j}" for j in range(37)),
        target="y",
        centre=(0.0,) * 37,
        scale=(1.0,) * 37,
        intercept=False,
        target_domain=Target.LABELS,
    )
    scorer, X = Scorer(many, rng.normal(size=37), Logit()), rng.normal(size=(500, 37))
    whole = scorer.predict_proba(X)
    np.testing.assert_array_equal(np.vstack([scorer.predict_proba(X[i : i + 7]) for i in range(0, 500, 7)]), whole)
    np.testing.assert_array_equal(scorer.predict(X), whole[:, 1] > 0.5)
    assert clone(scorer).get_params()["link"] == Logit()


LIMITED = """
import re, resource, sys
from pathlib import Path
import numpy as np
import dask_ml.wrappers
from nightfit.records.preprocessing import Preprocessing
from nightfit.problem.links.identity import Identity
from nightfit.shards.predict import predict
names = tuple(f"x{j}" for j in range(50))
shape = Preprocessing(features=names, target="y", centre=(0.0,) * 50, scale=(1.0,) * 50, intercept=True)
used = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[3]),) * 2)
print(predict(shape, np.full(51, 0.5), Identity(), sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.sweep
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads VmSize from /proc")
def test_data_larger_than_the_address_space_are_scored(tmp_path: Path) -> None:
    """400 MB decoded, in row groups of 40 MB, with 160 MB to spare."""
    rows, group = 1_000_000, 100_000
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(50)])
    batch = pa.RecordBatch.from_arrays([pa.array(np.full(group, 0.25))] * 50, schema=schema)
    with pq.ParquetWriter(tmp_path / "in.parquet", schema) as writer:
        for _ in range(rows // group):
            writer.write_batch(batch, row_group_size=group)
    del batch
    spare = 160 * 2**20
    assert rows * 50 * 8 > 2 * spare
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), str(spare)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == rows == pq.read_metadata(tmp_path / "out.parquet").num_rows
    scored = pq.ParquetFile(tmp_path / "out.parquet").read_row_group(0, columns=["prediction"])["prediction"].to_numpy()
    np.testing.assert_allclose(scored, 0.25 * 0.5 * 50 + 0.5)
