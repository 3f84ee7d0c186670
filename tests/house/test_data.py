"""The bundled data set is what it says, and the synthetic shards have the distribution and the memory they promise."""

import hashlib
import importlib.util
import math
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import nightfit.bundled
from nightfit.bundled import bundled
from nightfit.shards.hospital import Hospital
from nightfit.shards.synthetic import ROW_GROUP, Synthetic

DATA = bundled("randhie").parent
COLUMNS = ["mdvis", "lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]


def synthetic(**changes: Any) -> Synthetic:
    fields: dict[str, Any] = {"rows": 1003, "columns": 4, "shards": 3, "task": "linear", "seed": 7}
    return Synthetic(**(fields | changes))


def residuals(data: Synthetic) -> np.ndarray:
    """y - x . w over all shards: the noise."""
    tables = [data.table(shard) for shard in range(data.shards)]
    rows = pa.concat_tables(tables).to_pandas().to_numpy()
    return rows[:, -1] - rows[:, :-1] @ data.truth()


def test_the_bundled_files_are_exactly_those_of_the_hash_list() -> None:
    listed = dict(reversed(line.split()) for line in (DATA / "SHA256SUMS").read_text().splitlines())
    found = {path.relative_to(DATA).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in DATA.glob("**/*.parquet")}
    assert len(listed) == 11
    assert found == listed


def test_the_bundled_shards_share_one_schema_and_hold_20190_complete_rows() -> None:
    tables = [pq.read_table(path) for path in sorted(bundled("randhie").glob("*.parquet"))]
    assert all(table.schema.equals(pa.schema([(name, pa.float64()) for name in COLUMNS]), check_metadata=True) for table in tables)
    whole = pa.concat_tables(tables)
    assert whole.num_rows == 20190
    assert np.isfinite(whole.to_pandas().to_numpy()).all()


def test_the_bundled_hospital_is_what_its_simulator_makes() -> None:
    """Of the first day: what is drawn does not depend on the number of days that follow."""
    shipped = pq.read_table(bundled("hospital") / "day=2026-01-01" / "part-0.parquet", partitioning=None)
    _, made = next(Hospital(rows=20_000, days=5, seed=21).tables())
    assert shipped.num_rows == 4000
    assert shipped.equals(made.cast(shipped.schema))


@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("statsmodels") is None, reason="statsmodels is needed only to rebuild the data")
def test_the_bundled_values_equal_those_that_statsmodels_ships() -> None:
    done = subprocess.run([sys.executable, DATA / "rebuild.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unknown_data_set_is_refused_with_a_cure() -> None:
    with pytest.raises(FileNotFoundError, match=r"no bundled data set 'nowhere'.*data/rebuild.py"):
        bundled("nowhere")


def test_the_data_inside_an_installed_package_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipeline" / "nightfit" / "_data" / "randhie").mkdir(parents=True)
    (tmp_path / "data" / "randhie").mkdir(parents=True)
    monkeypatch.setattr(nightfit.bundled, "_PACKAGE", tmp_path / "pipeline" / "nightfit")
    assert bundled("randhie") == tmp_path / "pipeline" / "nightfit" / "_data" / "randhie"


def test_a_shard_is_the_same_alone_in_any_order_and_on_disk(tmp_path: Path) -> None:
    data = synthetic(noise="student", features="student")
    paths = data.write(tmp_path / "new" / "folder", row_group=100)
    assert [path.name for path in paths] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert sorted(paths) == sorted((tmp_path / "new" / "folder").iterdir())
    for shard in (2, 0, 1):
        assert pq.read_table(paths[shard]).equals(pickle.loads(pickle.dumps(data)).table(shard, row_group=100))


def test_all_rows_are_written_and_shards_differ_in_length_by_at_most_one() -> None:
    lengths = [synthetic().table(shard).num_rows for shard in range(3)]
    assert lengths == [335, 334, 334]


def test_seeds_shards_and_row_groups_draw_different_rows() -> None:
    data = synthetic()
    first = data.table(0, row_group=10).column("x0").to_numpy()
    others = [data.table(1).column("x0").to_numpy(), synthetic(seed=8).table(0).column("x0").to_numpy()]
    assert np.unique(np.concatenate([first, *others])).size == first.size + sum(map(len, others))


def test_an_interrupted_write_leaves_no_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Synthetic._batch

    def fail(self: Synthetic, shard: int, group: int, rows: int) -> Any:
        if (shard, group) == (1, 2):
            raise KeyboardInterrupt
        return draw(self, shard, group, rows)

    monkeypatch.setattr(Synthetic, "_batch", fail)
    with pytest.raises(KeyboardInterrupt):
        synthetic().write(tmp_path, row_group=100)
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.parquet"]


def test_a_folder_with_parts_of_another_data_set_is_refused(tmp_path: Path) -> None:
    synthetic().write(tmp_path)
    with pytest.raises(FileExistsError, match=r"part-00002.parquet.*empty folder"):
        synthetic(shards=2).write(tmp_path)
    synthetic(seed=8).write(tmp_path)
    assert pq.read_table(tmp_path / "part-00002.parquet").equals(synthetic(seed=8).table(2))


def test_writing_holds_one_row_group_in_memory_at_a_time(tmp_path: Path) -> None:
    data, row_group = synthetic(rows=200_000, columns=20, shards=1, features="student", feature_tail=3.0), 5_000
    size = row_group * (data.columns + 1) * 8
    data.table(0)  # whatever Arrow imports on first use is not our memory
    tracemalloc.start()
    try:
        [path] = data.write(tmp_path, row_group=row_group)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * size  # the file is 40 row groups; Arrow takes the columns without a copy, so numpy's share is all of it
    footer = pq.ParquetFile(path).metadata
    assert [footer.row_group(group).num_rows for group in range(footer.num_row_groups)] == [row_group] * 40


def test_the_default_row_group_of_fifty_columns_stays_under_100_megabytes() -> None:
    assert 1.5 * ROW_GROUP * 51 * 8 < 100e6  # 1.5 row groups: the bound of the test above


@pytest.mark.parametrize("nonzeros", [None, 1, 3])
def test_the_truth_has_norm_one_and_the_requested_support(nonzeros: int | None) -> None:
    data = synthetic(columns=9, nonzeros=nonzeros)
    assert np.linalg.norm(data.truth()) == pytest.approx(1.0, abs=1e-15)
    assert np.count_nonzero(data.truth()) == (9 if nonzeros is None else nonzeros)
    assert (data.truth() == synthetic(columns=9, nonzeros=nonzeros, task="logistic", rows=50).truth()).all()


LAWS = {
    ("normal", 3.0): stats.norm(),
    ("student", 2.0): stats.t(2.0),
    ("student", 1.0): stats.t(1.0),
    ("loglogistic", 0.5): stats.fisk(2.0, loc=-math.pi / 2),
    ("lognormal", 1.5): stats.lognorm(1.5, loc=-math.exp(1.5**2 / 2)),
    ("pareto", 1.8): stats.pareto(1.8, loc=-1.8 / 0.8),
    ("pareto", 0.9): stats.pareto(0.9),
}


@pytest.mark.parametrize(("noise", "tail"), LAWS)
def test_the_noise_has_the_requested_law_and_tail(noise: str, tail: float) -> None:
    """Each empirical tail probability is within 4 binomial standard errors; Kolmogorov-Smirnov does not reject at 1 in 1000."""
    law, n = LAWS[noise, tail], 200_000
    e = residuals(synthetic(rows=n, shards=2, columns=2, noise=noise, noise_tail=tail, noise_scale=0.5)) / 0.5
    for p in (0.25, 0.01, 0.001, 0.0001):
        assert abs((e > law.isf(p)).mean() - p) < 4 * math.sqrt(p * (1 - p) / n)
    assert stats.kstest(e, law.cdf).pvalue > 1e-3


def test_student_quantiles_match_scipy_within_eight_percent() -> None:
    """200,000 draws of t(2): at level 0.999 the standard error is 3.5 percent of the quantile, less at the others."""
    e = residuals(synthetic(rows=200_000, shards=2, columns=2, noise="student", noise_tail=2.0))
    levels = [0.001, 0.01, 0.1, 0.9, 0.99, 0.999]
    assert np.quantile(e, levels) == pytest.approx(stats.t(2.0).ppf(levels), rel=0.08)


@pytest.mark.parametrize(("features", "law"), [("gaussian", stats.norm()), ("student", stats.t(2.5))])
def test_every_feature_has_the_requested_law(features: str, law: Any) -> None:
    table = synthetic(rows=20_000, shards=1, features=features, feature_tail=2.5).table(0)
    assert all(stats.kstest(table.column(f"x{j}").to_numpy(), law.cdf).pvalue > 1e-3 for j in range(4))


def test_zero_noise_leaves_the_linear_prediction() -> None:
    assert residuals(synthetic(noise="pareto", noise_scale=0.0)) == pytest.approx(0.0, abs=1e-12)


def test_labels_of_sign_say_where_the_noisy_prediction_is_positive() -> None:
    exact = synthetic(task="sign", noise_scale=0.0).table(0).to_pandas().to_numpy()
    assert (exact[:, -1] == (exact[:, :-1] @ synthetic().truth() > 0)).all()
    noisy = synthetic(task="sign", noise="loglogistic", noise_tail=0.5, rows=50_000, shards=1).table(0).to_pandas().to_numpy()
    z = noisy[:, :-1] @ synthetic().truth()
    law = stats.fisk(2.0, loc=-math.pi / 2)
    for part in np.array_split(np.argsort(z), 10):
        share = law.sf(-z[part]).mean()
        assert abs(noisy[part, -1].mean() - share) < 4 * math.sqrt(share * (1 - share) / len(part)) + 1e-9


def test_logistic_labels_are_zero_or_one_and_follow_the_curve() -> None:
    """Within each tenth of the score the mean label is within 4 standard errors of the mean of sigmoid(3 x . w)."""
    data = synthetic(rows=50_000, shards=1, task="logistic")
    rows = data.table(0).to_pandas().to_numpy()
    y, p = rows[:, -1], 1 / (1 + np.exp(-3 * rows[:, :-1] @ data.truth()))
    assert set(y) == {0.0, 1.0}
    for part in np.array_split(np.argsort(p), 10):
        assert abs(y[part].mean() - p[part].mean()) < 4 * math.sqrt((p[part] * (1 - p[part])).sum()) / len(part)


@pytest.mark.parametrize(("noise", "tail"), [("student", 0.25), ("pareto", 0.25), ("lognormal", 25.0), ("loglogistic", 16.0)])
def test_the_heaviest_allowed_tails_stay_finite(noise: str, tail: float) -> None:
    data = synthetic(rows=50_000, shards=1, noise=noise, noise_tail=tail, features="student", feature_tail=0.25)
    assert np.isfinite(data.table(0).to_pandas().to_numpy()).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "poisson"}, "task 'poisson' is unknown; use one of linear, logistic"),
        ({"noise": "cauchy"}, "noise 'cauchy'"),
        ({"features": "binary"}, "features 'binary'"),
        ({"columns": 0}, "columns is 0"),
        ({"shards": 0}, "shards is 0"),
        ({"shards": 100_001, "rows": 10**6}, "shards is 100001"),
        ({"rows": 2}, "rows is 2 for 3 shards"),
        ({"nonzeros": 0}, "nonzeros is 0"),
        ({"nonzeros": 5}, "nonzeros is 5; use 1 to 4"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
        ({"noise_scale": -1.0}, "noise_scale is -1"),
        ({"noise_scale": math.nan}, "noise_scale is nan"),
        ({"noise_tail": 0.0, "noise": "student"}, "noise_tail is 0"),
        ({"noise_tail": math.inf, "noise": "pareto"}, "noise_tail is inf"),
        ({"noise_tail": 26.0, "noise": "lognormal"}, "noise_tail is 26.0; a lognormal"),
        ({"noise_tail": 17.0, "noise": "loglogistic"}, "noise_tail is 17.0; a loglogistic"),
        ({"feature_tail": math.nan}, "feature_tail is nan"),
    ],
)
def test_invalid_parameters_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic(**changes)


def test_a_shard_or_row_group_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shard is 3; use 0 to 2"):
        synthetic().table(3)
    with pytest.raises(ValueError, match="row_group is 0"):
        synthetic().write(tmp_path / "none", row_group=0)
    assert not (tmp_path / "none").exists()
