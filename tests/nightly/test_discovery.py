"""Discovered levels from raw shards through the ledger to a refit that uses them, and patients who withdraw."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nightfit.config import Config, ConfigError, load
from nightfit.ledger import Ledger, LedgerError
from nightfit.nightly import discover, open_ledger, prepare, prepare_discovery, publish, reserve, run_fit
from nightfit.nightly.told_levels import resolved
from nightfit.numerics.prf import Buckets
from nightfit.planning.plan import PlanError
from nightfit.queries.level_counts import LevelCounts
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release
from nightfit.shards.hospital import Hospital
from nightfit.shards.levels import RawLevels
from nightfit.shards.manifest import DataError, scan

QUERY = LevelCounts(column="ward", per_unit=2, most=9, bits=20)
SHAPE = Preprocessing(features=("x",), target=None, centre=(0.0,), scale=(1.0,), intercept=False, unit="who")


def write(folder: Path, *days: dict[str, Any]) -> Any:
    for number, columns in enumerate(days):
        place = folder / f"day={number}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), place / "part-0.parquet")
    return scan(str(folder))


def counts(manifest: Any, shape: Preprocessing = SHAPE, query: LevelCounts = QUERY) -> dict[str, int]:
    return dict(RawLevels(manifest, shape).count(query))


def test_a_person_counts_in_few_levels_wherever_the_rows_lie(tmp_path: Path) -> None:
    many = [f"w{number}" for number in range(9)]
    columns = {"who": ["p", *["q"] * 9, None], "ward": ["w0", *many, "w0"], "x": [0.0] * 11}
    together = write(tmp_path / "together", columns)
    table = pa.table(columns)
    apart = write(
        tmp_path / "apart", *({name: table[name].take([row, row]) for name in columns} for row in (10, 3, 5, 0, 1, 2, 4, 9, 8, 7, 6))
    )
    found = counts(together)
    assert found == counts(apart)
    assert sum(found.values()) == 1 + QUERY.per_unit
    alone = counts(write(tmp_path / "alone", {"who": ["q"] * 9, "ward": many, "x": [0.0] * 9}))
    assert {level: found.get(level, 0) - alone.get(level, 0) for level in many if found.get(level, 0) != alone.get(level, 0)} == {"w0": 1}


def test_records_count_one_by_one_and_only_those_of_the_chosen_buckets(tmp_path: Path) -> None:
    manifest = write(tmp_path / "shards", {"id": list(range(200)), "ward": ["a", "b"] * 100, "x": [0.0] * 200})
    record = replace(SHAPE, unit=None, row_id="id")
    query = replace(QUERY, per_unit=1)
    assert counts(manifest, record, query) == {"a": 100, "b": 100}
    halves = [counts(manifest, replace(record, buckets=Buckets(count=2, chosen=(one,), key=bytes(16))), query) for one in (0, 1)]
    assert {level: sum(half.get(level, 0) for half in halves) for level in ("a", "b")} == {"a": 100, "b": 100}
    assert 30 < halves[0]["a"] < 70


def test_what_cannot_be_a_level_counts_nowhere_and_stops_nothing(tmp_path: Path) -> None:
    raw = pa.array([b"a", b"\xff\xfe", b"", b"other", b"x" * 201, None, "é".encode()], pa.binary())
    texts = pa.StringArray.from_buffers(len(raw), raw.buffers()[1], raw.buffers()[2], raw.buffers()[0])
    manifest = write(tmp_path / "shards", {"who": [f"p{n}" for n in range(7)], "ward": texts, "x": [0.0] * 7})
    assert counts(manifest) == {"a": 1, "é": 1}
    coded = write(tmp_path / "coded", {"who": ["p", "q"], "ward": pa.array([3, 3]).dictionary_encode(), "x": [0.0, 0.0]})
    assert counts(coded) == {"3": 2}
    floats = write(tmp_path / "floats", {"who": ["p", "q", "r", "s"], "ward": [3.0, 3.0, None, float("inf")], "x": [0.0] * 4})
    assert counts(floats) == {"3": 2}


def test_files_that_changed_since_the_plan_are_not_read(tmp_path: Path) -> None:
    manifest = write(tmp_path / "shards", {"who": ["p"], "ward": ["a"], "x": [0.0]})
    write(tmp_path / "shards", {"who": ["p", "q"], "ward": ["a", "a"], "x": [0.0, 1.0]})
    with pytest.raises(DataError, match="rewritten"):
        counts(manifest)


CONTENT: dict[str, Any] = {
    "name": "stay",
    "data": {
        "name": "hospital",
        "path": "hospital",
        "target": {"column": "readmitted", "bounds": [0, 1]},
        "columns": {
            "emergency": {"kind": "boolean"},
            "ward": {"kind": "category", "levels": "discover", "at_most": 9},
        },
        "unit": "patient_id",
        "units": 1000,
    },
    "privacy": {"epsilon": 2.0, "delta": 1e-6, "discover": {"epsilon": 4.0}, "lifetime": {"epsilon": 14.0, "delta": 1e-5}},
    "method": {"solver": "proximal_gradient", "steps": 2},
    "cluster": {"kind": "synchronous"},
}


@pytest.fixture
def hospital(tmp_path: Path) -> Path:
    Hospital(rows=4000, days=2, seed=5).write(tmp_path / "hospital")
    Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}").engine.dispose()
    return tmp_path


def configured(place: Path, **changes: Any) -> Config:
    content = {**CONTENT, **{name: {**CONTENT.get(name, {}), **fields} for name, fields in changes.items()}}
    (place / "refit.yaml").write_text(yaml.safe_dump(content))
    return load(place / "refit.yaml")


def refit(config: Config, *, again: bool = False) -> Release:
    job, ledger = prepare(config, again=again), open_ledger(config)
    made = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger, again=again))).release
    ledger.engine.dispose()
    return made


def spent(config: Config) -> float:
    ledger = Ledger.open(config.ledger_url)
    try:
        return float(sum(cost.amount for cost in ledger.spent_by_block(config.data_set, ["all"]).values()))
    finally:
        ledger.engine.dispose()


def test_levels_are_paid_for_once_and_free_for_every_later_refit(hospital: Path) -> None:
    config = configured(hospital)
    with pytest.raises(ConfigError, match=r"data\.columns\.ward.*nightfit discover"):
        prepare(config)
    job = prepare_discovery(config)
    assert job.plan.epsilon <= 4.0
    found, path = discover(job)
    assert path == hospital / "releases" / found.run_id / "levels.json"
    assert 1 <= len(found.levels["ward"]) <= 9
    assert list(found.levels["ward"]) == sorted(found.levels["ward"])
    paid = spent(config)
    assert discover(prepare_discovery(config))[0] == found
    assert spent(config) == paid
    release = refit(config)
    alone = json.loads(json.dumps(release.content["cost"]))["amount"]
    assert spent(config) == pytest.approx(paid + int(alone), rel=1e-12)
    assert release.preprocessing.encoded.described["ward"].levels == found.levels["ward"]  # type: ignore[attr-defined]
    assert "ward=other" in release.content["coef"]


def test_an_edited_or_foreign_discovery_is_not_used(hospital: Path) -> None:
    config = configured(hospital)
    found, path = discover(prepare_discovery(config))
    ledger = Ledger.open(config.ledger_url)
    assert not resolved(config, ledger).data.to_discover
    assert resolved(config.model_copy(update={"data": config.data.model_copy(update={"name": "other"})}), ledger).data.to_discover
    path.write_text(json.dumps({**found.content, "levels": {"ward": ["W00", "Jane"]}}))
    assert resolved(config, ledger).data.to_discover
    path.write_text(json.dumps({**found.content, "private": False}))
    assert resolved(config, ledger).data.to_discover
    ledger.engine.dispose()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy": {"discover": None}}, "privacy.discover is missing"),
        ({"privacy": {"discover": {"epsilon": 0.05}}}, "a level would be told only if"),
        ({"data": {"columns": {"emergency": {"kind": "boolean"}}}}, "nothing to discover"),
    ],
)
def test_a_discovery_that_cannot_be_is_refused_with_the_cure(hospital: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, PlanError), match=message):
        prepare_discovery(configured(hospital, **changes))


def test_a_ledger_that_did_not_pay_for_the_levels_is_refused(hospital: Path) -> None:
    config = configured(hospital)
    discover(prepare_discovery(config))
    (hospital / "ledger.db").unlink()
    Ledger.create(config.ledger_url).engine.dispose()
    with pytest.raises(LedgerError, match=r"levels\.json was paid in another ledger"):
        open_ledger(config)


def test_a_patient_who_withdraws_is_gone_the_next_night_and_what_was_spent_stays(hospital: Path) -> None:
    """See docs/guides/withdrawal.md."""
    columns = {"emergency": {"kind": "boolean"}, "sex": {"kind": "category", "levels": ["F", "M", "X"]}}
    config = configured(hospital, data={"columns": columns})
    first, before = refit(config), spent(config)
    kept = (hospital / "releases" / first.run_id / "release.json").read_bytes()
    files = sorted((hospital / "hospital").glob("**/*.parquet"))
    tables = {path: pq.read_table(path, partitioning=None) for path in files}
    gone = max(set(whole := [one for table in tables.values() for one in table["patient_id"].to_pylist()]), key=whole.count)
    for path, table in tables.items():
        keep = np.array([one != gone for one in table["patient_id"].to_pylist()])
        if not keep.all():
            pq.write_table(table.filter(pa.array(keep)), path)
    second = refit(config)
    assert second.run_id != first.run_id
    assert spent(config) == pytest.approx(2 * before, rel=1e-9)
    ledger = Ledger.open(config.ledger_url)
    assert all(ledger.check_release(release.claim).trusted for release in (first, second))
    assert (hospital / "releases" / first.run_id / "release.json").read_bytes() == kept
    ledger.engine.dispose()
