"""The loss of several classes: what it declares holds for every margin."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.problem.losses.softmax import Softmax

every_number = pytest.mark.parametrize("classes", [2, 3, 7])


@every_number
def test_contrasts_are_orthonormal_and_sum_to_zero(classes: int) -> None:
    C = Softmax(classes=classes).contrasts
    np.testing.assert_allclose(C.T @ C, np.eye(classes - 1), atol=1e-14)
    np.testing.assert_allclose(C.sum(axis=0), 0.0, atol=1e-14)


@every_number
def test_the_slope_is_the_derivative_of_the_value_and_the_value_that_of_the_label(classes: int) -> None:
    loss, rng = Softmax(classes=classes), np.random.default_rng(classes)
    z, y, step = rng.normal(0, 3, (50, classes - 1)), rng.integers(0, classes, 50).astype(float), 1e-6
    for j in range(classes - 1):
        shift = step * np.eye(classes - 1)[j]
        np.testing.assert_allclose((loss.value(y, z + shift) - loss.value(y, z - shift)) / (2 * step), loss.slope(y, z)[:, j], atol=1e-8)
    p = loss.probabilities(z)
    np.testing.assert_allclose(loss.value(y, z), -np.log(p[np.arange(50), y.astype(int)]), atol=1e-12)
    np.testing.assert_allclose(loss.slope(y, z), (p - np.eye(classes)[y.astype(int)]) @ loss.contrasts, atol=1e-12)


@settings(deadline=None)
@given(st.integers(2, 6), st.lists(st.floats(), min_size=5, max_size=5), st.integers(0, 5))
def test_a_slope_is_no_longer_than_the_lipschitz_constant_or_not_a_number(classes: int, margins: list[float], label: int) -> None:
    loss = Softmax(classes=classes)
    slope = loss.slope(np.array([float(label % classes)]), np.array([margins[: classes - 1]]))
    assert np.isnan(slope).all() or np.linalg.norm(slope) <= loss.lipschitz * (1 + 1e-12)


@every_number
def test_the_curvature_is_at_most_the_smoothness(classes: int) -> None:
    loss, rng = Softmax(classes=classes), np.random.default_rng(0)
    for z in rng.normal(0, 2, (100, 1, classes - 1)):
        p = loss.probabilities(z)[0]
        H = loss.contrasts.T @ (np.diag(p) - np.outer(p, p)) @ loss.contrasts
        assert np.linalg.eigvalsh(H)[-1] <= loss.smoothness + 1e-12


def test_a_row_has_the_same_slope_wherever_it_lies() -> None:
    loss, rng = Softmax(classes=4), np.random.default_rng(1)
    z, y = rng.normal(0, 5, (57, 3)), rng.integers(0, 4, 57).astype(float)
    whole = loss.slope(y, z)
    for place in range(57):
        assert np.array_equal(loss.slope(y[place : place + 1], z[place : place + 1])[0], whole[place])


def test_two_classes_are_the_logistic_loss_of_their_difference() -> None:
    from nightfit.problem.losses.logistic import Logistic

    z = np.random.default_rng(2).normal(0, 3, (40, 1))
    y = (np.arange(40) % 2).astype(float)
    difference = -math.sqrt(2) * z[:, 0]  # score of the second class less that of the first
    np.testing.assert_allclose(Softmax(classes=2).value(y, z), Logistic().value(2 * y - 1, difference), atol=1e-12)


def test_it_is_pickled_and_refuses_one_class() -> None:
    assert pickle.loads(pickle.dumps(Softmax(classes=3))) == Softmax(classes=3)
    with pytest.raises(ValueError, match="2 to 100 classes"):
        Softmax(classes=1)
