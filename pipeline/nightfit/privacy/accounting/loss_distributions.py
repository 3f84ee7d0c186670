"""Privacy loss distributions, rounded pessimistically: Poisson sampled Gaussians and randomised reports. Imports dp_accounting."""

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

from nightfit.privacy.accounting.costs import MARGIN
from nightfit.types import Adjacency

LATTICE_SHARE = Fraction(1, 2**14)  # of delta, for the lattices of discrete Gaussians: it costs less than 1e-5 of epsilon
SampledGaussian = tuple[float, float, Adjacency]


@cache
def sampled_gaussian_epsilon(counted: tuple[tuple[SampledGaussian, int], ...], delta: float) -> float:
    """The epsilon of Gaussian queries (mu^2, rate, adjacency), each asked so many times."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    relations = {Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE, Adjacency.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL}
    interval = 1e-3 if sum(times for _, times in counted) <= 2000 else 2e-4  # each composition adds one interval's rounding
    return _composed_epsilon(
        (
            privacy_loss_distribution.from_gaussian_mechanism(
                mu_squared**-0.5,
                sensitivity=1,
                sampling_prob=rate,
                value_discretization_interval=interval,
                neighboring_relation=relations.get(adjacency, NeighboringRelation.ADD_OR_REMOVE_ONE),
            ).self_compose(times)
            for (mu_squared, rate, adjacency), times in counted
        ),
        delta,
    )


@cache
def reports_epsilon(counted: tuple[tuple[float, int], ...], delta: float) -> float:
    """The epsilon of reports that are each epsilon private with delta 0, given as (epsilon, times).

    Randomised response is the worst of all that cost epsilon (Kairouz, Oh, Viswanath 2015), so its distribution bounds any adaptive
    sequence of them.
    """
    from dp_accounting.pld import privacy_loss_distribution

    return _composed_epsilon(
        (
            privacy_loss_distribution.from_randomized_response(
                2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=min(1e-3, epsilon / 100)
            ).self_compose(times)
            for epsilon, times in counted
        ),
        delta,
    )


def _composed_epsilon(distributions: Iterable[Any], delta: float) -> float:
    total = None
    for one in distributions:
        total = one if total is None else total.compose(one)
    return 0.0 if total is None else float(total.get_epsilon_for_delta(delta)) * (1 + MARGIN)


def sampled_multiplier(rate: float, steps: int, epsilon: float, delta: float, adjacency: Adjacency, beside: float = 0.0) -> float:
    """Calibrate the noise of Poisson samples.

    Parameters
    ----------
    rate
        The probability with which a sample takes a record.
    steps
        The number of samples.
    epsilon, delta
        The guarantee of all samples together.
    adjacency
        Which data sets are neighbours.
    beside
        mu^2 of Gaussian queries of all records that are asked too: the guarantee is of both together.

    Returns
    -------
    float
        The smallest noise, in sensitivities of a drawn record, at which `steps` samples are (epsilon, delta) private, rounded up.

    Raises
    ------
    ValueError
        Where no noise is enough.
    """
    kept = delta * float(1 - LATTICE_SHARE)
    low, high = 0.2, 0.4

    others = (((beside, 1.0, adjacency), 1),) if beside else ()

    def enough(multiplier: float) -> bool:
        return sampled_gaussian_epsilon((*others, ((multiplier**-2, rate, adjacency), steps)), kept) <= epsilon

    while not enough(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise ValueError(f"no noise makes {steps} samples of rate {rate:g} ({epsilon:g}, {delta:g}) private: fewer steps")
    while high > low * (1 + 1e-3):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
