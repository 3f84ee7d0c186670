"""Who is in which block: a run reads by the policy's own division, or is refused before anything is read."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightfit.config import ConfigError, load
from nightfit.ledger import Ledger, LedgerError, Policy, Reservation
from nightfit.nightly import open_ledger, prepare, reserve
from nightfit.privacy.events import GaussianEvent
from nightfit.types import Adjacency

POLICY = Policy(data_set="visits", adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-5, blocks="hash:64", row_id="visit")


def order(**changes):
    event = GaussianEvent(label="gradient 1", sensitivity=2.0**40, sigma=2.0**45, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    stated = {"blocks": ("bucket 1",), "buckets": 64, "row_id": "visit", **changes}
    return Reservation(
        model="m",
        data_set="visits",
        unit="record",
        plan="p",
        events=(event,),
        window=json.dumps(str(changes)),
        manifest="m",
        files=(),
        **stated,
    )


@pytest.fixture
def visits(ledger: Ledger) -> Ledger:
    ledger.set_policy(POLICY)
    return ledger


@pytest.mark.parametrize("buckets", [2, 63, 65, None])
def test_a_run_that_reads_by_another_division_than_the_policy_s_is_refused(visits: Ledger, buckets: int | None) -> None:
    with pytest.raises(LedgerError, match="divides the data set by hash:64"):
        visits.reserve(order(buckets=buckets))
    assert not visits.runs()
    visits.reserve(order())


@pytest.mark.parametrize("row_id", ["visit2", None])
def test_a_run_that_reads_buckets_of_another_column_is_refused(visits: Ledger, row_id: str | None) -> None:
    with pytest.raises(LedgerError, match="two buckets"):
        visits.reserve(order(row_id=row_id))
    assert not visits.runs()


def test_the_column_of_buckets_cannot_change_once_they_were_spent_on(visits: Ledger) -> None:
    visits.reserve(order())
    with pytest.raises(LedgerError, match="means nothing under"):
        visits.set_policy(replace(POLICY, row_id="visit2"), "a reason")


def test_buckets_of_records_need_a_column_and_other_blocks_have_none(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="identifies a record for life"):
        replace(POLICY, row_id=None).check()
    with pytest.raises(ValueError, match="remove it"):
        replace(POLICY, blocks="all").check()
    with pytest.raises(ValueError, match="remove it"):
        replace(POLICY, unit="patient").check()
    replace(POLICY, unit="patient", row_id=None).check()


def test_a_policy_of_an_earlier_format_is_told_its_column_once(visits: Ledger) -> None:
    """Formats before 3 did not record it: nothing is spent until it is stated, with a reason that stays in the chain."""
    old = replace(POLICY, row_id=None)
    assert Policy.from_dict(old.as_dict()) == old
    assert "row_id" not in old.as_dict()
    assert POLICY.loosens(old)
    assert not POLICY.renames_buckets(old)


def settings(folder: Path, **data):
    stated = {
        "name": "m",
        "data": {
            "name": "visits",
            "path": "shards",
            "target": {"column": "y", "bounds": [-1, 1]},
            "columns": {"x": {"kind": "number", "bounds": [-1, 1]}},
            "row_id": "visit",
        }
        | data,
        "privacy": {"epsilon": 0.5, "delta": 1e-6},
        "method": "coordinate",
        "cluster": {"kind": "synchronous"},
    }
    (folder / "refit.yaml").write_text(json.dumps(stated))
    return load(folder / "refit.yaml")


def test_plan_and_refit_refuse_another_division_alike(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "shards").mkdir()
    rows = {"x": rng.normal(size=500), "y": rng.normal(size=500), "visit": np.arange(500), "visit2": rng.permutation(500)}
    pq.write_table(pa.table(rows), tmp_path / "shards" / "a.parquet")
    config = settings(tmp_path, window="rotate 2")
    Ledger.create(config.ledger_url).set_policy(POLICY)
    with pytest.raises(ConfigError, match=r"divides it by hash:64, and data\.blocks is hash:2"):
        prepare(settings(tmp_path, blocks="hash:2", window="rotate 2"))
    job = prepare(config)
    ledger = open_ledger(config)
    with pytest.raises(LedgerError, match="the policy's buckets are of 'visit'"):
        reserve(prepare(settings(tmp_path, row_id="visit2", window="rotate 2")), ledger)
    reserve(job, ledger)
    ledger.engine.dispose()
