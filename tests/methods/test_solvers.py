"""Every solver and mean, found by walking their rooms."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.numerics.prf import slots_of
from nightfit.plugins import member, members
from nightfit.privacy.accounting import UNIT, Currency, cost
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.l1 import L1
from nightfit.problem.penalties.l2_ball import L2Ball
from nightfit.problem.penalties.none import NoPenalty
from nightfit.types import WHOLE, Adjacency, Answer, Block

SOLVERS = [pytest.param(example, id=f"{name}-{i}") for name, examples in members(solvers).items() for i, example in enumerate(examples)]
DESCENDING = [param for param in SOLVERS if param.values[0].takes is Answer.GRADIENT]
MEANS = [pytest.param(example, id=f"{name}-{i}") for name, examples in members(means).items() for i, example in enumerate(examples)]


def test_the_rooms_are_not_empty():
    assert len(members(solvers)) >= 1
    assert len(members(means)) >= 3


def test_an_unknown_member_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'clipped'"):
        member(means, "cliped")


def descend(solver, gradient, penalty=None, columns=3, features=3):
    state = solver.start(columns)
    for _ in range(solver.steps):
        state = solver.update(state, gradient(state.weights), penalty or NoPenalty(), features)
    return state, solver.result(state)


@pytest.mark.parametrize("solver", SOLVERS)
class TestEverySolver:
    def test_starts_without_looking_at_data(self, solver):
        assert np.array_equal(solver.start(4).weights, solver.start(4).weights)

    def test_does_not_modify_a_state(self, solver):
        state = solver.start(3)
        before = state.weights.copy()
        solver.update(state, np.ones(3), NoPenalty(), 3)
        assert np.array_equal(state.weights, before)

    def test_is_frozen_and_pickles(self, solver):
        assert pickle.loads(pickle.dumps(solver)) == solver
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            solver.steps = 3


@pytest.mark.parametrize("solver", DESCENDING)
class TestEverySolverThatTakesGradients:
    def test_comes_closer_to_the_minimum_of_a_quadratic(self, solver):
        optimum = np.array([1.0, -2.0, 0.5])
        _, result = descend(solver, lambda w: w - optimum)
        assert np.linalg.norm(result - optimum) < 0.5 * np.linalg.norm(optimum)

    def test_stays_inside_a_constraint(self, solver):
        _, result = descend(solver, lambda w: w - 10.0, L2Ball(radius=1.0))
        assert np.linalg.norm(result) <= 1 + 1e-9

    def test_does_not_penalise_the_intercept(self, solver):
        _, result = descend(solver, lambda w: w - np.array([0.1, 0.1, 1.0]), L1(weight=5.0), features=2)
        assert np.array_equal(result[:2], [0, 0])
        assert result[2] > 0.5


def test_the_result_is_the_mean_of_the_last_iterates():
    solver = member(solvers, "proximal_gradient")(steps=4, step_size=1.0, averaged=2)
    visited = []
    state = solver.start(1)
    for gradient in (1.0, 2.0, 4.0, 8.0):
        state = solver.update(state, np.array([gradient]), NoPenalty(), 1)
        visited.append(state.weights[0])
    assert solver.result(state)[0] == np.mean(visited[-2:])


def test_acceleration_reaches_a_direction_of_small_curvature_sooner():
    curvature, optimum = np.array([1.0, 0.02]), np.array([1.0, 1.0])
    errors = {}
    for name in ("proximal_gradient", "accelerated_gradient"):
        solver = member(solvers, name)(steps=50, step_size=1.0, averaged=1)
        _, result = descend(solver, lambda w: curvature * (w - optimum), columns=2, features=2)
        errors[name] = abs(result[1] - optimum[1])
    assert errors["accelerated_gradient"] < 0.3 * errors["proximal_gradient"]


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"step_size": 0.0}, {"step_size": float("nan")}, {"averaged": 0}, {"averaged": 11}])
def test_a_senseless_solver_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        member(solvers, "proximal_gradient")(**{"steps": 10, "step_size": 0.1, "averaged": 1, **wrong})


class Paid:
    """An account whose every question is paid for, and the records in memory."""

    key = b"0123456789abcdef"

    def __init__(self, X, y, events):
        self.block = Block(np.ascontiguousarray(X), y, slots_of("test", 0, len(y)))
        self.events = {event.label: event for event in events}
        self.put = []

    def asked(self, event):
        self.put.append(event.label)

    def answered(self, event, answer):
        pass

    def aggregate(self, query):
        return query.chunk(self.block)


ALLOWED = Allowance(multiplier=2.0, epsilon=1.0, delta=1e-6)


def point_at(weights, units, bits=36, key=bytes(16), previous=None, adjacency=Adjacency.REPLACE_ONE):
    return Point(
        loss=Squared(),
        weights=np.asarray(weights),
        previous=np.zeros(len(weights)) if previous is None else previous,
        units=units,
        bits=bits,
        adjacency=adjacency,
        draw=WHOLE,
        key=key,
    )


def estimated(mean, X, y):
    """What the mean would be told if privacy cost nothing, and the account that it asked."""
    point = point_at(np.zeros(X.shape[1]), len(y), key=Paid.key)
    account = Paid(X, y, mean.events(point, "q", ALLOWED))
    return mean.estimate(Gate(account=account, records=account, noise=NoNoise()), point, "q"), account


@pytest.mark.parametrize("mean", MEANS)
class TestEveryMean:
    def test_asks_what_it_announced_and_nothing_else(self, mean):
        rng = np.random.default_rng(0)
        _, account = estimated(mean, rng.uniform(-1, 1, (500, 4)), rng.normal(0, 0.01 * mean.bound, 500))
        assert account.put == list(account.events)

    def test_costs_no_more_than_it_may(self, mean):
        events = mean.events(point_at(np.zeros(4), 1000), "q", ALLOWED)
        assert all(event.adjacency is Adjacency.REPLACE_ONE for event in events)
        if all(event.mechanism == "smooth_gaussian" for event in events):
            assert cost(events, Currency.ZCDP).mass * UNIT <= ALLOWED.delta
            assert all(event.epsilon <= ALLOWED.epsilon for event in events)
        else:
            moves = 1.5 if mean.name == "range_ball" else 1.0  # leaving one half and joining the other: the plan's share allows for it
            assert float(cost(events, Currency.ZCDP).amount * UNIT) <= moves * ALLOWED.rho * (1 + 1e-9)

    @settings(max_examples=20, deadline=None)
    @given(weights=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), bits=st.integers(8, 40))
    def test_asks_the_same_at_any_weights_and_after_any_answer(self, mean, weights, bits):
        events = mean.events(point_at(np.array(weights), 100, bits, b"fedcba9876543210", np.array(weights)), "q", ALLOWED)
        assert events == mean.events(point_at(np.zeros(3), 100, bits), "q", ALLOWED)

    def test_refuses_a_bound_that_is_none(self, mean):
        for bound in (0.0, -1.0, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="positive finite"):
                dataclasses.replace(mean, bound=bound)


@pytest.mark.parametrize("mean", [param for param in MEANS if param.values[0].answer is Answer.GRADIENT])
class TestEveryMeanOfGradients:
    def test_of_small_gradients_is_their_mean(self, mean):
        rng = np.random.default_rng(0)
        X, y = rng.uniform(-1, 1, (20_000, 4)), rng.normal(0, 0.01 * mean.bound, 20_000)
        found, _ = estimated(mean, X, y)
        np.testing.assert_allclose(found, -(X * y[:, None]).mean(axis=0), atol=3e-4 * mean.bound)

    def test_is_not_moved_far_by_one_huge_record(self, mean):
        rng = np.random.default_rng(0)
        X, y = rng.uniform(-1, 1, (200, 4)), rng.normal(0, 0.01, 200)
        before, _ = estimated(mean, X, y)
        after, _ = estimated(mean, X, np.where(np.arange(200) == 7, 1e300, y))
        assert np.linalg.norm(after - before) <= 2 * mean.bound
