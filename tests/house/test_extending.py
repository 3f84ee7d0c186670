"""The gradient estimator of docs/contributing/extending.md, saved into its package as it stands: found, checked, planned and fitted."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import nightfit.methods.loop.gradient_estimators
from nightfit.config import parse
from nightfit.config.specifications import method_of
from nightfit.ledger import Ledger, Policy
from nightfit.nightly.fit import fit, reservation_of
from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.plugins import member, members
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Adjacency

ROOT = Path(__file__).parents[2]
SHAPE = Preprocessing(features=("a", "b"), target="y", centre=(0.0, 0.0), scale=(1.0, 1.0), intercept=True)


@pytest.fixture
def squashed(tmp_path, monkeypatch):
    """The room with one file more."""
    page = (ROOT / "docs" / "contributing" / "extending.md").read_text()
    (source,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Squashed" in block)
    (tmp_path / "squashed.py").write_text(source)
    monkeypatch.setattr(
        nightfit.methods.loop.gradient_estimators, "__path__", [*nightfit.methods.loop.gradient_estimators.__path__, str(tmp_path)]
    )
    importlib.invalidate_caches()
    yield member(nightfit.methods.loop.gradient_estimators, "squashed")
    sys.modules.pop("nightfit.methods.loop.gradient_estimators.squashed", None)


def anew(name):
    """A file of tests, imported anew: its lists of members are those of now."""
    spec = importlib.util.spec_from_file_location(f"again_{name.replace('/', '_')}", ROOT / "tests" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_new_mean_passes_the_contract(squashed):
    contract = anew("methods/test_solvers")
    found = [param.values[0] for param in contract.MEANS if type(param.values[0]) is squashed]
    assert len(found) == 2
    ran = 0
    for kind in (contract.TestEveryMean, contract.TestEveryMeanOfGradients):
        instance = kind()
        for name in [name for name in vars(kind) if name.startswith("test_")]:
            for mean in found:
                getattr(instance, name)(mean)
                ran += 1
    assert ran >= 10
    hostile = anew("queries/test_gradient_sums").test_a_neighbour_moves_the_sum_of_any_loss_by_at_most_the_sensitivity
    for mean in found:
        hostile(mean.query(contract.point_at(np.zeros(3), 10)).bounding, Squared())


def test_a_new_mean_that_claims_less_than_it_adds_does_not_pass(squashed, monkeypatch):
    adversary = anew("queries/test_gradient_sums").test_an_adversary_reaches_the_sensitivity_and_goes_no_further
    bounding = (
        members(nightfit.methods.loop.gradient_estimators)["squashed"][0]
        .query(anew("methods/test_solvers").point_at(np.zeros(3), 10))
        .bounding
    )
    adversary(bounding, 20, 3)
    monkeypatch.setattr(type(bounding), "l2_bound", lambda self, columns, bits: 2.0**bits)
    with pytest.raises(AssertionError):
        adversary(bounding, 20, 3)


def test_the_new_mean_is_accepted_by_a_configuration(squashed, tmp_path):
    content = {
        "name": "m",
        "data": {"path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
        "method": "squashed",
    }
    assert method_of(parse(content, tmp_path)).mean == "squashed"


def fitted(noise, epsilon=1.0, **method):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    y = X @ [1.0, -0.5] + 0.25 + 0.1 * rng.standard_t(3, 3000)
    said = Specification(
        name="m",
        data_set="d",
        preprocessing=SHAPE,
        budget=Budget(epsilon=epsilon, delta=1e-6),
        loss=Squared(),
        penalty=penalty_of({}),
        method=Method(mean="squashed", **method),
    )
    plan, ledger = make(said, len(y)), Ledger.create("sqlite://")
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=8.0, delta=1e-5))
    run = ledger.reserve(reservation_of(plan, window="w", manifest="w", files=()))
    release = fit(plan, ArrayRecords(X, y, SHAPE), run, noise)
    ledger.engine.dispose()
    return plan, release


def in_original_units(release):
    """The slopes and the intercept: stored weights refer to the paid scale of each column."""
    slopes, intercept = release.preprocessing.in_original_units(release.weights)
    return np.r_[slopes, intercept]


def test_the_new_mean_fits(squashed):
    _, exact = fitted(NoNoise(), bound=5.0, steps=60, step_size=1.0, averaged=1)
    np.testing.assert_allclose(in_original_units(exact), [1.0, -0.5, 0.25], atol=0.03)
    plan, private = fitted(OperatingSystemNoise(), epsilon=4.0)
    assert private.private
    assert type(plan.procedure.estimator) is squashed
    # eight deviations of the plan's own bound on the noise of a coefficient: exceeded with probability below 1e-14
    assert np.abs(in_original_units(private) - [1.0, -0.5, 0.25]).max() < 8 * plan.procedure.coefficient_noise() + 0.1


def test_a_plan_says_that_no_theorem_speaks_of_the_new_mean(squashed):
    plan, _ = fitted(NoNoise(), schedule="theory", steps=3)
    assert "no theorem covers the estimator 'squashed'" in plan.explain()
