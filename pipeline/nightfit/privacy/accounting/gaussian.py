"""The exact profile of Gaussian mechanisms: mu to epsilon and back. Imports dp_accounting."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from nightfit.privacy.accounting.costs import MARGIN

# dp_accounting's Gaussian profile subtracts nearly equal numbers: from this epsilon up its root is good to 1e-10, below it is not.
SMALLEST_EPSILON = 5e-4
HEADROOM = 1e-8  # relative, taken off a limit: more than MARGIN, so that the epsilon of a limit, rounded up, is not above its budget


@cache
def mu_for(epsilon: float, delta: float) -> float:
    """The largest mu with delta_G(mu, epsilon) <= delta, where delta_G is that of N(0, 1) against N(mu, 1)."""
    from dp_accounting import get_sigma_gaussian

    with np.errstate(divide="ignore"):
        return float(1 / get_sigma_gaussian(epsilon, delta))


@cache
def epsilon_of_mu(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_G(mu, epsilon) <= delta, rounded up: to 0 exactly, or to SMALLEST_EPSILON at least."""
    from dp_accounting import get_epsilon_gaussian

    if math.erf(mu / math.sqrt(8)) * (1 + MARGIN) <= delta:  # delta_G(mu, 0) = 2 Phi(mu / 2) - 1
        return 0.0
    if mu <= mu_for(SMALLEST_EPSILON, delta) * (1 - HEADROOM):
        return SMALLEST_EPSILON
    with np.errstate(divide="ignore"):
        return float(get_epsilon_gaussian(1 / mu, delta)) * (1 + MARGIN)


def epsilon_with_mass(mass: float, delta: float, epsilon_at: Callable[[float], float]) -> float:
    """The smallest epsilon with epsilon_at(delta - (1 + e^epsilon) mass) <= epsilon; infinity if there is none.

    Parameters
    ----------
    mass
        Total variation, at most, between either neighbour's answers and the idealised ones that `epsilon_at` accounts for.
    delta
        Of the guarantee wanted.
    epsilon_at
        The epsilon of the idealised answers at a delta.
    """
    epsilon = 0.0
    for _ in range(200):  # epsilon grows in every round; a fixed point is reached within a few, or never
        left = delta - (1 + math.exp(min(epsilon, 700.0))) * mass
        if left <= 0:
            return math.inf
        tighter = epsilon_at(left)
        if tighter <= epsilon:
            return epsilon
        epsilon = tighter * (1 + MARGIN)
    return math.inf
