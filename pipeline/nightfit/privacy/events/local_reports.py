"""Reports under local privacy. Imports the base and nightfit.types."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from nightfit.privacy.accounting.costs import Currency, Price, RenyiOrder
from nightfit.privacy.events.base import BaseEvent, check_counts, check_positive
from nightfit.types import WHOLE, Adjacency, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class PureEvent(BaseEvent):
    """Reports that their owners randomised, at most `reports` of one unit, each `epsilon` locally private.

    Parameters
    ----------
    label
        Names the reports inside their plan.
    epsilon
        Of one report.
    reports
        How many one unit sends, at most.
    coordinates
        The length of what the server makes of them.
    adjacency
        Which data sets are neighbours.
    draw
        The records that report.

    Raises
    ------
    ValueError
        If a number is not positive.

    Notes
    -----
    Guarantee: k reports of one unit are k epsilon private (basic composition), whatever the others do; epsilon-private is
    epsilon^2 / 2 zero-concentrated (Bun, Steinke 2016, prop. 1.4), and that adds: rho = reports epsilon^2 / 2. Broken by
    test_many_small_reports_cost_less_than_their_sum_and_few_exactly_it.
    """

    mechanism: ClassVar[str] = "local_reports"
    label: str
    epsilon: float
    reports: int
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        check_positive(self.label, epsilon=self.epsilon)
        check_counts(self.label, reports=self.reports, coordinates=self.coordinates)

    @property
    def rho(self) -> Fraction:
        return self.reports * Fraction(self.epsilon) ** 2 / 2

    @property
    def pure(self) -> tuple[Fraction, int]:
        """(epsilon, reports)."""
        return Fraction(self.epsilon), self.reports

    def supports(self, currency: Currency) -> bool:
        return currency is not Currency.GAUSSIAN

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        return Price(self.reports * Fraction(self.epsilon)) if currency.adds_epsilons else Price(self.rho)
