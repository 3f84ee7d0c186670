"""What accountants, gate and ledger ask of an event. Imports costs and nightfit.types."""

from fractions import Fraction
from typing import Any, ClassVar, Protocol

from nightfit.privacy.accounting.costs import Currency, Price, RenyiOrder
from nightfit.types import Adjacency, Draw


class Event(Protocol):
    """One query with its noise, as frozen data: the mechanism, its sensitivity, and the records that it reads. Equal ones cost the same."""

    mechanism: ClassVar[str]

    def __hash__(self) -> int: ...

    @property
    def label(self) -> str:
        """Names the query inside its plan."""

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def draw(self) -> Draw:
        """The records that it reads. Two events on parts that do not overlap concern different records."""

    @property
    def coordinates(self) -> int:
        """The length of the answer, or the number of scores that it is chosen from."""

    @property
    def sampled(self) -> bool:
        """Whether it reads a Poisson sample."""

    @property
    def noise_scale(self) -> float | None:
        """The scale of its noise in grid steps; None where noise is not drawn on the grid."""

    @property
    def gaussian(self) -> Price | None:
        """mu^2 and the mass of the lattice, of a record that was drawn; None where the mechanism is not Gaussian."""

    @property
    def pure(self) -> tuple[Fraction, int] | None:
        """(epsilon, k): k mechanisms that are each epsilon private with delta 0; None where there is no such epsilon."""

    @property
    def single_order(self) -> bool:
        """Whether its zCDP price holds at one Renyi order only, so that the policy that paid for it cannot change."""

    @property
    def calibrated_alone(self) -> bool:
        """Whether its noise comes from an accountant of its own, not from a share of the plan's rho."""

    def supports(self, currency: Currency) -> bool:
        """Whether it has a price in this currency."""

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """Its price in a currency that it supports; `order` is that of a zCDP budget."""

    def removal_price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """Its price for a unit that leaves the records that it reads, or joins them, in a currency that it supports."""

    def mass_of_group(self, currency: Currency, rows: int) -> Fraction:
        """The mass of its price for a group of `rows` units that change together, where the price itself is for one of them.

        The amount of a group is rows^2 times that of one in the currencies gaussian and zcdp, and rows times it where epsilons add.
        """

    def epsilon_alone(self, delta: float) -> float | None:
        """The epsilon of this event by itself, where that is tighter than any composition; None where it is not."""

    @property
    def stated(self) -> tuple[Fraction, Fraction] | None:
        """(epsilon, delta) of a proof of its own, which is checked here; None where there is none."""

    def as_dict(self) -> dict[str, Any]:
        """The stored form; `event_from_dict` reads it."""
