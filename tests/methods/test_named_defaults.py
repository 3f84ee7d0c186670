"""What a named method chooses by itself: scales, curvature and residuals that are paid for, steps and bounds that suit them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._fits import Memory, unbounded
from benchmarks.methods import METHODS, SETTINGS, error_of, specification

from nightfit.methods.loop.solvers import distance_left, noise_gain
from nightfit.methods.loop.solvers.accelerated_gradient import AcceleratedGradient
from nightfit.methods.loop.solvers.proximal_gradient import ProximalGradient
from nightfit.methods.loop.theory import Moment
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Method, method_named
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.shards.arrays import ArrayRecords

ROWS = 20_000
FEW = 500
SPARSE = next(setting for setting in SETTINGS if setting.name == "sparse")
GRADIENTS = [name for name in METHODS if name != "sample_aggregate"]  # which needs more rows than it is worth


def drawn(seed: int = 1, rows: int = ROWS):
    return SPARSE.draw(np.random.default_rng(seed), rows)


def planned(name: str, rows: int = ROWS, **changed):
    X, _, w = drawn(rows=1000)
    stated = {key: changed.pop(key) for key in ("curvature", "strong_convexity") if key in changed}
    spec = specification(replace(SPARSE, epsilon=4.0), name, replace(method_named(name), **changed), w, X)
    return make(replace(spec, **stated), rows)


@pytest.mark.parametrize("name", GRADIENTS)
def test_every_named_method_is_better_than_zero_by_default_and_without_bounds(name):
    X, y, w = drawn()
    spec = specification(replace(SPARSE, epsilon=4.0), name, method_named(name), w, X)
    assert not spec.preprocessing.bounded
    assert error_of(spec, X, y, w, 1) < 0.6


@pytest.mark.parametrize("name", METHODS)
def test_a_named_method_asks_exactly_its_events_whatever_the_data_are(name):
    plan = planned(name, FEW)
    rng = np.random.default_rng(0)
    for X in (
        np.zeros((FEW, 20)),
        np.full((FEW, 20), math.nan),
        rng.standard_cauchy((FEW, 20)) * 10.0 ** rng.integers(-200, 200, 20),
    ):
        account = Memory({event.label: event for event in plan.events})
        records = ArrayRecords(X, rng.standard_cauchy(FEW), plan.specification.preprocessing)
        outcome = plan.procedure.run(Gate(account=account, records=records, noise=SeededNoise(rng)), lambda _: None)
        assert set(account.stored) == {event.label for event in plan.events}
        assert np.isfinite(outcome.weights).all()


def test_a_stated_curvature_is_not_asked_for_and_serves_as_well():
    asked, told = planned("clipped"), planned("clipped", curvature=1.6)
    assert "moment" in {event.label for event in asked.events}
    assert "moment" not in {event.label for event in told.events}
    assert "the curvature 1.6 is stated" in told.explain()
    X, y, w = drawn()
    assert error_of(told.specification, X, y, w, 1) < 0.3
    with pytest.raises(PlanError, match="at least that of the intercept"):
        planned("clipped", curvature=0.4)
    for free in ("frank_wolfe", "private_lasso"):  # their steps have no size
        assert "moment" not in {event.label for event in planned(free).events}


def test_public_scales_ask_for_nothing():
    spec = planned("clipped").specification
    bounded = replace(spec.preprocessing, reach=())
    plan = make(replace(spec, preprocessing=bounded, method=replace(spec.method, scales="public", bound=1.0)), ROWS)
    assert {event.label.split()[0] for event in plan.events} == {"gradient"}


def test_more_columns_than_auto_takes_have_public_scales():
    wide = replace(unbounded(4_001), reach=())
    plan = make(replace(planned("clipped").specification, preprocessing=wide), ROWS)
    assert {event.label.split()[0] for event in plan.events} == {"gradient"}


def test_a_fit_in_one_query_says_how_many_records_it_would_need():
    """Its noise falls with the root of the records, and no smaller one is promised than what it has without the diameter."""
    loop = planned("sample_aggregate").procedure
    allowed, point = loop.allowances[0], loop.public_point(0)
    (said,) = [line for line in loop.explain() if "residuals per scaled coefficient" in line]
    made = loop.estimator.aggregation(point, allowed.epsilon, allowed.delta)
    noise = made.expected_noise(21, ROWS)
    assert f"about {noise:.2g} residuals" in said
    assert f"about {float(f'{ROWS * (noise / 0.3) ** 2:.1g}'):,.0f} records" in said
    assert made.expected_noise(21, 100 * ROWS) == pytest.approx(noise / 10)
    many = loop.estimator.explain(replace(point, units=10**10), allowed)
    assert not any("residuals per scaled coefficient" in line for line in many)


@pytest.mark.parametrize("kind", [AcceleratedGradient, ProximalGradient])
def test_the_error_of_a_number_of_steps_is_that_of_a_quadratic(kind):
    """Against the mean and the spread of many simulated descents on a w^2 / 2."""
    solver, a, rng = kind(steps=12, step_size=0.8, averaged=3), 0.3, np.random.default_rng(0)
    state = solver.start(4_000)
    state = replace(state, weights=state.weights + 1.0, iterate=state.iterate + 1.0)
    for _ in range(solver.steps):
        state = solver.update(state, a * state.weights + rng.normal(size=4_000), planned("clipped").specification.penalty, 4_000)
    found = solver.result(state)
    assert found.mean() == pytest.approx(distance_left(solver, a), abs=4 * found.std() / math.sqrt(4_000))
    assert found.std() == pytest.approx(noise_gain(solver, a), rel=0.05)


def test_less_noise_is_worth_more_steps():
    steps = [planned("clipped", rows).procedure.solver.steps for rows in (2_000, 20_000, 800_000)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_a_theorem_uses_the_curvature_that_is_stated_or_paid():
    paid, told = planned("soft", schedule="theory"), planned("soft", schedule="theory", curvature=2.0)
    assert (paid.procedure.solver.step_size, "step_size" in paid.procedure.stated) == (1.0, False)
    assert (told.procedure.solver.step_size, "step_size" in told.procedure.stated) == (0.5, True)
    assert planned("clipped", schedule="theory", strong_convexity=0.1).theorem.theorem.endswith("thm 4.8")
    kept = planned("hard_thresholding", schedule="theory").procedure
    assert (kept.estimator.step_size, "step_size" in kept.stated) == (pytest.approx(2 / 3), False)


def test_a_plan_says_in_plain_words_when_a_theorem_is_of_no_use():
    useless = "the theorem's numbers are of no use here"
    noisy = planned("coordinate", 200, schedule="theory", moment=Moment(order=2.0, bound=1e6)).explain()
    assert useless in noisy
    short = planned("clipped", schedule="theory", diameter=1e-3).explain()
    assert useless in short
    assert "so short that they leave" in short
    assert useless not in planned("soft", 800_000, schedule="theory").explain()
    assert useless not in planned("clipped").explain()
    assert isinstance(planned("clipped").specification.method, Method)
