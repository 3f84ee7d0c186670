"""What a question costs, as frozen data. Imports nightfit.types only."""

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from nightfit.types import WHOLE, Adjacency, Draw, Part, Sample


class Event(Protocol):
    """One question, put to the records of one draw. Two events on parts that do not overlap concern different records."""

    mechanism: ClassVar[str]

    @property
    def label(self) -> str: ...

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def draw(self) -> Draw: ...

    @property
    def coordinates(self) -> int:
        """The length of the answer, or of what it is chosen from."""

    @property
    def noise_scale(self) -> float | None:
        """The scale of the noise in grid steps; None if the noise is not drawn on a grid."""

    @property
    def rho(self) -> Fraction:
        """Its zero-concentrated cost: alpha rho bounds the Renyi divergence of every order alpha, but for `mass`."""

    @property
    def mass(self) -> Fraction:
        """The probability with which it may fail to be so."""

    def as_dict(self) -> dict[str, Any]: ...


class Stored:
    """Shared by events: to and from plain data."""

    mechanism: ClassVar[str]

    def as_dict(self) -> dict[str, Any]:
        said = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        draw = said.pop("draw", WHOLE)
        drawn = {} if draw == WHOLE else {"draw": {entry.name: getattr(draw, entry.name) for entry in fields(draw)}}
        return {"mechanism": self.mechanism, **said, "adjacency": str(said["adjacency"]), **drawn}


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianEvent(Stored):
    """One release of an integer vector with independent discrete Gaussian noise, of everybody, a part or a Poisson sample.

    `sensitivity` bounds the l2 distance, in grid steps, between the vectors of two neighbours under `adjacency`; `sigma` is the
    noise parameter in grid steps, so neighbours are told apart no better than N(0, 1) from N(mu, 1) with
    mu = sensitivity / sigma, up to the total variation that `lattice_mass` bounds. Both numbers are stored, never their ratio
    alone: a bare noise multiplier means different things to different accountants. A sample's `sensitivity` is that of a record
    that was drawn.
    """

    mechanism: ClassVar[str] = "discrete_gaussian"
    label: str
    sensitivity: float
    sigma: float
    coordinates: int
    adjacency: Adjacency
    draw: Draw = WHOLE

    def __post_init__(self) -> None:
        _positive(self.label, sensitivity=self.sensitivity, sigma=self.sigma)
        _counted(self.label, coordinates=self.coordinates)
        if isinstance(self.draw, Sample) and self.adjacency is Adjacency.REPLACE_ONE:
            raise ValueError(
                f"{self.label}: no proven accountant for Poisson samples under replace_one: use adjacency zero_out or add_remove"
            )

    @property
    def noise_scale(self) -> float:
        return self.sigma

    @property
    def mu_squared(self) -> Fraction:
        """(sensitivity / sigma)^2, exactly; of a record that was drawn."""
        return (Fraction(self.sensitivity) / Fraction(self.sigma)) ** 2

    @property
    def rho(self) -> Fraction:
        """mu^2 / 2 (Canonne, Kamath, Steinke 2020: exact for the discrete Gaussian too); sampling only lowers it."""
        return self.mu_squared / 2

    @property
    def mass(self) -> Fraction:
        return Fraction(0)

    @property
    def lattice_mass(self) -> Fraction:
        """0.021 coordinates / sigma^2: total variation between the discrete Gaussian and a rounded continuous one.

        The constant holds from sigma = 1 up; below, each coordinate counts as 1, which is more than any total variation.
        """
        return Fraction(21, 1000) * self.coordinates / Fraction(self.sigma) ** 2 if self.sigma >= 1 else Fraction(self.coordinates)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionEvent(Stored):
    """The `chosen` largest of `coordinates` scores after independent Gumbel(scale) noise, without their values.

    `sensitivity` bounds how far, in grid steps, any one score moves between neighbours.
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

    def __post_init__(self) -> None:
        _positive(self.label, sensitivity=self.sensitivity, scale=self.scale)
        _counted(self.label, chosen=self.chosen, coordinates=self.coordinates)
        if self.chosen > self.coordinates:
            raise ValueError(f"{self.label}: cannot choose {self.chosen} of {self.coordinates} scores")

    @property
    def noise_scale(self) -> float:
        return self.scale

    @property
    def epsilon(self) -> Fraction:
        """The pure cost chosen * 2 sensitivity / scale."""
        return 2 * self.chosen * Fraction(self.sensitivity) / Fraction(self.scale)

    @property
    def rho(self) -> Fraction:
        return self.chosen * (Fraction(self.sensitivity) / Fraction(self.scale)) ** 2 / 2

    @property
    def mass(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothEvent(Stored):
    """Each of `coordinates` numbers plus S / shift times noise of a `family`, where S is `smoothness`-smooth: it bounds the number's
    move and changes by a factor of at most e^smoothness between neighbours.

    Guarantee: every coordinate costs rho = epsilon^2 / 2 where `epsilon` is what the family's theorem gives for (smoothness,
    shift): laplace_log_normal: smoothness / spread + e^(1.5 spread^2) shift (Bun, Steinke 2019, prop. 3); arsinh_normal:
    sqrt(t (t + 3)) + (7 / 6) shift with t the smoothness (thm 25 at spread 1). Broken by
    test_smooth_noise_costs_no_more_than_its_event_says.
    """

    mechanism: ClassVar[str] = "smooth_sensitivity"
    noise_scale: ClassVar[None] = None
    label: str
    family: str
    smoothness: float
    shift: float
    spread: float
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        _positive(self.label, smoothness=self.smoothness, shift=self.shift, spread=self.spread)
        _counted(self.label, coordinates=self.coordinates)
        if self.family not in ("laplace_log_normal", "arsinh_normal"):
            raise ValueError(f"{self.label}: unknown noise {self.family!r}: laplace_log_normal or arsinh_normal")
        if self.family == "arsinh_normal" and self.spread != 1:
            raise ValueError(f"{self.label}: arsinh_normal is proved here at spread 1 only")

    @property
    def epsilon(self) -> Fraction:
        """epsilon0 of one coordinate, rounded up."""
        t, s = self.smoothness, self.shift
        if self.family == "laplace_log_normal":
            value = t / self.spread + math.exp(1.5 * self.spread**2) * s
        else:
            value = math.sqrt(t * (t + 3)) + 7 / 6 * s
        return Fraction(value * (1 + 1e-12))

    @property
    def rho(self) -> Fraction:
        return self.coordinates * self.epsilon**2 / 2

    @property
    def mass(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SmoothGaussianEvent(Stored):
    """A vector plus S / shift times standard Gaussian noise, where S is `smoothness`-smooth and bounds the vector's move.

    Gaussian noise whose scale changes has no Renyi curve at large orders: it is (epsilon, delta) private by a proof of its own
    (accounting.smooth_gaussian_delta, which accounting checks before it prices the event).
    Guarantee: (epsilon, delta) is delta-approximate epsilon^2 / 2 zero-concentrated (Bun, Steinke 2016, prop. 1.4 and sec. 8),
    which adds with everything else. Broken by test_gaussian_noise_of_a_smooth_scale_is_as_private_as_its_event_says.
    """

    mechanism: ClassVar[str] = "smooth_gaussian"
    noise_scale: ClassVar[None] = None
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
        _positive(self.label, smoothness=self.smoothness, shift=self.shift, epsilon=self.epsilon, delta=self.delta)
        _counted(self.label, coordinates=self.coordinates)
        if self.delta >= 1:
            raise ValueError(f"{self.label}: delta must be below 1, got {self.delta}")

    @property
    def rho(self) -> Fraction:
        return Fraction(self.epsilon) ** 2 / 2

    @property
    def mass(self) -> Fraction:
        return Fraction(self.delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class PureEvent(Stored):
    """Reports that their owners randomised, at most `reports` of one unit, each `epsilon` locally private.

    Guarantee: k reports of one unit are k epsilon private (basic composition), whatever the others do; epsilon-private is
    epsilon^2 / 2 zero-concentrated (Bun, Steinke 2016, prop. 1.4), and that adds: rho = reports epsilon^2 / 2.
    """

    mechanism: ClassVar[str] = "local_reports"
    noise_scale: ClassVar[None] = None
    label: str
    epsilon: float
    reports: int
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        _positive(self.label, epsilon=self.epsilon)
        _counted(self.label, reports=self.reports, coordinates=self.coordinates)

    @property
    def rho(self) -> Fraction:
        return self.reports * Fraction(self.epsilon) ** 2 / 2

    @property
    def mass(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedEvent(Stored):
    """The best, by a score that it paid for itself, of K attempts, each `attempt_rho` zero-concentrated; K is geometric with mean
    `mean`, by coins that nobody sees, and neither K nor anything of the other attempts is told.

    Guarantee: for all orders a > 1 and b >= 1 the Renyi divergence of order a is at most
    a rho + 2 ((b - 1) rho + log(mean) / b) + log(mean) / (a - 1), rho that of an attempt (Papernot, Steinke 2022, thm 2 with their
    lambda = a, lambda-hat = b, eta = 1, gamma = 1 / mean; Liu, Talwar 2019). Broken by
    test_a_repeated_search_costs_no_less_than_another_accountant_says.
    """

    mechanism: ClassVar[str] = "repeat_and_select"
    noise_scale: ClassVar[None] = None
    label: str
    attempt_rho: float
    mean: int
    coordinates: int
    adjacency: Adjacency
    draw: Part = WHOLE

    def __post_init__(self) -> None:
        _positive(self.label, attempt_rho=self.attempt_rho)
        _counted(self.label, coordinates=self.coordinates)
        if self.mean < 2:
            raise ValueError(f"{self.label}: a random number of attempts has a mean of at least 2, got {self.mean}")

    def divergence(self, order: float) -> float:
        """The bound at the best order from `order` up (divergences grow with their order) and at the best b; rounded up."""
        rho, log_mean = self.attempt_rho, math.log(self.mean)
        b = max(1.0, math.sqrt(log_mean / rho))
        a = max(order, 1 + math.sqrt(log_mean / rho))
        return (a * rho + 2 * ((b - 1) * rho + log_mean / b) + log_mean / (a - 1)) * (1 + 1e-12)

    @property
    def rho(self) -> Fraction:
        """M, the least of the bounds, at its order a*: divergence(a) is M up to a*, and beyond at most a rho + M - a* rho <= a M."""
        return Fraction(self.divergence(1.0))

    @property
    def mass(self) -> Fraction:
        return Fraction(0)


def event_from_dict(stored: dict[str, Any]) -> Event:
    """The event that `as_dict` described."""
    kinds: tuple[Any, ...] = (GaussianEvent, SelectionEvent, SmoothEvent, SmoothGaussianEvent, PureEvent, RepeatedEvent)
    kind = next((kind for kind in kinds if kind.mechanism == stored.get("mechanism")), None)
    if kind is None:
        raise ValueError(f"unknown mechanism {stored.get('mechanism')!r}")
    said = {name: value for name, value in stored.items() if name not in ("mechanism", "draw")}
    drawn = stored.get("draw")
    draw: Draw = WHOLE if drawn is None else Sample(**drawn) if "rate" in drawn else Part(**drawn)
    event: Event = kind(**{**said, "adjacency": Adjacency(said["adjacency"]), "draw": draw})
    return event


def _positive(label: str, **values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{label}: {name} must be positive and finite, got {value}")


def _counted(label: str, **values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{label}: {name} must be at least 1, got {value}")
