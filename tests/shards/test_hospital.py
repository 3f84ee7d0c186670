"""The simulated hospital: what it promises about patients, days and missing values."""

from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.shards.hospital import CHAPTERS, CLASSES, SCHEMA, Hospital
from nightfit.shards.manifest import hive_blocks, scan

SMALL = Hospital(rows=4000, days=5, seed=3)


def whole(hospital: Hospital) -> pa.Table:
    return pa.concat_tables([table for _, table in hospital.tables()])


def test_days_are_hive_folders_of_one_schema(tmp_path: Path) -> None:
    paths = SMALL.write(tmp_path / "export")
    assert [path.parent.name for path in paths] == [f"day=2026-01-0{day}" for day in range(1, 6)]
    assert hive_blocks(str(tmp_path / "export"), "day") == tuple(path.parent.name for path in paths)
    assert scan(str(tmp_path / "export")).rows == 4000
    assert pq.read_schema(paths[0]).names == SCHEMA.names


def test_the_same_seed_makes_the_same_rows_and_another_does_not() -> None:
    assert whole(SMALL).equals(whole(Hospital(rows=4000, days=5, seed=3)))
    assert not whole(SMALL).equals(whole(Hospital(rows=4000, days=5, seed=4)))


def test_patients_return_and_keep_what_they_are() -> None:
    table = whole(SMALL)
    visits = Counter(table["patient_id"].to_pylist())
    assert max(visits.values()) >= 5
    assert sum(count > 1 for count in visits.values()) > 0.4 * len(visits)
    sexes: dict[str, set[str]] = {}
    for patient, sex in zip(table["patient_id"].to_pylist(), table["sex"].to_pylist(), strict=True):
        sexes.setdefault(patient, set()).add(sex)
    assert all(len(found) == 1 for found in sexes.values())
    assert table["visit_id"].to_pylist() == list(range(4000))


def test_values_are_missing_by_their_mechanisms() -> None:
    table = whole(Hospital(rows=40_000, days=4, seed=1)).to_pandas()
    assert table["bmi"].isna().mean() == pytest.approx(0.10, abs=0.01)
    assert table["age"].isna().mean() == pytest.approx(0.02, abs=0.005)
    by_way = table["creatinine"].isna().groupby(table["emergency"]).mean()
    assert by_way[False] > by_way[True] + 0.1


def test_outcomes_have_the_domains_that_they_say() -> None:
    table = whole(Hospital(rows=40_000, days=4, seed=1))
    assert set(table["outcome"].to_pylist()) == set(CLASSES)
    assert set(table["diagnosis"].to_pylist()) == set(CHAPTERS)
    assert min(table["visits_next_year"].to_pylist()) == 0
    stay = np.array(table["stay_days"])
    assert stay.min() > 0
    assert stay.mean() > 2 * np.median(stay)  # heavy-tailed
    assert 0.1 < np.mean(table["readmitted"].to_pylist()) < 0.35


def test_readmissions_drift_where_asked() -> None:
    still, drifting = (Hospital(rows=20_000, days=2, seed=2, drift=drift) for drift in (0.0, 1.5))
    rates = [[np.mean(table["readmitted"].to_pylist()) for _, table in hospital.tables()] for hospital in (still, drifting)]
    assert rates[0][0] == rates[1][0]
    assert rates[1][1] > rates[0][1] + 0.1


def test_shares_of_chapters_add_to_one() -> None:
    assert sum(share for share, _, _ in CHAPTERS.values()) == pytest.approx(1.0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one admission"):
        Hospital(rows=3, days=30)
    assert Hospital(rows=100, days=2, start=date(2025, 2, 28)).start.month == 2
