"""The best of a random number of attempts. Imports the base, Renyi divergences and nightfit.types."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from nightfit.privacy.accounting.costs import Currency, Price, RenyiOrder
from nightfit.privacy.accounting.renyi import repeated_epsilon
from nightfit.privacy.events.base import ROUND_UP, BaseEvent, check_counts, check_positive
from nightfit.types import WHOLE, Adjacency, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedEvent(BaseEvent):
    """The best of K attempts, by a score that each pays for itself; K is geometric, and nothing of the other attempts is released.

    Parameters
    ----------
    label
        Names the search inside its plan.
    attempt_rho
        The zero-concentrated cost of one attempt, its score included.
    mean
        Of K, which is drawn by coins that nobody sees.
    coordinates
        The length of the stored answer, at most.
    adjacency
        Which data sets are neighbours.
    draw
        The records that are read.

    Raises
    ------
    ValueError
        If a number is not positive, or the mean is below 2.

    Notes
    -----
    Guarantee: for all orders a > 1 and b >= 1 the Renyi divergence of order a is at most
    a rho + 2 ((b - 1) rho + log(mean) / b) + log(mean) / (a - 1), rho that of an attempt (Papernot, Steinke 2022, thm 2 with their
    lambda = a, lambda-hat = b, eta = 1, gamma = 1 / mean; Liu, Talwar 2019). Broken by
    test_a_repeated_search_costs_no_less_than_another_accountant_says.
    """

    mechanism: ClassVar[str] = "repeat_and_select"
    label: str
    attempt_rho: float
    mean: int
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        check_positive(self.label, attempt_rho=self.attempt_rho)
        check_counts(self.label, coordinates=self.coordinates)
        if self.mean < 2:
            raise ValueError(f"{self.label}: a random number of attempts has a mean of at least 2, got {self.mean}")

    def divergence(self, alpha: float) -> float:
        """The bound at the best order from `alpha` up (divergences grow with their order) and at the best b; rounded up."""
        rho, log_mean = self.attempt_rho, math.log(self.mean)
        b = max(1.0, math.sqrt(log_mean / rho))
        a = max(alpha, 1 + math.sqrt(log_mean / rho))
        return (a * rho + 2 * ((b - 1) * rho + log_mean / b) + log_mean / (a - 1)) * ROUND_UP

    @property
    def rho(self) -> Fraction:
        """M, the least of the bounds, at its order a*: divergence(a) is M up to a*, and beyond at most a rho + M - a* rho <= a M."""
        return Fraction(self.divergence(1.0))

    @property
    def single_order(self) -> bool:
        return True

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """Its divergence at the policy's order, as a rho; without an order the rho that holds at all of them."""
        return Price(self.rho) if order is None else Price(Fraction(self.divergence(order.alpha)) / Fraction(order.alpha))

    def epsilon_alone(self, delta: float) -> float:
        return repeated_epsilon(self.attempt_rho, self.mean, delta)
