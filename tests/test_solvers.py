"""Every solver and mean, found by walking their rooms."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import means, solvers
from pipeline.discovery import member, members
from pipeline.keyed import slots_of
from pipeline.losses.squared import Squared
from pipeline.means import estimate
from pipeline.penalties.l1 import L1
from pipeline.penalties.l2_ball import L2Ball
from pipeline.penalties.none import NoPenalty
from pipeline.types import Adjacency, Block

SOLVERS = [pytest.param(example, id=f"{name}-{i}") for name, examples in members(solvers).items() for i, example in enumerate(examples)]
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

    def test_does_not_modify_a_state(self, solver):
        state = solver.start(3)
        before = state.weights.copy()
        solver.update(state, np.ones(3), NoPenalty(), 3)
        assert np.array_equal(state.weights, before)

    def test_is_frozen_and_pickles(self, solver):
        assert pickle.loads(pickle.dumps(solver)) == solver
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            solver.steps = 3


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


class Exact:
    """A gate that answers without noise: what a mean would be told if privacy cost nothing."""

    def __init__(self, X, y):
        self.block = Block(X, y, slots_of("test", 0, len(y)))
        self.account = self
        self.key = b"0123456789abcdef"

    def ask(self, label, query):
        return query.finish(query.chunk(self.block)) * query.grid


@pytest.mark.parametrize("mean", MEANS)
class TestEveryMean:
    def test_of_small_gradients_is_their_mean(self, mean):
        rng = np.random.default_rng(0)
        X, y = rng.uniform(-1, 1, (20_000, 4)), rng.normal(0, 0.01 * mean.bound, 20_000)
        found = estimate(mean, Exact(X, y), "q", Squared(), np.zeros(4), 20_000, 36)
        np.testing.assert_allclose(found, -(X * y[:, None]).mean(axis=0), atol=3e-4 * mean.bound)

    def test_is_not_moved_far_by_one_huge_record(self, mean):
        rng = np.random.default_rng(0)
        X, y = rng.uniform(-1, 1, (200, 4)), rng.normal(0, 0.01, 200)
        before = estimate(mean, Exact(X, y), "q", Squared(), np.zeros(4), 200, 36)
        after = estimate(mean, Exact(X, np.where(np.arange(200) == 7, 1e300, y)), "q", Squared(), np.zeros(4), 200, 36)
        query = mean.query(Squared(), np.zeros(4), 36, bytes(16))
        assert np.linalg.norm(after - before) <= query.sensitivity(Adjacency.REPLACE_ONE) * query.grid / query.divisor(200) * (1 + 1e-12)

    @settings(max_examples=20, deadline=None)
    @given(weights=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), bits=st.integers(8, 40))
    def test_has_a_sensitivity_that_does_not_depend_on_the_weights(self, mean, weights, bits):
        at = mean.query(Squared(), np.array(weights), bits, bytes(16)).sensitivity(Adjacency.REPLACE_ONE)
        assert at == mean.query(Squared(), np.zeros(3), bits, b"fedcba9876543210").sensitivity(Adjacency.REPLACE_ONE)

    def test_refuses_a_bound_that_is_none(self, mean):
        for bound in (0.0, -1.0, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="positive finite"):
                type(mean)(bound=bound)
