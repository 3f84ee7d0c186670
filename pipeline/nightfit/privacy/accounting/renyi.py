"""Renyi divergences: zero-concentrated privacy to epsilon and back, Poisson samples, repeated selection. Imports dp_accounting."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import numpy.typing as npt

from nightfit.privacy.accounting.costs import MARGIN

# Neighbouring orders differ by 0.6% in alpha - 1, so the best of them is within 1e-5 of the optimum for epsilon from 0.001 to 30.
ORDERS = 1 + np.logspace(-4, 7, 4000)
SERIES_ERROR = 2.0**-44  # for each of a series' terms, about as many as its order; their logarithms are as large


def epsilon_of_rho(rho: float, delta: float, alpha: float | None = None) -> float:
    """The epsilon of rho-zCDP at delta, rounded up: at the best order, or at `alpha`."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    orders = ORDERS if alpha is None else np.array([alpha])
    return float(compute_epsilon(orders, orders * rho, delta)[0]) * (1 + MARGIN)


@cache
def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon at delta is at most epsilon, by bisection that keeps the safe side."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if epsilon_of_rho(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def best_alpha(rho: float, delta: float) -> float:
    """The order at which rho-zCDP converts to the smallest epsilon at delta."""
    return float(ORDERS[int(np.argmin(_epsilons(rho, delta)))])


def _epsilons(rho: float, delta: float) -> npt.NDArray[np.float64]:
    """epsilon at each order (Canonne, Kamath, Steinke 2020, prop. 12)."""
    a = ORDERS
    return np.maximum(0.0, a * rho + np.log1p(-1 / a) - (np.log(delta) + np.log(a)) / (a - 1))


@contextmanager
def _without_warnings(name: str) -> Iterator[None]:
    """What is logged under this name inside is told from the level of errors up."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@cache
def sampled_gaussian_divergence(mu_squared: float, rate: float, alpha: float) -> float:
    """The Renyi divergence of a Poisson sampled Gaussian at this order, rounded up (Mironov, Talwar, Zhang 2019).

    dp-accounting's is the logarithm of a series whose terms add to nearly one where noise is large, hence wrong by rounding, and infinite
    where it does not converge. A divergence is quasi-convex, so sampling never raises the one without it, alpha mu^2 / 2. Broken by
    test_a_sample_s_price_is_neither_below_its_leading_term_nor_above_that_of_all_records.
    """
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([alpha], NeighboringRelation.ADD_OR_REMOVE_ONE)
    with _without_warnings("absl"):  # that the series did not converge: then the divergence without sampling is taken
        accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(mu_squared**-0.5)))
    found = float(accountant.rdp[0]) * (1 + MARGIN) + SERIES_ERROR * (alpha + 1) / (alpha - 1)
    return min(found, alpha * mu_squared / 2 * (1 + MARGIN))


@cache
def repeated_epsilon(rho: float, mean: int, delta: float) -> float:
    """The epsilon of the best of a geometric number of attempts, each no worse than a Gaussian query of this rho."""
    from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(1 + np.logspace(-2, 4, 400))  # dp_accounting repeats at each order, so a coarser grid than ORDERS
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent((2 * rho) ** -0.5), mean, 1))
    return float(accountant.get_epsilon(delta)) * (1 + MARGIN)
