"""Accounting: from events to costs, from costs to epsilon(delta), and from (epsilon, delta) to a budget.

Contents
--------
costs
    `Currency`, `Cost` and `Price`: what is added up, exactly. `RenyiOrder`: the one order of a zCDP budget.
event
    `Event`: what an accountant asks of a mechanism. `privacy.events` implements it.
composition
    `cost` and `tight_epsilon` of many events, at the worst record.
budgets
    `limit` of a budget, `epsilon_of` what was spent, `renyi_order_for` a budget.
gaussian, renyi, loss_distributions
    The conversions, by dp_accounting: of N(0, 1) against N(mu, 1), by Renyi divergences, by privacy loss distributions.
    The only importers of dp_accounting, inside functions because it takes a second to import.
smooth
    Gaussian noise whose scale is a smooth sensitivity.

Imports nightfit.types, numpy and scipy. Knows no mechanism: a new one is a new file in `privacy.events`.
"""

from nightfit.privacy.accounting.budgets import (
    LARGEST_EPSILON,
    check_budget,
    epsilon_for,
    epsilon_of,
    lattice_share_for,
    limit,
    renyi_order_for,
)
from nightfit.privacy.accounting.composition import cost, tight_epsilon
from nightfit.privacy.accounting.costs import UNIT, Cost, Currency, CurrencyError, Price, RenyiOrder, short_of
from nightfit.privacy.accounting.event import Event
from nightfit.privacy.accounting.loss_distributions import sampled_multiplier
from nightfit.privacy.accounting.smooth import smooth_gaussian_delta, smooth_gaussian_shift

__all__ = [
    "LARGEST_EPSILON",
    "UNIT",
    "Cost",
    "Currency",
    "CurrencyError",
    "Event",
    "Price",
    "RenyiOrder",
    "check_budget",
    "cost",
    "epsilon_for",
    "epsilon_of",
    "lattice_share_for",
    "limit",
    "renyi_order_for",
    "sampled_multiplier",
    "short_of",
    "smooth_gaussian_delta",
    "smooth_gaussian_shift",
    "tight_epsilon",
]
