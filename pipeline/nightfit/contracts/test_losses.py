"""The contract of every loss."""

import math
import warnings
from typing import cast

import numpy as np
import pytest

from nightfit.contracts.sums import hard_block, row_by_row
from nightfit.plugins import members
from nightfit.problem import links, losses
from nightfit.problem.losses import Estimand, LogMeanLoss, Loss, QuantileLoss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.kernels import gradient_sums
from nightfit.records.targets import Target
from nightfit.types import Array

every_loss = pytest.mark.parametrize(
    "loss", [pytest.param(loss, id=repr(loss)) for examples in members(losses).values() for loss in examples]
)

MAGNITUDES = [1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 0.9, 1.1, 3.0, 10.0, 36.5, 37.5, 100.0, 708.0, 740.0, 1e3]
MARGINS = np.array([0.0, *MAGNITUDES, *(-m for m in MAGNITUDES)])
TARGETS = np.array([-700.0, -1.0, -1e-3, 0.0, 1e-3, 0.3, 1.0, 3.0, 20.0, 700.0])


def targets(loss: Loss) -> Array:
    """Encoded targets of the loss's domain."""
    return np.unique(loss.target.encoded(TARGETS[loss.target.holds(TARGETS)]))


def pairs(loss: Loss, margins: Array) -> tuple[Array, Array]:
    """Every target with every margin."""
    y, z = np.meshgrid(targets(loss), margins, indexing="ij")
    return y.ravel(), z.ravel()


def bits(values: Array) -> bytes:
    return np.ascontiguousarray(values).tobytes()


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
def test_the_formula_makes_the_same_integers_as_the_slope(loss: Loss) -> None:
    block, weights, bounding = hard_block(targets(loss)), np.linspace(-1, 1, 9), CoordinateClip(bound=2.0)
    assert gradient_sums(block, weights, loss, bounding, None, 1, 40)[0].tolist() == row_by_row(block, weights, loss, bounding, 40)


@every_loss
def test_a_target_that_is_scaled_is_real_and_scaled_back_by_a_line(loss: Loss) -> None:
    if loss.scalable:
        assert loss.target is Target.REAL
        assert np.array_equal(loss.link.inverse(MARGINS), MARGINS)


@every_loss
def test_the_link_is_one_that_a_release_can_name_and_gives_probabilities_of_labels_only(loss: Loss) -> None:
    assert members(links)[loss.link.name] == (loss.link,)
    assert not loss.link.probability or loss.target is Target.LABELS


SLOPES: dict[Estimand, Loss] = {Estimand.MEAN: Squared(), Estimand.LOG_ODDS: Logistic(), Estimand.MARGIN: Hinge()}
LOG_MEANS: dict[Estimand, LogMeanLoss] = {Estimand.LOG_MEAN: Poisson(), Estimand.LOG_MEAN_OF_RATIOS: Gamma()}


@every_loss
def test_a_loss_with_an_estimand_is_what_automatic_methods_take_it_for(loss: Loss) -> None:
    if loss.estimand is None:
        pytest.skip("declares no estimand")
    assert loss.estimand is not Estimand.COLUMN_MEANS
    y, z = pairs(loss, MARGINS)
    if loss.estimand is Estimand.MEDIAN:
        assert loss.target is Target.REAL
        assert loss.convex
        assert np.isfinite(loss.lipschitz)
        r = np.linspace(0, 50, 501)
        np.testing.assert_allclose(loss.slope(np.zeros(501), r), -loss.slope(r, np.zeros(501)), rtol=1e-12, atol=1e-300)
    elif loss.estimand is Estimand.QUANTILE:
        given = cast(QuantileLoss, loss)
        assert loss.target is Target.REAL
        assert loss.convex
        far = given.smoothed(1e-9).slope(np.zeros(2), np.array([-1.0, 1.0]))
        np.testing.assert_allclose(far, [-given.quantile, 1 - given.quantile], rtol=1e-12)
    elif loss.estimand in LOG_MEANS:
        ranged = cast(LogMeanLoss, loss)
        known = LOG_MEANS[loss.estimand].within(ranged.low, ranged.high)
        assert loss.target is known.target
        np.testing.assert_allclose(loss.slope(y, z), known.slope(y, z), rtol=1e-12, atol=1e-300)
        assert ranged.within(ranged.low, math.sqrt(ranged.high)).high == math.sqrt(ranged.high)
    else:
        same = SLOPES[loss.estimand]
        assert loss.target is same.target
        np.testing.assert_allclose(loss.slope(y, z), same.slope(y, z), rtol=1e-12, atol=1e-300)
