"""What a question costs, as frozen data. Imports pipeline.types only."""

import math
from dataclasses import dataclass
from fractions import Fraction

from pipeline.types import Adjacency


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianEvent:
    """One release of an integer vector with independent discrete Gaussian noise.

    `sensitivity` bounds the l2 distance, in grid steps, between the vectors of two neighbours under `adjacency`; `sigma` is the
    noise parameter in grid steps, so neighbours are told apart no better than N(0, 1) from N(mu, 1) with
    mu = sensitivity / sigma, up to the total variation that `lattice_mass` bounds. Both numbers are stored, never their ratio
    alone: a bare noise multiplier means different things to different accountants.
    """

    label: str
    sensitivity: float
    sigma: float
    coordinates: int
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0):
            raise ValueError(f"{self.label}: sensitivity must be positive and finite, got {self.sensitivity}")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"{self.label}: sigma must be positive and finite, got {self.sigma}")
        if self.coordinates < 1:
            raise ValueError(f"{self.label}: coordinates must be at least 1, got {self.coordinates}")

    @property
    def mu_squared(self) -> Fraction:
        """(sensitivity / sigma)^2, exactly."""
        return (Fraction(self.sensitivity) / Fraction(self.sigma)) ** 2

    @property
    def rho(self) -> Fraction:
        """The zero-concentrated cost mu^2 / 2 (Canonne, Kamath, Steinke 2020: exact for the discrete Gaussian too)."""
        return self.mu_squared / 2

    @property
    def lattice_mass(self) -> Fraction:
        """0.021 coordinates / sigma^2: total variation between the discrete Gaussian and a rounded continuous one.

        The constant holds from sigma = 1 up; below, each coordinate counts as 1, which is more than any total variation.
        """
        return Fraction(21, 1000) * self.coordinates / Fraction(self.sigma) ** 2 if self.sigma >= 1 else Fraction(self.coordinates)

    def as_dict(self) -> dict[str, object]:
        return {
            "mechanism": "discrete_gaussian",
            "label": self.label,
            "sensitivity": self.sensitivity,
            "sigma": self.sigma,
            "coordinates": self.coordinates,
            "adjacency": str(self.adjacency),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, object]) -> "GaussianEvent":
        if stored.get("mechanism") != "discrete_gaussian":
            raise ValueError(f"unknown mechanism {stored.get('mechanism')!r}")
        return cls(
            label=str(stored["label"]),
            sensitivity=float(stored["sensitivity"]),  # type: ignore[arg-type]
            sigma=float(stored["sigma"]),  # type: ignore[arg-type]
            coordinates=int(stored["coordinates"]),  # type: ignore[call-overload]
            adjacency=Adjacency(str(stored["adjacency"])),
        )
