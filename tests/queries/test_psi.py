"""Smoothed soft truncation: its table against quadrature, its bound against every float, and the printed formula that breaks it."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from nightfit.queries.boundings.phi import SUPREMUM as PLATEAU
from nightfit.queries.boundings.psi import CELLS, Psi, exact, psi, supremum, table
from nightfit.types import Array

SMOOTHINGS = (0.5, 1.0, 3.0, 10.0, 50.0)
every_smoothing = pytest.mark.parametrize("smoothing", SMOOTHINGS)
MAGNITUDES = (5e-324, 1e-300, 1e-8, 1e-4, 1e-2, 0.3, 0.7, 1.0, 1.2, 1.4142, 1.6, 1.999, 2.0, 2.001, 3.0, 5.0, 17.0, 1e2, 1e3, 1e4, 1e6)


def read(a: Array, smoothing: float) -> Array:
    """psi from the table."""
    pieces, top = table(smoothing), supremum(smoothing)
    return np.array([psi(float(x), pieces, top) for x in a])


@cache
def expected(a: float, smoothing: float, derivative: bool = False) -> float:
    """E phi(a w), or its derivative E w phi'(a w), for w = 1 + xi / sqrt(smoothing): an integral over the normal xi in 20 digits."""
    with mpmath.workdps(20):
        a_, r, edge = mpmath.mpf(a), mpmath.sqrt(smoothing), mpmath.sqrt(2)

        def soft(xi: mpmath.mpf) -> mpmath.mpf:
            w = 1 + xi / r
            x = a_ * w
            if derivative:
                return w * (1 - x * x / 2) if abs(x) <= edge else mpmath.mpf(0)
            return x - x**3 / 6 if abs(x) <= edge else mpmath.sign(x) * 2 * edge / 3

        corners = [v for v in (r * (edge / a_ - 1), r * (-edge / a_ - 1)) if abs(v) < 10]
        cuts = sorted({mpmath.mpf(v) for v in (-10, -4, 0, 4, 10)} | set(corners))
        return float(mpmath.quad(lambda xi: soft(xi) * mpmath.npdf(xi), cuts))


def printed(a: Array, smoothing: float) -> Array:
    """Wang et al. (2020), eq. 9 with the correction of Catoni and Giulini, as printed, in the precision of a."""
    real = a.dtype.type
    r, edge, k, plateau = real(math.sqrt(smoothing)), real(math.sqrt(2)), real(1 / math.sqrt(2 * math.pi)), real(PLATEAU)
    two, three, six = real(2), real(3), real(6)
    with np.errstate(all="ignore"):
        b = np.abs(a) / r
        minus, plus = (edge - a) / b, (edge + a) / b
        f_minus, f_plus = ndtr(-minus), ndtr(-plus)
        e_minus, e_plus = np.exp(-minus * minus / two), np.exp(-plus * plus / two)
        c = plateau * (f_minus - f_plus) - (a - a**3 / six) * (f_minus + f_plus)
        c += b * k * (1 - a * a / two) * (e_plus - e_minus)
        c += a * b * b / two * (f_plus + f_minus + k * (plus * e_plus + minus * e_minus))
        c += b**3 * k / six * ((two + minus * minus) * e_minus - (two + plus * plus) * e_plus)
        assert c.dtype == a.dtype
        return a * (1 - b * b / two) - a**three / six + c


@every_smoothing
def test_the_table_is_psi(smoothing: float) -> None:
    reference = np.array([expected(a, smoothing) for a in MAGNITUDES])
    np.testing.assert_allclose(read(np.array(MAGNITUDES), smoothing), reference, rtol=0, atol=3e-12)
    assert read(np.array([0.0, math.nan]), smoothing).tolist() == [0.0, 0.0]
    for huge in (1e12, 1e100, 1e300, 1.7e308, math.inf):
        assert abs(read(np.array([huge]), smoothing)[0] - supremum(smoothing)) <= 1e-15


@every_smoothing
def test_between_its_points_the_table_errs_by_no_more_than_chebyshev_allows(smoothing: float) -> None:
    within = (1 + (np.arange(CELLS)[:, None] + np.linspace(0, 1, 5)) / CELLS).ravel()
    a = np.concatenate([2.0**octave * within - 1 for octave in range(12)])
    value, _ = exact(a, smoothing)
    assert np.max(np.abs(read(a, smoothing) - value)) <= 3e-12


@every_smoothing
def test_the_nodes_and_their_derivatives_are_exact(smoothing: float) -> None:
    a = np.array([x for x in MAGNITUDES if 1e-8 <= x <= 1e3])
    value, slope = exact(a, smoothing)
    np.testing.assert_allclose(value, [expected(x, smoothing) for x in a], rtol=4e-15)
    np.testing.assert_allclose(slope, [expected(x, smoothing, derivative=True) for x in a], rtol=0, atol=1e-14)


@every_smoothing
def test_psi_is_odd_and_never_falls(smoothing: float) -> None:
    a = np.concatenate(
        [[0.0, 5e-324], np.logspace(-300, -3, 200), np.linspace(1e-3, 6, 20_001), np.logspace(math.log10(6), 300, 5_000), [math.inf]]
    )
    values = read(a, smoothing)
    assert np.min(np.diff(values)) >= -4e-16
    assert np.array_equal(read(-a, smoothing), -values)
    assert values[0] == 0.0


@settings(max_examples=300, deadline=None)
@given(a=st.floats(), smoothing=st.sampled_from(SMOOTHINGS))
def test_no_float_leads_beyond_the_supremum(a: float, smoothing: float) -> None:
    value = psi(a, table(smoothing), supremum(smoothing))
    assert abs(value) <= supremum(smoothing)
    assert math.isnan(a) or value * a >= 0


@every_smoothing
def test_the_formula_as_printed_breaks_its_own_bound_and_the_table_does_not(smoothing: float) -> None:
    around = np.linspace(0.9, 1.1, 201)
    for a in (1e6 * around, (1e4 * around).astype(np.float32)):
        assert np.max(np.abs(printed(a, smoothing))) > 10 * PLATEAU
        assert np.max(np.abs(read(a, smoothing))) <= supremum(smoothing)
    assert np.isnan(printed(np.array([0.0]), smoothing))


def test_the_formula_as_printed_reaches_sixty_times_its_bound() -> None:
    assert abs(printed(np.array([1e6]), 3.0)[0]) > 60 * PLATEAU
    assert abs(printed(np.array([1e4], dtype=np.float32), 3.0)[0]) > 60 * PLATEAU


@every_smoothing
def test_the_formula_as_printed_is_psi_where_nothing_cancels(smoothing: float) -> None:
    a = np.array([-1.7, -0.4, 0.2, 0.9, 1.5, 3.0])
    np.testing.assert_allclose(printed(a, smoothing), read(a, smoothing), atol=1e-10)


@every_smoothing
def test_psi_nears_its_supremum_like_one_over_the_square(smoothing: float) -> None:
    """L - psi(a) = (8 / 15) sqrt(1 / 2) r^3 pdf(r) / a^2 + O(a^-4), r^2 = smoothing."""
    r, a = math.sqrt(smoothing), 300.0
    density = math.exp(-smoothing / 2) / math.sqrt(2 * math.pi)
    left = mpmath.mpf(PLATEAU) * mpmath.erf(mpmath.sqrt(mpmath.mpf(smoothing) / 2)) - mpmath.mpf(expected(a, smoothing))
    assert float(left) * a**2 == pytest.approx(0.3771 * r**3 * density, rel=2e-3, abs=1e-10)


@pytest.mark.parametrize(("smoothing", "share"), [(0.5, 0.520), (1, 0.683), (2, 0.843), (3, 0.917), (5, 0.975), (10, 0.998)])
def test_the_supremum_lies_below_that_of_phi(smoothing: float, share: float) -> None:
    assert round(supremum(smoothing) / PLATEAU, 3) == share


def test_phi_lies_between_the_logarithms_that_its_error_bound_rests_on() -> None:
    x = np.concatenate([np.linspace(-60, 60, 240_001), np.logspace(-12, 12, 1_000), -np.logspace(-12, 12, 1_000)])
    a = np.clip(x, -math.sqrt(2), math.sqrt(2))
    phi = a - a**3 / 6
    assert np.all(phi <= np.log1p(x + x * x / 2) + 1e-15)
    assert np.all(phi >= -np.log1p(-x + x * x / 2) - 1e-15)


@pytest.mark.parametrize("bounding", [Psi(scale=0.7, smoothing=smoothing) for smoothing in (0.5, 3.0, 50.0)], ids=repr)
@pytest.mark.parametrize("bits", [8, 20, 30, 40])
def test_a_contribution_is_psi_of_the_scaled_gradient_in_whole_steps(bounding: Psi, bits: int) -> None:
    row = np.array([[0.01, -0.3, 0.9, -1.4, 2.5, 40.0, 1e9, -1e300]])
    sums, top = np.zeros((1, row.shape[1]), dtype=np.int64), supremum(bounding.smoothing)
    bounding.add(row, np.array([0.5]), np.ones(1), np.zeros(1, dtype=np.int64), bits, sums)
    scaled = [expected(float(a), bounding.smoothing) if abs(a) < 1e6 else math.copysign(top, a) for a in 0.5 * row[0] / 0.7]
    assert np.all(np.abs(sums[0] * bounding.grid(bits) - 0.7 * np.array(scaled)) <= 0.51 * bounding.grid(bits) + 0.7 * 3e-12)
    assert np.all(np.abs(sums) <= 2.0**bits)
    assert sums[0, -1] == -(2.0**bits)


@pytest.mark.parametrize("smoothing", [0.0, -1.0, 0.49, 50.1, math.nan, math.inf])
def test_a_smoothing_whose_error_is_not_known_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match="positive finite smoothing from"):
        Psi(scale=1.0, smoothing=smoothing)


def test_a_table_is_made_once_and_cannot_be_changed() -> None:
    assert table(3.0) is table(3.0)
    with pytest.raises(ValueError, match="read-only"):
        table(3.0)[0, 0] = 1.0
