"""Our penalties: their formulas and parameters. What holds of every penalty is in nightfit.contracts."""

import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

import nightfit.problem.penalties
from nightfit.planning.specification import penalty_of
from nightfit.plugins import member, members

FOUND = members(nightfit.problem.penalties)


def test_the_nine_penalties_are_found() -> None:
    assert set(FOUND) >= {"none", "l1", "l2", "elastic_net", "l1_ball", "l2_ball", "box", "group_lasso", "sparsity"}
    assert all(FOUND.values())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("l1", {"weight": -1e-9}),
        ("l2", {"weight": -1e-9}),
        ("elastic_net", {"l1": -1e-9, "l2": 1.0}),
        ("elastic_net", {"l1": 1.0, "l2": -1e-9}),
        ("l1_ball", {"radius": 0.0}),
        ("l1_ball", {"radius": -1.0}),
        ("l2_ball", {"radius": 0.0}),
        ("l2_ball", {"radius": -1.0}),
        ("box", {"low": 1.0, "high": 0.5}),
        ("group_lasso", {"weight": -1e-9, "groups": [0]}),
        ("sparsity", {"nonzeros": 0}),
        ("sparsity", {"nonzeros": 2.0}),
        ("sparsity", {"nonzeros": True}),
    ],
)
def test_a_negative_weight_an_empty_ball_and_an_empty_box_are_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: .*must be"):
        member(nightfit.problem.penalties, name)(**parameters)


@pytest.mark.parametrize(
    ("name", "parameters", "w", "expected"),
    [
        ("none", {}, [1.0, -2.0], 0.0),
        ("l1", {"weight": 0.5}, [1.0, -2.0], 1.5),
        ("l2", {"weight": 0.5}, [1.0, -2.0], 1.25),
        ("elastic_net", {"l1": 0.5, "l2": 0.5}, [1.0, -2.0], 2.75),
        ("l1_ball", {"radius": 3.0}, [1.0, -2.0], 0.0),
        ("l1_ball", {"radius": 2.99}, [1.0, -2.0], math.inf),
        ("l2_ball", {"radius": 5.0}, [3.0, -4.0], 0.0),
        ("l2_ball", {"radius": 4.99}, [3.0, -4.0], math.inf),
        ("box", {"low": -2.0, "high": 1.0}, [1.0, -2.0], 0.0),
        ("box", {"low": -1.99, "high": 1.0}, [1.0, -2.0], math.inf),
        ("box", {"low": -2.0, "high": 0.99}, [1.0, -2.0], math.inf),
        ("group_lasso", {"weight": 0.5, "groups": [0, 1, 0]}, [3.0, -2.0, 4.0], 3.5),
        ("sparsity", {"nonzeros": 2}, [1.0, 0.0, -2.0], 0.0),
        ("sparsity", {"nonzeros": 1}, [1.0, 0.0, -2.0], math.inf),
    ],
)
def test_a_penalty_has_the_value_its_formula_says(name: str, parameters: dict[str, Any], w: list[float], expected: float) -> None:
    assert member(nightfit.problem.penalties, name)(**parameters).value(np.array(w)) == expected


def test_the_l2_weight_is_the_strong_convexity_and_nothing_else_has_any() -> None:
    assert member(nightfit.problem.penalties, "l2")(weight=3.0).strong_convexity == 3.0
    assert member(nightfit.problem.penalties, "elastic_net")(l1=1.0, l2=3.0).strong_convexity == 3.0
    for name in ("none", "l1", "l1_ball", "l2_ball", "box", "group_lasso", "sparsity"):
        assert all(penalty.strong_convexity == 0.0 for penalty in FOUND[name])


@pytest.mark.parametrize("scale", [1e2, 1e9, 1e17, 1e120])
def test_an_outside_point_lands_on_the_sphere_of_its_ball_however_far_it_was(scale: float) -> None:
    w = np.array([1.0, -0.5, 1.0]) * scale
    np.testing.assert_allclose(member(nightfit.problem.penalties, "l1_ball")(radius=2.0).prox(w, 1.0), [1.0, 0.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(member(nightfit.problem.penalties, "l2_ball")(radius=3.0).prox(w, 1.0), [2.0, -1.0, 2.0], rtol=1e-15)


def test_the_l1_ball_projection_agrees_with_a_threshold_found_by_bisection() -> None:
    w = np.random.default_rng(8).normal(size=500)
    low, high = 0.0, float(np.abs(w).max())
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(np.abs(w) - middle, 0).sum() > 20.0 else (low, middle)
    expected = np.sign(w) * np.maximum(np.abs(w) - low, 0)
    np.testing.assert_allclose(member(nightfit.problem.penalties, "l1_ball")(radius=20.0).prox(w, 1.0), expected, atol=1e-12)


def test_groups_are_dropped_or_shrunk_as_a_whole() -> None:
    penalty = member(nightfit.problem.penalties, "group_lasso")(weight=0.5, groups=[0, 1, 0, 1])
    np.testing.assert_allclose(penalty.prox(np.array([3.0, 0.6, -4.0, 0.8]), 2.0), [2.4, 0.0, -3.2, 0.0], rtol=1e-15)


def test_groups_of_one_make_the_lasso() -> None:
    w = np.random.default_rng(3).normal(size=6)
    lasso = member(nightfit.problem.penalties, "l1")(weight=0.7)
    groups = member(nightfit.problem.penalties, "group_lasso")(weight=0.7, groups=range(6))
    np.testing.assert_allclose(groups.prox(w, 0.9), lasso.prox(w, 0.9), rtol=1e-12)


@pytest.mark.parametrize("groups", [[0, 0, 1], (7, 7, -2), [[0, 1], [2]], ((1, 0), (2,)), np.array([4, 4, 2])])
def test_equal_groupings_are_equal_however_they_are_written(groups: Any) -> None:
    made = penalty_of({"group_lasso": {"weight": 0.1, "groups": groups}})
    assert made == member(nightfit.problem.penalties, "group_lasso")(weight=0.1, groups=(0, 0, 1))
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert dataclasses.replace(made, weight=0.1) == made
    assert dataclasses.asdict(made) == {"weight": 0.1, "groups": (0, 0, 1)}


@pytest.mark.parametrize("groups", [[], [0.5, 1], ["a"], "001", 3, None, [[0, 1], [1]], [[0], [2]], [[0, 1], 2], [[0, -1]], [[0.0]], [[]]])
def test_groups_that_do_not_hold_each_column_once_are_refused(groups: Any) -> None:
    with pytest.raises(ValueError, match=r"^group_lasso: groups must be finite whole numbers"):
        penalty_of({"group_lasso": {"weight": 0.1, "groups": groups}})


@pytest.mark.parametrize("columns", [0, 2, 4])
def test_groups_for_another_number_of_columns_are_refused(columns: int) -> None:
    penalty = member(nightfit.problem.penalties, "group_lasso")(weight=0.1, groups=[0, 0, 1])
    for use in (lambda: penalty.value(np.zeros(columns)), lambda: penalty.prox(np.zeros(columns), 1.0)):
        with pytest.raises(ValueError, match=rf"each of the {columns} columns, got 3"):
            use()


def test_the_largest_coefficients_stay_and_of_equals_the_first() -> None:
    penalty = penalty_of({"sparsity": 2})
    assert penalty.prox(np.array([1.0, -3.0, 2.0, 3.0]), 1.0).tolist() == [0.0, -3.0, 0.0, 3.0]
    assert penalty.prox(np.array([1.0, -1.0, 1.0, -1.0]), 1.0).tolist() == [1.0, -1.0, 0.0, 0.0]
    assert penalty.prox(np.array([5.0]), 1.0).tolist() == [5.0]


def test_a_projection_onto_a_set_that_is_not_convex_may_drive_points_apart() -> None:
    sparsity = member(nightfit.problem.penalties, "sparsity")(nonzeros=1)
    u, v = np.array([1.01, 1.0]), np.array([1.0, 1.01])
    assert np.linalg.norm(sparsity.prox(u, 1.0) - sparsity.prox(v, 1.0)) > 10 * np.linalg.norm(u - v)
    assert [name for name, examples in FOUND.items() if not all(penalty.convex for penalty in examples)] == ["sparsity"]
