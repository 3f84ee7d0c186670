"""What all events share. Imports the accounting's costs and nightfit.types."""

import math
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar

from nightfit.privacy.accounting.costs import Currency, CurrencyError, Price, RenyiOrder
from nightfit.types import WHOLE, Draw, Sample

ROUND_UP = 1 + 1e-12  # more than the roundings of an event's own formula, so that no price is rounded down


class BaseEvent:
    """An event with a price in zCDP and in no other currency: `rho`, and `mass`, the probability that rho does not hold.

    Every default fails closed: it refuses, or leaves the event to the looser accountant.
    """

    mechanism: ClassVar[str]
    label: str
    draw: Draw

    @property
    def rho(self) -> Fraction:
        """The zero-concentrated cost: alpha rho bounds the Renyi divergence of every order alpha."""
        raise NotImplementedError

    @property
    def mass(self) -> Fraction:
        return Fraction(0)

    @property
    def sampled(self) -> bool:
        return isinstance(self.draw, Sample)

    @property
    def noise_scale(self) -> float | None:
        return None

    @property
    def gaussian(self) -> Price | None:
        return None

    @property
    def pure(self) -> tuple[Fraction, int] | None:
        return None

    @property
    def single_order(self) -> bool:
        return self.sampled

    @property
    def calibrated_alone(self) -> bool:
        return self.sampled

    def supports(self, currency: Currency) -> bool:
        return currency is Currency.ZCDP

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        return Price(self.rho, self.mass)

    def removal_price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        """That of a replacement: one sensitivity serves both, unless the event declares another."""
        return self.price(currency, order)

    def mass_of_group(self, currency: Currency, rows: int) -> Fraction:
        """Zero; a CurrencyError where a price has a mass, unless the event proves what becomes of it."""
        if self.single_order or self.price(currency, None).mass:
            raise CurrencyError(f"{self.label!r} is a {self.mechanism}, of which nothing is proved for a group of units")
        return Fraction(0)

    def epsilon_alone(self, delta: float) -> float | None:
        return None

    @property
    def stated(self) -> tuple[Fraction, Fraction] | None:
        return None

    def as_dict(self) -> dict[str, Any]:
        stored = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        draw = stored.pop("draw", WHOLE)
        drawn = {} if draw == WHOLE else {"draw": {entry.name: getattr(draw, entry.name) for entry in fields(draw)}}
        declared = {name: value for name, value in stored.items() if value is not None}
        return {"mechanism": self.mechanism, **declared, "adjacency": str(stored["adjacency"]), **drawn}


def check_positive(label: str, **values: float) -> None:
    """Refuse a number that is not positive and finite, by its name."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{label}: {name} must be positive and finite, got {value}")


def check_counts(label: str, **values: int) -> None:
    """Refuse a count below 1, by its name."""
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{label}: {name} must be at least 1, got {value}")
