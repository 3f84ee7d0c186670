"""Noise in proportion to a smooth sensitivity. Imports the base, the smooth accountant and nightfit.types."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from nightfit.privacy.accounting.costs import Currency, Price, RenyiOrder
from nightfit.privacy.accounting.smooth import smooth_gaussian_delta
from nightfit.privacy.events.base import ROUND_UP, BaseEvent, check_counts, check_positive
from nightfit.types import WHOLE, Adjacency, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothEvent(BaseEvent):
    """Each of `coordinates` numbers plus S / shift times noise of a `family`, where S is a smooth sensitivity.

    S bounds the number's move and changes by a factor of at most e^smoothness between neighbours.

    Parameters
    ----------
    label
        Names the query inside its plan.
    family
        Of the noise: laplace_log_normal or arsinh_normal.
    smoothness
        Of S.
    shift
        The number's move in units of the noise's scale, at most.
    spread
        The family's own parameter.
    coordinates
        How many numbers are released.
    adjacency
        Which data sets are neighbours.
    draw
        The records that are read.

    Raises
    ------
    ValueError
        If a number is not positive, or the family is not proved here.

    Notes
    -----
    Guarantee: every coordinate costs rho = epsilon^2 / 2 where `epsilon` is what the family's theorem gives for (smoothness,
    shift): laplace_log_normal: smoothness / spread + e^(1.5 spread^2) shift (Bun, Steinke 2019, prop. 3); arsinh_normal:
    sqrt(t (t + 3)) + (7 / 6) shift with t the smoothness (thm 25 at spread 1). Broken by
    test_smooth_noise_costs_no_more_than_its_event_says.
    """

    mechanism: ClassVar[str] = "smooth_sensitivity"
    label: str
    family: str
    smoothness: float
    shift: float
    spread: float
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        check_positive(self.label, smoothness=self.smoothness, shift=self.shift, spread=self.spread)
        check_counts(self.label, coordinates=self.coordinates)
        if self.family not in ("laplace_log_normal", "arsinh_normal"):
            raise ValueError(f"{self.label}: unknown noise {self.family!r}: laplace_log_normal or arsinh_normal")
        if self.family == "arsinh_normal" and self.spread != 1:
            raise ValueError(f"{self.label}: arsinh_normal is proved here at spread 1 only")

    @property
    def epsilon(self) -> Fraction:
        """The concentrated epsilon of one coordinate, rounded up."""
        t, s = self.smoothness, self.shift
        if self.family == "laplace_log_normal":
            value = t / self.spread + math.exp(1.5 * self.spread**2) * s
        else:
            value = math.sqrt(t * (t + 3)) + 7 / 6 * s
        return Fraction(value * ROUND_UP)

    @property
    def rho(self) -> Fraction:
        """coordinates epsilon^2 / 2."""
        return self.coordinates * self.epsilon**2 / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothGaussianEvent(BaseEvent):
    """A vector plus S / shift times standard Gaussian noise, where S is a smooth sensitivity of the vector.

    Gaussian noise whose scale changes has no Renyi curve at large orders: it is (epsilon, delta) private by a proof of its own, which is
    checked whenever the event is priced.

    Parameters
    ----------
    label
        Names the query inside its plan.
    smoothness
        Of S.
    shift
        The vector's move in units of the noise's scale, at most.
    epsilon, delta
        What the query is.
    coordinates
        The length of the vector.
    adjacency
        Which data sets are neighbours.
    draw
        The records that are read.

    Raises
    ------
    ValueError
        If a number is not positive or delta is not below 1; when priced, if the noise is less private than (epsilon, delta).

    Notes
    -----
    Guarantee: (epsilon, delta) is delta-approximate epsilon^2 / 2 zero-concentrated (Bun, Steinke 2016, prop. 1.4 and sec. 8),
    which adds with everything else. Broken by test_gaussian_noise_of_a_smooth_scale_is_as_private_as_its_event_says.
    """

    mechanism: ClassVar[str] = "smooth_gaussian"
    family: ClassVar[str] = "gaussian"
    spread: ClassVar[float] = 1.0
    label: str
    smoothness: float
    shift: float
    epsilon: float
    delta: float
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        check_positive(self.label, smoothness=self.smoothness, shift=self.shift, epsilon=self.epsilon, delta=self.delta)
        check_counts(self.label, coordinates=self.coordinates)
        if self.delta >= 1:
            raise ValueError(f"{self.label}: delta must be below 1, got {self.delta}")

    @property
    def rho(self) -> Fraction:
        """epsilon^2 / 2."""
        return Fraction(self.epsilon) ** 2 / 2

    @property
    def mass(self) -> Fraction:
        return Fraction(self.delta)

    @property
    def calibrated_alone(self) -> bool:
        return True

    def supports(self, currency: Currency) -> bool:
        return currency in (Currency.ZCDP, Currency.APPROXIMATE)

    def price(self, currency: Currency, order: RenyiOrder | None) -> Price:
        self._check_proof()
        return Price(Fraction(self.epsilon) if currency is Currency.APPROXIMATE else self.rho, self.mass)

    def mass_of_group(self, currency: Currency, rows: int) -> Fraction:
        """delta (e^(rows epsilon) - 1) / (e^epsilon - 1): a group is (rows epsilon, that) private (Dwork and Roth 2014, thm 2.2 with
        delta; Vadhan 2017, lemma 2.2), hence approximately rows^2 epsilon^2 / 2 zero-concentrated.
        """
        return Fraction(self.delta) * sum(Fraction(math.exp(j * self.epsilon) * ROUND_UP) for j in range(rows))

    @property
    def stated(self) -> tuple[Fraction, Fraction]:
        self._check_proof()
        return Fraction(self.epsilon), Fraction(self.delta)

    def _check_proof(self) -> None:
        if not smooth_gaussian_delta(self.epsilon, self.smoothness, self.shift, self.coordinates) <= self.delta:
            raise ValueError(f"{self.label!r} is not ({self.epsilon:g}, {self.delta:g}) private")
