"""The contract of every loss in nightfit.problem.losses, found there and tested unasked."""

import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import nightfit.problem.losses
from nightfit.plugins import member, members
from nightfit.problem.losses import Loss
from nightfit.records.targets import Target
from nightfit.types import Array

FOUND = members(nightfit.problem.losses)
every_loss = pytest.mark.parametrize("loss", [pytest.param(loss, id=repr(loss)) for examples in FOUND.values() for loss in examples])

MAGNITUDES = [1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 0.9, 1.1, 3.0, 10.0, 36.5, 37.5, 100.0, 708.0, 740.0, 1e3]
MARGINS = np.array([0.0, *MAGNITUDES, *(-m for m in MAGNITUDES)])


def targets(loss: Loss) -> Array:
    return np.array([-1.0, 1.0]) if loss.target is Target.LABELS else np.array([-700.0, -1.0, -1e-3, 0.0, 0.3, 1.0, 20.0])


def pairs(loss: Loss, margins: Array) -> tuple[Array, Array]:
    """Every target with every margin."""
    y, z = np.meshgrid(targets(loss), margins, indexing="ij")
    return y.ravel(), z.ravel()


def bits(values: Array) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def test_the_six_losses_are_found() -> None:
    assert set(FOUND) >= {"squared", "huber", "logistic", "hinge", "gompertz", "ramp"}
    assert all(FOUND.values())


@every_loss
def test_a_slope_is_the_derivative_of_its_value(loss: Loss) -> None:
    y, z = pairs(loss, MARGINS)
    h = 1e-5 * np.maximum(1.0, np.abs(z))
    above, below = loss.value(y, z + h), loss.value(y, z - h)
    rounding = 1e-15 * (np.abs(above) + np.abs(below)) / h + 1e-11
    change = np.maximum(np.abs(loss.slope(y, z + h) - loss.slope(y, z)), np.abs(loss.slope(y, z) - loss.slope(y, z - h)))
    assert np.all(np.abs((above - below) / (2 * h) - loss.slope(y, z)) <= change + rounding)


@every_loss
def test_no_slope_exceeds_the_declared_lipschitz_constant(loss: Loss) -> None:
    y, z = pairs(loss, np.concatenate([MARGINS, np.linspace(-50, 50, 4001)]))
    assert np.max(np.abs(loss.slope(y, z))) <= loss.lipschitz


@every_loss
def test_no_slope_changes_faster_than_the_declared_smoothness(loss: Loss) -> None:
    z = np.unique(np.concatenate([MARGINS, np.linspace(-50, 50, 4001)]))
    for y in targets(loss):
        slopes = loss.slope(np.full(len(z), y), z)
        rounding = 1e-15 * (np.abs(z[1:]) + abs(y) + 1)
        assert np.all(np.abs(np.diff(slopes)) <= loss.smoothness * np.diff(z) + rounding)


@every_loss
def test_the_declared_bounds_are_reached_and_not_merely_safe(loss: Loss) -> None:
    y, z = pairs(loss, np.linspace(-200, 200, 200_001))
    slopes = loss.slope(y, z)
    assert np.max(np.abs(slopes)) >= 0.99 * min(loss.lipschitz, 100.0)
    within = np.diff(z) > 0
    assert np.max(np.abs(np.diff(slopes)[within]) / np.diff(z)[within]) >= 0.99 * min(loss.smoothness, 100.0)


@every_loss
def test_a_convex_loss_has_a_slope_that_never_falls(loss: Loss) -> None:
    if not loss.convex:
        pytest.skip("declared not convex")
    z = np.unique(np.concatenate([MARGINS, np.linspace(-50, 50, 4001)]))
    for y in targets(loss):
        slopes = loss.slope(np.full(len(z), y), z)
        assert np.all(np.diff(slopes) >= -1e-15)


@every_loss
def test_a_loss_declared_not_convex_has_a_slope_that_falls(loss: Loss) -> None:
    if loss.convex:
        pytest.skip("declared convex")
    z = np.linspace(-50, 50, 4001)
    for y in targets(loss):
        assert np.min(np.diff(loss.slope(np.full(len(z), y), z))) < -1e-3


@pytest.mark.parametrize("loss", [*FOUND["gompertz"], *FOUND["ramp"]], ids=repr)
def test_a_bounded_loss_is_finite_at_any_margin_and_a_hopeless_record_has_no_say(loss: Loss) -> None:
    z = np.array([np.inf, 1e308, 1e4, 0.5, 5e-324, 0.0, -0.0, -0.5, -1e4, -1e308, -np.inf, np.nan])
    for y in (-1.0, 1.0):
        value, slope = loss.value(np.full(len(z), y), z), loss.slope(np.full(len(z), y), z)
        assert np.all(np.isfinite(value[:-1]))
        assert np.all(np.isfinite(slope))
        assert not slope[np.abs(z) >= 1e4].any()
        assert slope[-1] == 0.0
        assert np.all(np.diff(y * value[:-1]) >= 0.0)


@every_loss
@pytest.mark.parametrize("method", ["value", "slope"])
def test_a_row_does_not_depend_on_its_position_or_its_company(loss: Loss, method: str) -> None:
    rng = np.random.default_rng(20)
    z = rng.normal(size=1003) * 10.0 ** rng.integers(-3, 3, size=1003)
    y = rng.choice(targets(loss), size=1003)
    result = getattr(loss, method)
    together = result(y, z)
    order = rng.permutation(1003)
    assert bits(result(y[order], z[order])) == bits(together[order])
    tails, heads = [slice(k, None) for k in range(1, 9)], [slice(None, k) for k in range(1, 9)]
    for rows in [*tails, *heads, slice(None, None, 3), slice(None, None, -1)]:
        assert bits(result(y[rows], z[rows])) == bits(together[rows])
    alone = np.concatenate([result(y[i : i + 1], z[i : i + 1]) for i in range(1003)])
    assert bits(alone) == bits(together)


@every_loss
def test_any_float_is_answered_with_a_float_in_silence(loss: Loss) -> None:
    extremes = np.array([0.0, -0.0, 5e-324, 1e-300, 1.0, -1.0, 800.0, -800.0, 1e308, -1e308, np.inf, -np.inf, np.nan])
    y, z = (a.ravel() for a in np.meshgrid(extremes, extremes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for result in (loss.value(y, z), loss.slope(y, z)):
            assert result.dtype == np.float64
            assert result.shape == y.shape


@every_loss
def test_moderate_input_has_finite_output_and_no_loss_is_negative(loss: Loss) -> None:
    y, z = pairs(loss, MARGINS)
    assert np.all(np.isfinite(loss.value(y, z)))
    assert np.all(np.isfinite(loss.slope(y, z)))
    assert np.all(loss.value(y, z) >= 0)


@every_loss
def test_a_loss_survives_pickling_and_is_frozen(loss: Any) -> None:
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    y, z = pairs(loss, MARGINS)
    assert bits(again.slope(y, z)) == bits(loss.slope(y, z))
    assert loss.__dataclass_params__.frozen


EXACT: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "squared": (lambda loss, y, z: (z - y) ** 2 / 2, lambda loss, y, z: z - y),
    "huber": (
        lambda loss, y, z: (z - y) ** 2 / 2 if abs(z - y) <= loss.delta else loss.delta * (abs(z - y) - mpmath.mpf(loss.delta) / 2),
        lambda loss, y, z: z - y if abs(z - y) <= loss.delta else mpmath.sign(z - y) * loss.delta,
    ),
    "logistic": (lambda loss, y, z: mpmath.log1p(mpmath.exp(-y * z)), lambda loss, y, z: -y / (1 + mpmath.exp(y * z))),
    "hinge": (lambda loss, y, z: max(1 - y * z, 0), lambda loss, y, z: -y if y * z < 1 else 0),
    "gompertz": (
        lambda loss, y, z: mpmath.exp(-mpmath.exp(loss.steepness * y * z)),
        lambda loss, y, z: -y * loss.steepness * mpmath.exp(loss.steepness * y * z - mpmath.exp(loss.steepness * y * z)),
    ),
    "ramp": (
        lambda loss, y, z: max(1 - y * z, 0) - max(loss.cut - y * z, 0),
        lambda loss, y, z: -y if loss.cut < y * z < 1 else 0,
    ),
}
ABSOLUTE = {"gompertz": 4e-16}  # an error of one part in u in exp(-u) is the argument's rounding, and u exp(-u) <= 1 / e


@pytest.mark.parametrize(("name", "loss"), [pytest.param(name, loss, id=repr(loss)) for name in EXACT for loss in FOUND[name]])
def test_value_and_slope_agree_with_exact_arithmetic_at_extreme_margins(name: str, loss: Any) -> None:
    y, z = pairs(loss, MARGINS)
    with mpmath.workdps(700):
        for method, exact in zip((loss.value, loss.slope), EXACT[name], strict=True):
            expected = [float(exact(loss, mpmath.mpf(float(a)), mpmath.mpf(float(b)))) for a, b in zip(y, z, strict=True)]
            np.testing.assert_allclose(method(y, z), expected, rtol=1e-15, atol=ABSOLUTE.get(name, 1e-323))


@pytest.mark.parametrize("delta", [0.0, -1.0, math.inf, math.nan])
def test_a_huber_threshold_that_is_not_positive_and_finite_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must be finite and above 0"):
        member(nightfit.problem.losses, "huber")(delta=delta)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gompertz", {"steepness": 0.0}),
        ("gompertz", {"steepness": -2.0}),
        ("gompertz", {"steepness": 1e300}),
        ("gompertz", {"steepness": math.nan}),
        ("ramp", {"cut": 0.1}),
        ("ramp", {"cut": -2.1}),
        ("ramp", {"cut": math.nan}),
    ],
)
def test_a_parameter_outside_its_range_is_refused(name: str, parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: {next(iter(parameters))} must be from"):
        member(nightfit.problem.losses, name)(**parameters)


def test_a_ramp_is_a_hinge_that_stops_rising() -> None:
    y, z = np.ones(5), np.array([2.0, 0.5, -0.5, -1.5, -9.0])
    assert member(nightfit.problem.losses, "ramp")(cut=-1.0).value(y, z).tolist() == [0.0, 0.5, 1.5, 2.0, 2.0]


def test_a_gompertz_loss_falls_from_one_to_zero_and_is_one_over_e_in_between() -> None:
    values = member(nightfit.problem.losses, "gompertz")(steepness=2.0).value(np.ones(3), np.array([-30.0, 0.0, 30.0]))
    np.testing.assert_allclose(values, [1.0, 1 / math.e, 0.0], rtol=1e-15)
