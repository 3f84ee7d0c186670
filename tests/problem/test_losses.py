"""Our losses: their formulas to the last digit, and their parameters. What holds of every loss is in nightfit.contracts."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import nightfit.problem.losses
from nightfit.contracts.test_losses import MARGINS, pairs
from nightfit.plugins import member, members
from nightfit.problem.losses import Loss

FOUND = members(nightfit.problem.losses)


def test_the_six_losses_are_found() -> None:
    assert set(FOUND) >= {"squared", "huber", "logistic", "hinge", "gompertz", "ramp"}
    assert all(FOUND.values())


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
