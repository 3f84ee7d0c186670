"""Gaussian noise on counts whose coordinates are secret, told above a threshold. Imports the base, gaussian and nightfit.types."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from nightfit.privacy.accounting.costs import MARGIN, Currency, CurrencyError, Price, RenyiOrder
from nightfit.privacy.events.base import ROUND_UP, BaseEvent, check_counts, check_positive
from nightfit.privacy.events.gaussian import GaussianEvent
from nightfit.types import WHOLE, Adjacency, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdedEvent(BaseEvent):
    """Counts of the levels that occur with independent discrete Gaussian noise; the names of those above a threshold are told.

    Parameters
    ----------
    label
        Names the query inside its plan.
    sensitivity
        Bounds the l2 distance, in steps, between the counts of two neighbours under `adjacency`.
    sigma
        The noise parameter in steps.
    threshold
        In steps: a level is told if its noisy count exceeds it.
    contribution
        What one unit adds to a level, in steps.
    coordinates
        In which two neighbours may differ: two for each level that a unit counts in.
    most
        How many levels are told at most.
    adjacency
        Which data sets are neighbours.
    draw
        The records that are read.
    removal
        Bounds the distance where a unit leaves the records that are read, or joins them; None if `sensitivity` serves for that too.

    Notes
    -----
    Guarantee: let M' add noise to every level that occurs in either of two neighbours, also where its count is zero. M' is a Gaussian
    mechanism of sensitivity / sigma on them. What is really run differs from M' only if a level that does not occur is told; there
    are at most k = coordinates / 2 of them, each told with probability sf((threshold - 0) / sigma). `told_mass` is
    k sf((threshold - contribution) / sigma), which is more: it bounds the chance, too, that any level is told that only one unit has.
    It is a distance in total variation on each side, so it adds to the mass of the lattice, which concerns the coordinates in which
    neighbours differ and no others. Broken by test_a_level_of_one_unit_alone_is_told_no_more_often_than_stated.
    """

    mechanism: ClassVar[str] = "thresholded_gaussian"
    label: str
    sensitivity: float
    sigma: float
    threshold: int
    contribution: int
    coordinates: int
    most: int
    adjacency: Adjacency
    draw: Part = WHOLE
    removal: float | None = None

    def __post_init__(self) -> None:
        check_positive(self.label, sensitivity=self.sensitivity, sigma=self.sigma, removal=self.removal_sensitivity)
        check_counts(self.label, coordinates=self.coordinates, most=self.most, contribution=self.contribution)
        if not self.threshold > self.contribution:
            raise ValueError(f"{self.label}: threshold must be above the contribution of one unit, got {self.threshold}")

    @property
    def removal_sensitivity(self) -> float:
        """Of a unit that comes or goes."""
        return self.sensitivity if self.removal is None else self.removal

    @property
    def told_mass(self) -> Fraction:
        """k (1 - Phi((threshold - contribution) / sigma)) >= 1 - Phi(...)^k."""
        z = (self.threshold - self.contribution) / self.sigma
        return Fraction(math.erfc(z / math.sqrt(2)) / 2 * ROUND_UP) * -(-self.coordinates // 2)

    @property
    def counts(self) -> GaussianEvent:
        """The noisy counts without the threshold."""
        return GaussianEvent(
            label=self.label,
            sensitivity=self.sensitivity,
            sigma=self.sigma,
            coordinates=self.coordinates,
            adjacency=self.adjacency,
            draw=self.draw,
            removal=self.removal,
        )

    @property
    def rho(self) -> Fraction:
        return self.counts.rho

    @property
    def gaussian(self) -> Price:
        return Price(self.counts.mu_squared, self.counts.lattice_mass + self.told_mass)

    @property
    def noise_scale(self) -> float:
        return self.sigma

    @property
    def single_order(self) -> bool:
        return True  # its mass in zCDP holds at the epsilon of one budget

    def supports(self, currency: Currency) -> bool:
        return currency in (Currency.GAUSSIAN, Currency.ZCDP)

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """mu^2 and the mass; in zCDP rho and (1 + e^epsilon) times the mass, epsilon being the budget's: both neighbours' answers are that
        far from those that rho bounds.
        """
        if currency is Currency.GAUSSIAN:
            return self.gaussian
        if order is None:
            raise CurrencyError(f"{self.label!r} has a mass: its price needs the epsilon of a zcdp policy")
        return Price(self.rho, self.gaussian.mass * (1 + Fraction(math.exp(order.epsilon) * (1 + MARGIN))))

    def removal_price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """The price at the sensitivity of a removal."""
        return replace(self, sensitivity=self.removal_sensitivity).price(currency, order)
