"""Between a budget (epsilon, delta) and a cost in a currency. Imports the conversions."""

import math
from fractions import Fraction

from nightfit.privacy.accounting.costs import MARGIN, UNIT, Cost, Currency, RenyiOrder
from nightfit.privacy.accounting.gaussian import HEADROOM, epsilon_of_mu, epsilon_with_mass, mu_for
from nightfit.privacy.accounting.loss_distributions import LATTICE_SHARE
from nightfit.privacy.accounting.renyi import best_alpha, epsilon_of_rho, rho_for

FAILURE_SHARE = Fraction(1, 8)  # of delta, in the currency zcdp, for events with a mass of their own; it costs about 1% of rho


LARGEST_EPSILON = 30.0  # e^30 is ten trillion: a larger one promises nothing


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is not a privacy budget.

    Raises
    ------
    ValueError
        Unless 0.001 <= epsilon <= 30 and 1e-30 <= delta < 1.
    """
    if not (math.isfinite(epsilon) and 1e-3 <= epsilon <= LARGEST_EPSILON):
        raise ValueError(f"epsilon must be a number from 0.001 to 30, got {epsilon}: 1 is a common choice, above 10 protects little")
    if not (math.isfinite(delta) and 1e-30 <= delta < 1):
        raise ValueError(f"delta must be a number from 1e-30 to below 1, got {delta}: choose it far below 1 / (number of units)")


LARGE_EPSILON = 10.0  # (1 + e^epsilon) LATTICE_SHARE is more than one above it, so that the lattices would bind before the noise does
LARGE_SHARE = Fraction(1, 8)  # of delta, for the lattices of a lifetime above LARGE_EPSILON; it costs about 1% of mu there


def lattice_share_for(epsilon: float) -> Fraction:
    """The share of delta that a new lifetime budget of this epsilon keeps for the lattices of discrete noise."""
    return LATTICE_SHARE if epsilon <= LARGE_EPSILON else LARGE_SHARE


def limit(epsilon: float, delta: float, currency: Currency, lattice_share: Fraction = LATTICE_SHARE) -> Cost:
    """The largest cost that is still (epsilon, delta) private, rounded down.

    Parameters
    ----------
    epsilon, delta
        The budget.
    currency
        In which the cost is counted.
    lattice_share
        Of delta, in the currency gaussian, for the lattices of discrete Gaussians.

    Raises
    ------
    ValueError
        If this is no budget.

    Notes
    -----
    Guarantee: gaussian: with mu^2 <= amount and mass of total variation TV <= mass, the discrete Gaussians are within TV of
    rounded continuous ones on each side, so delta(epsilon) <= delta_G(mu, epsilon) + (1 + e^epsilon) TV
    <= delta (1 - share) + delta share. Broken by test_the_limit_of_a_budget_is_that_budget_and_no_more.
    """
    check_budget(epsilon, delta)
    if currency is Currency.PURE:
        return Cost(math.floor(Fraction(epsilon) / UNIT), 0)
    if currency is Currency.APPROXIMATE:
        return Cost(math.floor(Fraction(epsilon) / UNIT), math.floor(Fraction(delta) / UNIT))
    if currency is Currency.GAUSSIAN:
        mu = mu_for(epsilon, delta * float(1 - lattice_share)) * (1 - HEADROOM)
        mass = Fraction(delta) * lattice_share / (1 + Fraction(math.exp(epsilon) * (1 + MARGIN)))
        return Cost(math.floor(Fraction(mu) ** 2 / UNIT), math.floor(mass / UNIT))
    rho = rho_for(epsilon, delta * float(1 - FAILURE_SHARE)) * (1 - HEADROOM)
    return Cost(math.floor(Fraction(rho) / UNIT), math.floor(Fraction(delta) * FAILURE_SHARE / UNIT))


def renyi_order_for(epsilon: float, delta: float) -> RenyiOrder:
    """The order at which a zCDP budget that is spent to the end converts best; a function of the budget alone."""
    kept = delta * float(1 - FAILURE_SHARE)
    return RenyiOrder(epsilon, best_alpha(rho_for(epsilon, kept), kept))


def epsilon_of(spent: Cost, delta: float, currency: Currency, order: RenyiOrder | None = None) -> float:
    """The smallest epsilon, rounded up, at which what was spent is (epsilon, delta) private; infinity if there is none.

    Parameters
    ----------
    spent
        A cost in `currency`.
    delta
        Of the guarantee.
    currency
        In which the cost was counted.
    order
        The one Renyi order at which parts of the cost were priced: no other order says anything about them.
    """
    amount, mass = float(spent.amount * UNIT), float(spent.mass * UNIT)
    if amount == 0 and mass == 0:
        return 0.0
    if currency is Currency.APPROXIMATE and spent.mass * UNIT > Fraction(delta):
        return math.inf
    if currency.adds_epsilons:
        return amount if Fraction(amount) >= spent.amount * UNIT else math.nextafter(amount, math.inf)
    if currency is Currency.ZCDP:
        return epsilon_of_rho(amount, delta - mass, order.alpha if order else None) if mass < delta else math.inf
    return epsilon_with_mass(mass, delta, lambda left: epsilon_of_mu(math.sqrt(amount), left))


def epsilon_for(rho: float, delta: float, currency: Currency) -> float:
    """The epsilon of the budget (epsilon, delta) whose limit in this currency is rho, and no more.

    Parameters
    ----------
    rho
        mu^2 / 2 of Gaussian queries, or rho of zero-concentrated ones.
    delta
        Of the budget.
    currency
        Of the budget.

    Raises
    ------
    ValueError
        Unless rho is positive and finite.

    Notes
    -----
    Broken by test_a_budget_given_as_rho_is_that_rho_and_no_more.
    """
    if not (math.isfinite(rho) and rho > 0):
        raise ValueError(f"rho must be positive and finite, got {rho}: 0.03 is about epsilon 1 at delta 1e-5")
    if currency.adds_epsilons:
        return rho
    amount, share = (2 * Fraction(rho), LATTICE_SHARE) if currency is Currency.GAUSSIAN else (Fraction(rho), FAILURE_SHARE)
    return epsilon_of(Cost(math.floor(amount / UNIT)), delta * float(1 - share), currency)
