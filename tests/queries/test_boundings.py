"""Our boundings: their formulas and parameters. What holds of every bounding is in nightfit.contracts."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nightfit.queries.boundings
from nightfit.contracts.sums import contribution
from nightfit.contracts.test_boundings import brief, widths_in_bits
from nightfit.plugins import members
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.ball import Ball
from nightfit.queries.boundings.phi import Phi
from nightfit.queries.boundings.threshold import Threshold
from nightfit.types import Array

FOUND = members(nightfit.queries.boundings)
tame_rows = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40)


def centre_of(bounding: Bounding) -> float:
    """Around what it bounds: zero for most."""
    return float(np.max(np.abs(getattr(bounding, "centre", 0.0))))


def l2_clip(gradient: Array, bound: float) -> Array:
    norm = math.hypot(*gradient)
    return gradient if norm <= bound else gradient * (bound / norm)


def phi(gradient: Array, scale: float) -> Array:
    a = np.clip(gradient / scale, -math.sqrt(2), math.sqrt(2))
    return scale * (a - a**3 / 6)


REFERENCES: dict[str, Callable[..., Array]] = {
    "l2_clip": lambda gradient, bounding: l2_clip(gradient, bounding.bound),
    "coordinate_clip": lambda gradient, bounding: np.clip(gradient, -bounding.bound, bounding.bound),
    "phi": lambda gradient, bounding: phi(gradient, bounding.scale),
    "threshold": lambda gradient, bounding: np.where(np.abs(gradient) <= bounding.bound, gradient, 0.0),
}
every_reference = pytest.mark.parametrize(
    ("bounding", "reference"), [pytest.param(b, REFERENCES[name], id=repr(b)) for name in FOUND if name in REFERENCES for b in FOUND[name]]
)


def test_the_five_boundings_are_found() -> None:
    assert set(FOUND) >= {"coordinate_clip", "l2_clip", "phi", "psi", "threshold"}
    assert sum(len(examples) for examples in FOUND.values()) >= 15


@pytest.mark.parametrize("bounding", FOUND["l2_clip"])
@pytest.mark.parametrize("bits", [8, 20, 40])
def test_clipped_rows_in_every_direction_stay_inside_the_l2_ball(bounding: Bounding, bits: int) -> None:
    for columns in range(1, 41):
        for row in [np.ones(columns), *np.random.default_rng(columns).normal(size=(20, columns))]:
            steps = contribution(bounding, list(row), 1e9, bits)
            assert sum(int(step) ** 2 for step in steps) <= 4**bits, columns


@every_reference
@brief
@given(row=tame_rows, slope=st.floats(-1e6, 1e6), bits=widths_in_bits)
def test_a_contribution_is_the_formula_within_one_step_and_the_clip_margin(
    bounding: Bounding, reference: Callable[..., Array], row: list[float], slope: float, bits: int
) -> None:
    exact = reference(slope * np.array(row), bounding) / bounding.grid(bits)
    margin = math.sqrt(len(row)) / 2 + 2.0 ** (bits - 39)
    assert np.all(np.abs(contribution(bounding, row, slope, bits) - exact) <= 1 + margin)


@brief
@given(row=st.lists(st.floats(0.1, 1e3), min_size=1, max_size=40), slope=st.floats(-1e3, 1e3), bits=widths_in_bits)
def test_a_ball_bounds_the_difference_to_its_centre(row: list[float], slope: float, bits: int) -> None:
    ball = Ball(bound=2.0, centre=np.array([0.7]))
    exact = l2_clip(slope * np.array(row) - 0.7, 2.0) / ball.grid(bits)
    assert np.all(np.abs(contribution(ball, row, slope, bits) - exact) <= 1 + math.sqrt(len(row)) / 2 + 2.0 ** (bits - 39))


def test_a_null_record_adds_nothing_to_a_ball() -> None:
    assert not contribution(Ball(bound=2.0, centre=np.array([0.7])), [0.0, 0.0], 1.0, 20).any()


@every_reference
def test_only_a_clipped_gradient_pays_the_margin(bounding: Bounding, reference: Callable[..., Array]) -> None:
    reach = bounding.grid(0)
    row = [0.5, -0.25, 0.125, 0.0]
    exact = reference(0.9 * reach * np.array(row), bounding) / bounding.grid(30)
    assert np.all(np.abs(contribution(bounding, row, 0.9 * reach, 30) - exact) <= 0.5001)


@pytest.mark.parametrize("bounding", [pytest.param(b, id=repr(b)) for found in FOUND.values() for b in found if not centre_of(b)])
@brief
@given(row=st.lists(st.floats(-1, 1), min_size=1, max_size=40), share=st.floats(-1e-4, 1e-4), bits=widths_in_bits)
def test_a_small_gradient_passes_unchanged_up_to_the_grid(bounding: Bounding, row: list[float], share: float, bits: int) -> None:
    slope = share * bounding.grid(0)
    exact = slope * np.array(row) / bounding.grid(bits)
    assert np.all(np.abs(contribution(bounding, row, slope, bits) - exact) <= 1)


@pytest.mark.parametrize("bounding", FOUND["l2_clip"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_a_row_without_a_finite_norm_adds_nothing_to_an_l2_clipped_sum(bounding: Bounding, bad: float) -> None:
    assert not contribution(bounding, [0.5, bad, 0.25], 1.0, 20).any()


@pytest.mark.parametrize("bounding", [*FOUND["coordinate_clip"], *FOUND["phi"], *FOUND["psi"]])
def test_an_infinite_coordinate_adds_its_bound_to_a_coordinatewise_sum(bounding: Bounding) -> None:
    steps = contribution(bounding, [math.inf, -math.inf, 1e308, -1e308, 0.0, math.nan], 1e3, 20)
    assert (steps / 2**20).tolist() == [1, -1, 1, -1, 0, 0]


@pytest.mark.parametrize("bounding", FOUND["threshold"])
@pytest.mark.parametrize("bits", [8, 20, 40])
def test_a_coordinate_beyond_the_threshold_adds_zero_and_one_at_the_threshold_all_of_it(bounding: Bounding, bits: int) -> None:
    bound = bounding.grid(0)
    beyond = math.nextafter(bound, math.inf)
    steps = contribution(bounding, [bound, -bound, beyond, -beyond, math.inf, -math.inf, 1e308, math.nan, bound / 2], 1.0, bits)
    assert (steps / 2**bits).tolist() == [1, -1, 0, 0, 0, 0, 0, 0, 0.5]
    assert not contribution(bounding, [0.0, 1.0, math.inf], math.inf, bits).any()


@pytest.mark.parametrize("bounding", [FOUND["phi"][0], FOUND["threshold"][0]])
@pytest.mark.parametrize("bits", [8, 20, 40, 48])
def test_at_its_largest_a_contribution_is_its_bound_to_the_step(bounding: Bounding, bits: int) -> None:
    """Bounds whose last ulps differ, and the few numbers around the largest of each."""
    size = math.sqrt(2) if isinstance(bounding, Phi) else 1.0
    for scale in np.random.default_rng(bits).lognormal(0, 5, 300):
        edge = size * scale
        row = [math.nextafter(edge, 0), edge, math.nextafter(edge, math.inf), edge * (1 - 1e-9), edge * (1 - 1e-12)]
        made = Phi(scale=scale) if isinstance(bounding, Phi) else Threshold(bound=scale)
        steps = contribution(made, row, 1.0, bits)
        assert np.max(steps) == 2.0**bits
    with pytest.raises(ValueError, match="at most"):
        contribution(bounding, [1.0], 1.0, 49)


@pytest.mark.parametrize(
    ("name", "field"), [("l2_clip", "bound"), ("coordinate_clip", "bound"), ("threshold", "bound"), ("phi", "scale"), ("psi", "scale")]
)
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_bound_that_is_not_positive_and_finite_is_refused(name: str, field: str, value: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        type(FOUND[name][0])(**{field: value})


@pytest.mark.parametrize("bits", [20, 48])
@pytest.mark.parametrize("away", [1e3, 1e6, 1e9])
def test_a_ball_far_from_zero_bounds_the_numbers_that_it_adds(away: float, bits: int) -> None:
    """The norm is that of the rounded differences themselves: a fused product there would be off by `away` 2^-53 bounds."""
    rng = np.random.default_rng(7)
    for columns in (1, 2, 3, 8, 30):
        for _ in range(60):
            centre = rng.uniform(0.5, 2.0, columns) * away
            slope = float(rng.uniform(0.1, 10.0))
            row = (centre + rng.normal(size=columns) * 3.0) / slope
            added = contribution(Ball(bound=1.0, centre=centre), row.tolist(), slope, bits)
            assert sum(int(step) ** 2 for step in added) <= 4**bits
