"""From events to epsilon(delta), and from (epsilon, delta) to a budget. The only importer of dp_accounting."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache

import numpy as np

from pipeline.privacy.events import GaussianEvent

UNIT = Fraction(1, 2**200)
LATTICE_SHARE = Fraction(1, 2**14)
# dp_accounting's Gaussian profile subtracts nearly equal numbers: from epsilon = SMALLEST up its root is good to 1e-10, below it is not.
SMALLEST = 5e-4
MARGIN = 1e-9
HEADROOM = 1e-8


class Currency(StrEnum):
    """In what a ledger adds and refuses. Both are valid filters: a sum fixed in advance bounds any adaptive sequence of questions.

    gaussian: the sum of mu^2 of Gaussian questions, converted exactly (Dong, Roth, Su 2022; Balle, Wang 2018, thm 8).
    zcdp: the sum of rho and of a mass of delta, converted by the best Renyi order (Canonne, Kamath, Steinke 2020, prop. 12).
    """

    GAUSSIAN = "gaussian"
    ZCDP = "zcdp"


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of a currency and a mass of delta, in whole units of 2^-200: addition is exact and every rounding is upward."""

    amount: int = 0
    mass: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.amount + other.amount, self.mass + other.mass)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.amount - other.amount, self.mass - other.mass)

    def fits(self, limit: "Cost") -> bool:
        return self.amount <= limit.amount and self.mass <= limit.mass


def cost(events: Iterable[GaussianEvent], currency: Currency) -> Cost:
    """The sum of the events' costs, each rounded up to the unit."""
    total = Cost()
    for event in events:
        if currency is Currency.GAUSSIAN:
            total += Cost(math.ceil(event.mu_squared / UNIT), math.ceil(event.lattice_mass / UNIT))
        else:
            total += Cost(math.ceil(event.rho / UNIT), 0)
    return total


def limit(epsilon: float, delta: float, currency: Currency) -> Cost:
    """The largest cost that is still (epsilon, delta), rounded down.

    Guarantee: gaussian: with mu^2 <= amount and mass of total variation TV <= mass, the discrete Gaussians are within TV of
    rounded continuous ones on each side, so delta(epsilon) <= delta_G(mu, epsilon) + (1 + e^epsilon) TV
    <= delta (1 - 2^-14) + delta 2^-14. Broken by test_the_limit_of_a_budget_is_that_budget_and_no_more.
    """
    check_budget(epsilon, delta)
    if currency is Currency.GAUSSIAN:
        mu = _mu(epsilon, delta * float(1 - LATTICE_SHARE)) * (1 - HEADROOM)
        mass = Fraction(delta) * LATTICE_SHARE / (1 + Fraction(math.exp(epsilon) * (1 + MARGIN)))
        return Cost(math.floor(Fraction(mu) ** 2 / UNIT), math.floor(mass / UNIT))
    rho = _rho(epsilon, delta) * (1 - HEADROOM)
    return Cost(math.floor(Fraction(rho) / UNIT), 0)


def epsilon_of(spent: Cost, delta: float, currency: Currency) -> float:
    """The smallest epsilon, rounded up, at which what was spent is (epsilon, delta); infinity if there is none."""
    amount, mass = float(spent.amount * UNIT), float(spent.mass * UNIT)
    if amount == 0 and mass == 0:
        return 0.0
    if currency is Currency.ZCDP:
        return _epsilon_zcdp(amount, delta - mass) if mass < delta else math.inf
    epsilon = 0.0
    for _ in range(200):
        left = delta - (1 + math.exp(min(epsilon, 700.0))) * mass
        if left <= 0:
            return math.inf
        tighter = _epsilon_gaussian(math.sqrt(amount), left)
        if tighter <= epsilon:
            return epsilon
        epsilon = tighter * (1 + MARGIN)
    return math.inf


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is not a privacy budget; never default silently."""
    if not (math.isfinite(epsilon) and 1e-3 <= epsilon <= 30):
        raise ValueError(f"epsilon must be a number from 0.001 to 30, got {epsilon}: 1 is a common choice, above 10 protects little")
    if not (math.isfinite(delta) and 1e-30 <= delta < 1):
        raise ValueError(f"delta must be a number from 1e-30 to below 1, got {delta}: choose it far below 1 / (number of units)")


@cache
def _mu(epsilon: float, delta: float) -> float:
    """The largest mu with delta_G(mu, epsilon) <= delta, where delta_G is that of N(0, 1) against N(mu, 1)."""
    from dp_accounting import get_sigma_gaussian

    with np.errstate(divide="ignore"):
        return float(1 / get_sigma_gaussian(epsilon, delta))


@cache
def _epsilon_gaussian(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_G(mu, epsilon) <= delta, rounded up: to 0 exactly, or to SMALLEST at least."""
    from dp_accounting import get_epsilon_gaussian

    if math.erf(mu / math.sqrt(8)) * (1 + MARGIN) <= delta:  # delta_G(mu, 0) = 2 Phi(mu / 2) - 1
        return 0.0
    if mu <= _mu(SMALLEST, delta) * (1 - HEADROOM):
        return SMALLEST
    with np.errstate(divide="ignore"):
        return float(get_epsilon_gaussian(1 / mu, delta)) * (1 + MARGIN)


def _epsilon_zcdp(rho: float, delta: float) -> float:
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    orders = 1 + np.logspace(-4, 7, 4000)
    return float(compute_epsilon(orders, orders * rho, delta)[0]) * (1 + MARGIN)


@cache
def _rho(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon at delta is at most epsilon, by bisection that keeps the safe side."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        if _epsilon_zcdp(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low
