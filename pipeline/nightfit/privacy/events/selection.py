"""Noisy selection. Imports the base and nightfit.types."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from nightfit.privacy.accounting.costs import Currency, Price, RenyiOrder
from nightfit.privacy.events.base import BaseEvent, check_counts, check_positive
from nightfit.types import WHOLE, Adjacency, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionEvent(BaseEvent):
    """The indices of the `chosen` largest of `coordinates` scores after independent Gumbel noise, without their values.

    Parameters
    ----------
    label
        Names the query inside its plan.
    sensitivity
        Bounds how far, in grid steps, any one score moves between neighbours.
    scale
        Of the Gumbel noise, in grid steps.
    chosen
        How many indices are released.
    coordinates
        The number of scores.
    adjacency
        Which data sets are neighbours.
    draw
        The records that are read.
    removal
        Bounds a score's move where a unit leaves the records that are read, or joins them; None if `sensitivity` serves for that too.

    Raises
    ------
    ValueError
        If a number is not positive, or more are chosen than there are scores.

    Notes
    -----
    Guarantee: choosing one by one, without replacement, is `chosen` exponential mechanisms of epsilon0 = 2 sensitivity / scale
    (one-shot top-k is peeling: Durfee, Rogers 2019), each of rho = epsilon0^2 / 8 (bounded range: Cesar, Rogers 2021), so
    rho = chosen sensitivity^2 / (2 scale^2). Broken by test_selection_has_the_distribution_of_the_exponential_mechanism.
    """

    mechanism: ClassVar[str] = "gumbel_selection"
    label: str
    sensitivity: float
    scale: float
    chosen: int
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE
    removal: float | None = None

    def __post_init__(self) -> None:
        check_positive(self.label, sensitivity=self.sensitivity, scale=self.scale, removal=self.removal_sensitivity)
        check_counts(self.label, chosen=self.chosen, coordinates=self.coordinates)
        if self.chosen > self.coordinates:
            raise ValueError(f"{self.label}: cannot choose {self.chosen} of {self.coordinates} scores")

    @property
    def removal_sensitivity(self) -> float:
        """Of a unit that comes or goes."""
        return self.sensitivity if self.removal is None else self.removal

    @property
    def rho(self) -> Fraction:
        return self.chosen * (Fraction(self.sensitivity) / Fraction(self.scale)) ** 2 / 2

    @property
    def pure(self) -> tuple[Fraction, int]:
        """(2 sensitivity / scale, chosen)."""
        return 2 * Fraction(self.sensitivity) / Fraction(self.scale), self.chosen

    def supports(self, currency: Currency) -> bool:
        return currency in (Currency.ZCDP, Currency.APPROXIMATE)

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """rho, or the sum of pure epsilons."""
        epsilon, times = self.pure
        return Price(epsilon * times if currency is Currency.APPROXIMATE else self.rho)

    def removal_price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """The price at the sensitivity of a removal."""
        return replace(self, sensitivity=self.removal_sensitivity).price(currency, order)

    @property
    def noise_scale(self) -> float:
        return self.scale
