"""From events to epsilon: against published tables, an exact profile in many digits, and dp_accounting's loss distributions."""

import math
import random
from fractions import Fraction
from itertools import product

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

from nightfit.privacy.accounting import UNIT, Cost, Currency, check_budget, cost, epsilon_of, limit
from nightfit.privacy.events import GaussianEvent, event_from_dict
from nightfit.types import Adjacency

EPSILONS = [1e-3, 0.1, 0.5, 1.0, 3.0, 8.0, 30.0]
DELTAS = [1e-12, 1e-10, 1e-5, 1e-2]
every_currency = pytest.mark.parametrize("currency", [Currency.GAUSSIAN, Currency.ZCDP])


def event(sensitivity: float = 1.0, sigma: float = 3.0, coordinates: int = 1) -> GaussianEvent:
    return GaussianEvent(label="step", sensitivity=sensitivity, sigma=sigma, coordinates=coordinates, adjacency=Adjacency.REPLACE_ONE)


def fine_event(mu: float, coordinates: int = 1) -> GaussianEvent:
    """A grid so fine that the lattice's mass is nothing beside any delta here."""
    return event(sensitivity=2.0**55, sigma=2.0**55 / mu, coordinates=coordinates)


def amount(mu: float) -> Cost:
    return Cost(math.ceil(Fraction(mu) ** 2 / UNIT))


def exact_delta(mu: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), in eighty digits."""
    with mpmath.workdps(80):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def in_digits(units: int) -> mpmath.mpf:
    with mpmath.workdps(80):
        return mpmath.mpf(units * UNIT.numerator) / UNIT.denominator


def mu_of(spent: Cost) -> mpmath.mpf:
    with mpmath.workdps(80):
        return mpmath.sqrt(in_digits(spent.amount))


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.0325), (0.5, 0.1422), (1, 0.2681), (2, 0.5016), (4, 0.9249), (8, 1.6660)])
def test_the_limit_is_the_mu_of_the_table(epsilon: float, mu: float) -> None:
    assert float(mu_of(limit(epsilon, 1e-5, Currency.GAUSSIAN))) == pytest.approx(mu, rel=1e-3)


def test_the_zcdp_limit_is_that_of_canonne_kamath_and_steinke() -> None:
    assert float(limit(1, 8 / 7 * 1e-5, Currency.ZCDP).amount * UNIT) == pytest.approx(0.0306, abs=6e-5)


@pytest.mark.parametrize(
    ("currency", "epsilon", "delta"),
    [*product([Currency.GAUSSIAN], EPSILONS, DELTAS), *product([Currency.ZCDP], [1e-3, 1.0, 8.0, 30.0], [1e-10, 1e-5])],
)
def test_the_limit_of_a_budget_is_that_budget_and_no_more(currency: Currency, epsilon: float, delta: float) -> None:
    whole = limit(epsilon, delta, currency)
    assert epsilon * (1 - 1e-6) < epsilon_of(whole, delta, currency) <= epsilon
    assert epsilon_of(Cost(4 * whole.amount, whole.mass), delta, currency) > 1.5 * epsilon
    assert epsilon_of(Cost(whole.amount + whole.amount // 10**5, whole.mass), delta, currency) > epsilon
    if currency is Currency.GAUSSIAN:
        with mpmath.workdps(80):
            spent = exact_delta(mu_of(whole), epsilon) + (1 + mpmath.exp(epsilon)) * in_digits(whole.mass)
            assert delta * (1 - 2e-3) < spent <= delta
            assert whole.mass > 0


def test_an_epsilon_is_never_rounded_below_the_exact_one() -> None:
    rng = random.Random(0)
    for _ in range(150):
        spent, delta = amount(10 ** rng.uniform(-12, 1.2)), 10 ** rng.uniform(-30, -0.01)
        epsilon = epsilon_of(spent, delta, Currency.GAUSSIAN)
        assert exact_delta(mu_of(spent), epsilon) <= delta
        if epsilon > 1e-3:
            assert exact_delta(mu_of(spent), epsilon * (1 - 1e-7)) > delta


@pytest.mark.parametrize(("mu", "step"), [(0.05, 1e-5), (0.2681, 1e-4), (1.0, 1e-4), (1.666, 1e-3), (4.0, 1e-3)])
def test_the_gaussian_currency_agrees_with_a_loss_distribution_and_is_never_below_it(mu: float, step: float) -> None:
    distribution = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step)
    for delta in (1e-8, 1e-5, 1e-2):
        other = distribution.get_epsilon_for_delta(delta)
        ours = epsilon_of(cost([fine_event(mu)], Currency.GAUSSIAN), delta, Currency.GAUSSIAN)
        assert other - step <= ours <= other * (1 + 1e-6) + 1e-9


def test_composed_steps_agree_with_a_composed_loss_distribution() -> None:
    step, steps, mu = 1e-4, 50, 0.1
    other = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=step).self_compose(steps).get_epsilon_for_delta(1e-5)
    ours = epsilon_of(cost([fine_event(mu)] * steps, Currency.GAUSSIAN), 1e-5, Currency.GAUSSIAN)
    assert ours == pytest.approx(other, abs=steps * step)
    assert ours >= other - steps * step


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.2681, 1.0, 1.666, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-8, 1e-5, 1e-2])
def test_the_zcdp_currency_never_reports_less_than_the_gaussian(mu: float, delta: float) -> None:
    gaussian, zcdp = (epsilon_of(cost([fine_event(mu)], currency), delta, currency) for currency in (Currency.GAUSSIAN, Currency.ZCDP))
    assert zcdp >= gaussian


def test_no_formula_that_is_valid_only_below_one_is_used() -> None:
    delta = 1e-5
    for epsilon in (8.0, 30.0):
        sigma = 1 / float(mu_of(limit(epsilon, delta, Currency.GAUSSIAN)))
        needed = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3).get_epsilon_for_delta(delta)
        assert needed <= epsilon + 1e-3
    classical = math.sqrt(2 * math.log(1.25 / delta)) / 30
    assert classical < 1 / float(mu_of(limit(30, delta, Currency.GAUSSIAN)))


@every_currency
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, 1e-9, 9e-4, 101, 1e3])
def test_an_epsilon_that_is_no_budget_is_refused_with_the_reason(currency: Currency, epsilon: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon must be a number"):
        limit(epsilon, 1e-5, currency)


@every_currency
@pytest.mark.parametrize("delta", [0, 1, 2, -1e-5, math.nan, math.inf, 1e-31])
def test_a_delta_that_is_no_budget_is_refused_with_the_reason(currency: Currency, delta: float) -> None:
    with pytest.raises(ValueError, match=r"delta must be a number"):
        limit(1, delta, currency)


@pytest.mark.parametrize("epsilon", ["1", "1,0", None])
def test_a_budget_that_is_not_a_number_is_refused(epsilon: object) -> None:
    with pytest.raises(TypeError):
        check_budget(epsilon, 1e-5)  # type: ignore[arg-type]


@every_currency
def test_a_million_tiny_charges_add_without_drift_and_upward(currency: Currency) -> None:
    charged = event(sensitivity=1 / 3, sigma=1e7 / 7, coordinates=13)
    one, total = cost([charged], currency), Cost()
    for _ in range(10**6):
        total += one
    assert total == Cost(10**6 * one.amount, 10**6 * one.mass)
    exact = charged.mu_squared if currency is Currency.GAUSSIAN else charged.rho
    assert 10**6 * exact <= total.amount * UNIT <= 10**6 * (exact + UNIT)
    if currency is Currency.GAUSSIAN:
        assert 10**6 * charged.lattice_mass <= total.mass * UNIT <= 10**6 * (charged.lattice_mass + UNIT)
    assert total - one + one == total


@every_currency
def test_a_charge_smaller_than_the_unit_still_costs_one_unit(currency: Currency) -> None:
    spent = cost([event(sensitivity=1e-60, sigma=1e200)], currency)
    assert spent.amount == 1
    assert spent.mass == (currency is Currency.GAUSSIAN)


@every_currency
def test_nothing_spent_is_epsilon_zero(currency: Currency) -> None:
    assert epsilon_of(cost([], currency), 1e-5, currency) == 0


def test_a_cost_fits_only_where_both_its_parts_do() -> None:
    whole = Cost(5, 3)
    assert Cost(5, 3).fits(whole)
    assert not Cost(6, 3).fits(whole)
    assert not Cost(5, 4).fits(whole)


def test_the_lattice_is_paid_for() -> None:
    smooth, coarse, bare = (
        epsilon_of(cost([event(sensitivity=scale, sigma=scale, coordinates=10)], Currency.GAUSSIAN), 1e-5, Currency.GAUSSIAN)
        for scale in (2.0**40, 2.0**12, 1.0)
    )
    assert smooth < coarse < bare == math.inf
    assert not cost([event(sensitivity=1e-3, sigma=10.0)], Currency.GAUSSIAN).fits(limit(8, 1e-5, Currency.GAUSSIAN))
    assert epsilon_of(Cost(0, limit(1, 1e-5, Currency.GAUSSIAN).mass), 1e-5, Currency.GAUSSIAN) == 0


@pytest.mark.parametrize("sigma", [0.2, 0.3, 0.5, 0.7, 0.99, *(1 + k / 50 for k in range(10)), 1.5, 2.5, 7.3, 20.0, 300.0])
def test_the_lattice_mass_bounds_the_distance_to_a_rounded_gaussian(sigma: float) -> None:
    k = np.arange(-int(40 * sigma) - 5, int(40 * sigma) + 6)
    discrete = np.exp(-0.5 * (k / sigma) ** 2)
    discrete /= discrete.sum()
    a = np.abs(k)
    rounded = norm.sf((a - 0.5) / sigma) - norm.sf((a + 0.5) / sigma)
    total_variation = float(0.5 * np.abs(discrete - rounded).sum())
    assert total_variation <= event(sigma=sigma).lattice_mass
    assert event(sigma=sigma, coordinates=7).lattice_mass == 7 * event(sigma=sigma).lattice_mass


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_an_event_without_a_positive_finite_sensitivity_and_sigma_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="step: sensitivity must be positive"):
        event(sensitivity=value)
    with pytest.raises(ValueError, match="step: sigma must be positive"):
        event(sigma=value)


def test_an_event_without_coordinates_is_refused() -> None:
    with pytest.raises(ValueError, match="coordinates must be at least 1"):
        event(coordinates=0)


def test_an_event_survives_being_stored_and_another_mechanism_is_refused() -> None:
    stored = event(sensitivity=0.1, sigma=1 / 3).as_dict()
    assert event_from_dict(stored) == event(sensitivity=0.1, sigma=1 / 3)
    with pytest.raises(ValueError, match="unknown mechanism 'laplace'"):
        event_from_dict(stored | {"mechanism": "laplace"})
    with pytest.raises(ValueError, match="sigma"):
        event_from_dict(stored | {"sigma": math.nan})


def test_the_costs_of_an_event_are_exact() -> None:
    assert event(sensitivity=3.0, sigma=7.0).mu_squared == Fraction(9, 49)
    assert event(sensitivity=3.0, sigma=7.0).rho == Fraction(9, 98)
