"""Stating a true public fact never hurts by more than noise: bounds are clamps, and indicators have a scale that is public."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from benchmarks._fits import fitted, unbounded
from benchmarks._generated import Family, families
from sklearn.metrics import r2_score, roc_auc_score

from nightfit.config import load
from nightfit.nightly import prepare
from nightfit.records.targets import Target

WITHOUT = {"gaussian", "ill_conditioned", "near_collinear", "far_from_zero", "few_matter", "gaussian_labels", "wild_noise"}
WITH_INDICATORS = [family for family in families() if family.draw.__name__ not in WITHOUT]
QUICK = next(family for family in WITH_INDICATORS if family.draw.__name__ == "rare")


def score(family: Family, seed: int, epsilon: float, rows: int, *, stated: bool) -> float:
    """R2 or the area under the curve on other records, where indicators are stated as such or nothing is known of any column."""
    X, y = family.draw(np.random.default_rng(seed), rows + 10_000)
    target, indicators = family.loss.target, np.isin(X, (0.0, 1.0)).all(axis=0)
    shape = unbounded(X.shape[1], target=target)
    shape = replace(shape, reach=tuple(1.0 if one else math.inf for one in indicators)) if stated else shape
    told = fitted(X[:rows], y[:rows], family.loss, epsilon, seed, preprocessing=shape).predict(X[rows:])
    return float((roc_auc_score if target is Target.LABELS else r2_score)(y[rows:], told))


def gains(family: Family, epsilon: float, rows: int, seeds: int) -> Any:
    told = [[score(family, seed, epsilon, rows, stated=stated) for stated in (False, True)] for seed in range(seeds)]
    return np.diff(np.array(told), axis=1).ravel()


@pytest.mark.statistical
def test_stating_that_columns_are_indicators_does_not_hurt() -> None:
    """Their scale is public then, and is not paid for. The margin is twice the noise of a mean of four differences."""
    assert gains(QUICK, 0.5, 3000, 4).mean() > -0.03


@pytest.mark.sweep
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
@pytest.mark.parametrize("family", WITH_INDICATORS, ids=lambda family: family.name)
def test_stating_that_columns_are_indicators_does_not_hurt_in_any_family(family: Family, epsilon: float) -> None:
    found = gains(family, epsilon, 4500, 6)
    assert found.mean() > -0.01 - 3 * found.std(ddof=1) / math.sqrt(len(found))


@pytest.mark.unit
def test_bounds_set_neither_centre_nor_scale_nor_reach(tmp_path: Path) -> None:
    """Whatever true bounds are stated, tight or generous, the plan reads the same rows and asks the same queries."""
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(20, 90, 500), "flag": rng.integers(0, 2, 500).astype(float), "y": rng.normal(size=500)}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    plans = []
    for bounds in ({}, {"age": [20, 90], "flag": [0, 1]}, {"age": [0, 1e6], "flag": [-10, 10]}):
        described = {name: {"kind": "number", **({"bounds": bounds[name]} if name in bounds else {})} for name in ("age", "flag")}
        content = {
            "name": "m",
            "data": {"path": str(tmp_path / "rows.parquet"), "name": "d", "target": "y", "columns": described},
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        }
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        plans.append(prepare(load(tmp_path / "refit.yaml")).plan)
    shapes = [plan.specification.preprocessing for plan in plans]
    raw = {"age": table["age"], "flag": table["flag"]}
    for plan, shape in zip(plans, shapes, strict=True):
        assert plan.events == plans[0].events
        assert (shape.centre, shape.scale, shape.reach) == (shapes[0].centre, shapes[0].scale, shapes[0].reach)
        np.testing.assert_array_equal(shape.encoded.encode(raw, 500), shapes[0].encoded.encode(raw, 500))
