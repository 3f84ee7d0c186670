"""Discrete Gaussian noise. Imports the base, Renyi divergences and nightfit.types."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from nightfit.privacy.accounting.costs import MARGIN, Currency, CurrencyError, Price, RenyiOrder
from nightfit.privacy.accounting.renyi import sampled_gaussian_divergence
from nightfit.privacy.events.base import BaseEvent, check_counts, check_positive
from nightfit.types import WHOLE, Adjacency, Draw


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianEvent(BaseEvent):
    """One release of an integer vector with independent discrete Gaussian noise, of everybody, a part or a Poisson sample.

    Neighbours are told apart no better than N(0, 1) from N(mu, 1) with mu = sensitivity / sigma, up to the total variation that
    `lattice_mass` bounds. Sensitivity and sigma are both stored, never their ratio alone: a bare noise multiplier means different things
    to different accountants.

    Parameters
    ----------
    label
        Names the query inside its plan.
    sensitivity
        Bounds the l2 distance, in grid steps, between the vectors of two neighbours under `adjacency`; for a sample, of a record that was
        drawn.
    sigma
        The noise parameter in grid steps.
    coordinates
        The length of the vector.
    adjacency
        Which data sets are neighbours.
    draw
        The records that are read.
    removal
        Bounds the distance where a unit leaves the records that are read, or joins them; None if `sensitivity` serves for that too.

    Raises
    ------
    ValueError
        If a number is not positive, or a Poisson sample is priced under replace_one, for which we have no proof.
    """

    mechanism: ClassVar[str] = "discrete_gaussian"
    label: str
    sensitivity: float
    sigma: float
    coordinates: int
    adjacency: Adjacency
    draw: Draw = WHOLE
    removal: float | None = None

    def __post_init__(self) -> None:
        check_positive(self.label, sensitivity=self.sensitivity, sigma=self.sigma, removal=self.removal_sensitivity)
        check_counts(self.label, coordinates=self.coordinates)
        if self.sampled and self.adjacency is Adjacency.REPLACE_ONE:
            raise ValueError(
                f"{self.label}: no proven accountant for Poisson samples under replace_one: use adjacency zero_out or add_remove"
            )

    @property
    def mu_squared(self) -> Fraction:
        """(sensitivity / sigma)^2, exactly; of a record that was drawn."""
        return (Fraction(self.sensitivity) / Fraction(self.sigma)) ** 2

    @property
    def removal_sensitivity(self) -> float:
        """Of a unit that comes or goes."""
        return self.sensitivity if self.removal is None else self.removal

    @property
    def rho(self) -> Fraction:
        """mu^2 / 2 (Canonne, Kamath, Steinke 2020: exact for the discrete Gaussian too); sampling only lowers it."""
        return self.mu_squared / 2

    @property
    def lattice_mass(self) -> Fraction:
        """0.021 coordinates / sigma^2: total variation between the discrete Gaussian and a rounded continuous one.

        The constant holds from sigma = 1 up; below, each coordinate counts as 1, which is more than any total variation. Broken by
        test_the_lattice_mass_bounds_the_distance_to_a_rounded_gaussian.
        """
        return Fraction(21, 1000) * self.coordinates / Fraction(self.sigma) ** 2 if self.sigma >= 1 else Fraction(self.coordinates)

    @property
    def gaussian(self) -> Price:
        return Price(self.mu_squared, self.lattice_mass)

    @property
    def noise_scale(self) -> float:
        return self.sigma

    def supports(self, currency: Currency) -> bool:
        return currency is Currency.ZCDP or (currency is Currency.GAUSSIAN and not self.sampled)

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """mu^2 and the lattice's mass; in zCDP rho, or a sample's divergence at the policy's order.

        A sample's mass is (1 + e^epsilon) times its lattice mass, because both neighbours' answers are that far from those of continuous
        noise, of which the divergence is known. Broken by test_a_sample_pays_for_the_lattices_of_both_neighbours.
        """
        if currency is Currency.GAUSSIAN:
            return self.gaussian
        if not self.sampled:
            return Price(self.rho)
        if order is None:
            raise CurrencyError(f"{self.label!r} is on a Poisson sample: its price needs the Renyi order of a zcdp policy")
        divergence = sampled_gaussian_divergence(float(self.mu_squared), self.draw.fraction, order.alpha)
        mass = self.lattice_mass * (1 + Fraction(math.exp(order.epsilon) * (1 + MARGIN)))
        return Price(Fraction(divergence) / Fraction(order.alpha), mass)

    def mass_of_group(self, currency: Currency, rows: int) -> Fraction:
        """That of one unit: the lattice's mass is the distance to a continuous Gaussian on the same data, whoever the neighbours are."""
        if self.sampled:
            raise CurrencyError(f"{self.label!r} is on a Poisson sample, of which nothing is proved for a group of units")
        return self.price(currency, None).mass

    def removal_price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """The price at the sensitivity of a removal; the lattice's mass does not depend on it."""
        return replace(self, sensitivity=self.removal_sensitivity).price(currency, order)
