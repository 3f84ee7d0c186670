"""Exact costs in four currencies. Imports the standard library only."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

UNIT = Fraction(1, 2**200)  # so fine that a billion upward roundings add less than 1e-50 to any cost
MARGIN = 1e-9  # relative; more than the error of dp_accounting's roots (1e-10) and of the few floating-point operations around them


class Currency(StrEnum):
    """The privacy notion in which a ledger adds costs and refuses.

    Each is a valid filter: a sum fixed in advance bounds any adaptive sequence of queries.

    gaussian: the sum of mu^2 of Gaussian queries, converted exactly (Dong, Roth, Su 2022; Balle, Wang 2018, thm 8).
    zcdp: the sum of rho and of a probability of failure, converted by the best Renyi order (Canonne, Kamath, Steinke 2020,
    prop. 12); Poisson samples and repeated attempts at the one order that the budget fixes.
    pure: the sum of epsilon of queries that are private without a delta (local reports); a policy's delta is not used.
    approximate: the sums of epsilon and of delta of queries that have both of their own (basic composition; as a filter: Rogers, Roth,
    Ullman, Vadhan 2016, thm 5.1).
    """

    GAUSSIAN = "gaussian"
    ZCDP = "zcdp"
    PURE = "pure"
    APPROXIMATE = "approximate"

    @property
    def adds_epsilons(self) -> bool:
        """Whether an amount is an epsilon."""
        return self in (Currency.PURE, Currency.APPROXIMATE)


class CurrencyError(ValueError):
    """The currency of the data set's policy does not support an event."""


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of a currency and a mass of delta, in whole units of 2^-200: addition is exact."""

    amount: int = 0
    mass: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.amount + other.amount, self.mass + other.mass)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.amount - other.amount, self.mass - other.mass)

    def fits(self, limit: "Cost") -> bool:
        """Whether neither amount nor mass exceeds that of `limit`."""
        return self.amount <= limit.amount and self.mass <= limit.mass


def short_of(needed: Cost, limit: Cost, currency: Currency) -> str:
    """Which part of a budget does not hold a cost, in words: epsilon, delta, or the mass of delta for the lattices of discrete noise."""
    if needed.amount > limit.amount:
        return "epsilon"
    return "mass, the share of delta for the lattices of discrete noise" if currency is Currency.GAUSSIAN else "delta"


@dataclass(frozen=True, slots=True)
class Price:
    """An amount of a currency and a mass of delta as exact numbers: what one event costs before rounding."""

    amount: Fraction
    mass: Fraction = Fraction(0)

    def rounded_up(self) -> Cost:
        """In whole units, each part rounded upward."""
        return Cost(math.ceil(self.amount / UNIT), math.ceil(self.mass / UNIT))


@dataclass(frozen=True, slots=True)
class RenyiOrder:
    """The order `alpha` that a zCDP budget of `epsilon` fixes for life.

    Poisson samples and repeated attempts have divergences that are no multiple of their order, so they are priced at one order. A sum of
    divergences at an order chosen in advance is a valid filter; choosing the best order afterwards is not.
    """

    epsilon: float
    alpha: float
