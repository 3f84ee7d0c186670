"""The contract of every penalty."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nightfit.plugins import members
from nightfit.problem import penalties
from nightfit.problem.penalties import Penalty
from nightfit.types import Array

every_penalty = pytest.mark.parametrize(
    "penalty", [pytest.param(penalty, id=repr(penalty)) for examples in members(penalties).values() for penalty in examples]
)

coefficients = st.one_of(st.floats(-100.0, 100.0), st.floats(-2.0, 2.0), st.sampled_from([0.0, -0.0, 1.0, -1.0, 3.0, 5e-324]))
steps = st.floats(0.01, 100.0)


def vectors(count: int) -> st.SearchStrategy[Array]:
    return st.integers(1, 6).flatmap(lambda size: arrays(np.float64, (count, size), elements=coefficients))


def suited(penalty: Penalty, w: Array) -> Array:
    """w, with its columns repeated or cut where the penalty is made for a certain number of them."""
    return np.take(w, np.arange(penalty.columns or w.shape[-1]), axis=-1, mode="wrap")


def objective(penalty: Penalty, u: Array, w: Array, step: float) -> float:
    """step times what the proximal operator minimises."""
    return step * penalty.value(u) + 0.5 * float((u - w) @ (u - w))


@every_penalty
@settings(max_examples=50, deadline=None)
@given(ws=vectors(3), step=steps)
def test_no_point_beats_the_prox_and_distant_points_lose_by_strong_convexity(penalty: Penalty, ws: Array, step: float) -> None:
    w, other, direction = suited(penalty, ws)
    best = penalty.prox(w, step)
    least = objective(penalty, best, w, step)
    assert math.isfinite(least)
    feasible = penalty.prox(other, step)
    rivals = [w, other, feasible, np.zeros_like(w)]
    rivals += [best + t * (feasible - best) for t in (1e-3, 0.1, 0.5)]
    rivals += [best + t * direction for t in (-0.1, -1e-3, 1e-3, 0.1)]
    for rival in rivals:
        distance = float((rival - best) @ (rival - best))
        gap = 0.5 * (1 + step * penalty.strong_convexity) * distance if penalty.convex else 0.0
        tolerance = 1e-7 * (1 + least + float(w @ w))
        assert objective(penalty, rival, w, step) >= least + gap * (1 - 1e-9) - tolerance


@every_penalty
@settings(max_examples=25, deadline=None)
@given(ws=vectors(2), step=steps)
def test_the_prox_brings_points_together_and_more_so_when_strongly_convex(penalty: Penalty, ws: Array, step: float) -> None:
    if not penalty.convex:
        pytest.skip("declared not convex")
    u, v = suited(penalty, ws)
    apart = np.linalg.norm(penalty.prox(u, step) - penalty.prox(v, step))
    assert apart * (1 + step * penalty.strong_convexity) <= np.linalg.norm(u - v) * (1 + 1e-9) + 1e-9


@every_penalty
@settings(max_examples=10, deadline=None)
@given(ws=vectors(1), step=steps)
def test_the_prox_is_a_new_array_and_leaves_its_input_alone(penalty: Penalty, ws: Array, step: float) -> None:
    w = suited(penalty, ws)[0].copy()
    before = w.tobytes()
    result = penalty.prox(w, step)
    assert w.tobytes() == before
    assert not np.shares_memory(result, w)
    assert result.shape == w.shape
    assert result.dtype == np.float64


@every_penalty
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_prox_is_feasible_however_far_away_it_starts(penalty: Penalty, size: int) -> None:
    w = suited(penalty, np.random.default_rng(size).normal(size=size))
    for scale in (1e-300, 1e-9, 1.0, 1e9, 1e17, 1e120):
        assert math.isfinite(penalty.value(penalty.prox(scale * w, 1.0)))


@every_penalty
def test_no_coefficients_have_a_prox_too(penalty: Penalty) -> None:
    if penalty.columns is not None:
        pytest.skip("made for a certain number of columns")
    assert penalty.prox(np.empty(0), 1.0).shape == (0,)
    assert penalty.value(np.empty(0)) == 0.0


@every_penalty
def test_the_scalar_field_is_the_only_field_or_absent(penalty: Any) -> None:
    names = [field.name for field in dataclasses.fields(penalty)]
    assert penalty.scalar_field == (names[0] if len(names) == 1 else None)


@every_penalty
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_parameter_that_is_not_finite_is_refused_by_name(penalty: Any, broken: float) -> None:
    for field in dataclasses.fields(penalty):
        with pytest.raises(ValueError, match=rf"{field.name} .*finite"):
            dataclasses.replace(penalty, **{field.name: broken})


@every_penalty
@settings(max_examples=25, deadline=None)
@given(ws=vectors(2))
def test_coefficients_stay_within_the_declared_radius_diameter_and_number(penalty: Penalty, ws: Array) -> None:
    u, v = (penalty.prox(1e3 * w, 1.0) for w in suited(penalty, ws))
    diameter = penalty.diameter(len(u))
    assert penalty.radius is None or np.linalg.norm(u) <= penalty.radius * (1 + 1e-9)
    assert diameter is None or np.linalg.norm(u - v) <= diameter * (1 + 1e-9)
    assert penalty.nonzeros is None or np.count_nonzero(u) <= penalty.nonzeros


@every_penalty
@settings(max_examples=25, deadline=None)
@given(ws=vectors(1), length=st.floats(0.1, 10.0))
def test_a_declared_ridge_is_the_value_and_a_declared_ball_the_constraint(penalty: Penalty, ws: Array, length: float) -> None:
    assert (penalty.ball_norm is None) == (penalty.radius is None)
    w = suited(penalty, ws)[0]
    w = np.where(np.abs(w) < 1e-3, 1.0, w)
    if penalty.radius is not None:
        w = w * (length * penalty.radius / np.linalg.norm(w, ord=penalty.ball_norm))
        assert math.isfinite(penalty.value(w)) == (length <= 1) or length == pytest.approx(1, rel=1e-6)
    if penalty.ridge is not None:
        assert penalty.ball_norm in (None, 2)
        inside = w if penalty.radius is None else w / max(1.0, length)
        assert penalty.value(inside) == pytest.approx(0.5 * penalty.ridge * float(inside @ inside), rel=1e-12)
