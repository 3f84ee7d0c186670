"""A refit that starts at last night's release: what it may start from, that it is frozen in the plan, and that it helps."""

import json
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml
from benchmarks.drift import nights

from nightfit.config import ConfigError, load
from nightfit.ledger import Ledger, LedgerError
from nightfit.methods.warm_start import Previous
from nightfit.nightly import open_ledger, prepare, prepare_search, publish, reserve, run_fit
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing

CONTENT: dict[str, Any] = {
    "name": "m",
    "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}, "window": "first"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 30.0, "delta": 1e-5}},
    "model": {"start": "previous"},
    "cluster": {"kind": "synchronous"},
}


@pytest.fixture
def night(tmp_path, table, write):
    """A configuration for a window."""
    write("shards", table, [300, 400])

    def said(window, **changes):
        content = {**CONTENT, "data": {**CONTENT["data"], "window": window}, **changes}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return load(tmp_path / "refit.yaml")

    Ledger.create(said("first").ledger_url)
    return said


def refit(config, **options):
    job, ledger = prepare(config, **options), open_ledger(config)
    return publish(job, ledger, run_fit(job, ledger, reserve(job, ledger, again=options.get("again", False))))


def start_of(config, **options):
    return prepare(config, **options).plan.as_dict()["start"]["run"]


@pytest.mark.parametrize("method", ["auto", {"solver": "proximal_gradient", "steps": 3}])
def test_the_first_night_starts_at_zero_and_the_second_where_it_ended(night, method):
    first = refit(night("first", method=method))
    assert first.release.content["plan"]["start"] == {"run": None, "model": None}
    job = prepare(night("second", method=method))
    assert job.plan.specification.start.run == first.release.run_id
    assert f"run {first.release.run_id} released" in job.explain()
    second = refit(night("second", method=method))
    began, _ = second.release.preprocessing.in_original_units(np.array(second.release.content["path"][0]))  # the intercept may have moved
    np.testing.assert_allclose(began, list(first.release.content["coef"].values()), atol=1e-9)
    assert start_of(night("third", method=method)) == second.release.run_id


def test_a_run_that_has_begun_keeps_its_start_and_costs_nothing_more(night, tmp_path):
    first = refit(night("first"))
    config = night("second")
    job, ledger = prepare(config), open_ledger(config)
    begun = reserve(job, ledger)
    begun.asked(next(iter(begun.events.values())))  # what asked nothing is given back, and starts anew
    third = refit(night("third"))
    assert start_of(night("fourth")) == third.release.run_id
    assert start_of(config) == first.release.run_id  # not the newest: it has begun from this one
    second = refit(config)
    assert second.release.run_id == begun.run_id
    spent = ledger.spent("d")
    assert refit(config).release.content == second.release.content
    assert refit(night("first")).release.content == first.release.content
    assert ledger.spent("d") == spent
    assert start_of(night("third"), resume=third.release.run_id) == first.release.run_id
    shutil.rmtree(tmp_path / "releases" / first.release.run_id)
    with pytest.raises(LedgerError, match="not in releases any more"):
        prepare(config)


def reversed_(stored):
    return dict(reversed(stored.items()))


def test_a_refit_starts_only_from_a_release_that_its_ledger_paid_for(night, tmp_path):
    path = refit(night("first")).release_path
    whole = json.loads(path.read_text())
    assert start_of(night("second")) == whole["run"]
    spoilt = {
        "private": {"private": False},
        "receipt": {"receipt": None},
        "ledger": {"receipt": {**whole["receipt"], "ledger_id": "another"}},
        "entry": {"receipt": {**whole["receipt"], "digest": "0" * 64}},
        "model": {"model": "another"},
        "data set": {"plan": {**whole["plan"], "data_set": "another"}},
        "loss": {"plan": {**whole["plan"], "loss": {"kind": "huber"}}},
        "features": {
            "preprocessing": whole["preprocessing"] | {part: reversed_(whole["preprocessing"][part]) for part in ("columns", "encoding")}
        },
    }
    for what, change in spoilt.items():
        path.write_text(json.dumps({**whole, **change}))
        job = prepare(night("second"))
        assert job.plan.as_dict()["start"]["run"] is None, what
        assert "at zero, because" in job.explain()


def test_the_start_is_part_of_the_plan():
    shape = Preprocessing(features=("a", "b"), target="y", centre=(1.0, 0.0), scale=(2.0, 1.0), intercept=True)
    budget = Budget(epsilon=1.0, delta=1e-6)
    said = Specification(name="m", data_set="d", preprocessing=shape, budget=budget, loss=Squared(), penalty=penalty_of({}))
    starts = [None, Previous(), Previous(run="r", coef=(1.0, 2.0)), Previous(run="r", coef=(1.0, 3.0)), Previous(run="s", coef=(1.0, 2.0))]
    plans = [make(replace(said, start=start, method=Method(solver="auto")), 1000) for start in starts]
    assert len({plan.digest() for plan in plans}) == len(starts)
    assert len({plan.events for plan in plans}) == 1
    coef, intercept = shape.in_original_units(Previous(run="r", coef=(1.0, 2.0), intercept=3.0).scaled(shape))
    assert (*coef, intercept) == (1.0, 2.0, 3.0)
    with pytest.raises(PlanError, match="methods that follow gradients"):
        make(replace(said, start=Previous(), method=Method(mean="sample_aggregate", bound=1.0)), 100_000)


def test_a_mean_has_no_start(night):
    data = {"name": "d", "path": "shards", "default": {"kind": "number", "bounds": [-4, 4]}}
    with pytest.raises(ConfigError, match="start"):
        night("x", model={"kind": "mean", "start": "previous"}, data=data)


def test_a_search_starts_at_zero_or_is_refused(night):
    grid = {"model.penalty": [{"l2": 0.1}, {"l2": 1.0}]}
    config = night("x", search={"epsilon": 4.0, "bound": 10.0, "grid": grid})
    assert prepare(config).plan.specification.start == Previous()
    with pytest.raises(ConfigError, match="starts at zero"):
        prepare_search(config)


def test_the_previous_model_helps_while_data_drift_slowly_and_hurts_little_when_they_jump():
    """3,000 rows, 10 columns, epsilon 1, two seeds, fixed: errors of the nights after the first were 0.6 of those from zero."""
    error = {
        (kind, warm): np.array([nights(kind, Squared(), 1.0, seed, warm=warm, rows=3_000) for seed in range(2)])
        for kind in ("slow drift", "jump")
        for warm in (True, False)
    }
    assert error["slow drift", True][:, 1:].mean() < 0.85 * error["slow drift", False][:, 1:].mean()
    assert error["jump", True][:, 4].mean() < 1.3 * error["jump", False][:, 4].mean()
