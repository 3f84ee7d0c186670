"""Numbers with the variances of their noise and of the sampling of units, and their intervals. Imports numpy and types."""

import math
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.9
"""Of all intervals of an evaluation: one in ten may be wrong, which a team that looks every night can live with."""

DEVIATIONS = NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the variance of its error, noise and sampling together."""

    value: float
    variance: float

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, self.variance)

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference of independent estimates."""
        return Estimate(self.value - other.value, self.variance + other.variance)

    def scaled(self, factor: float) -> "Estimate":
        """The estimate in other units."""
        return Estimate(self.value * factor, self.variance * factor**2)

    def over(self, other: "Estimate") -> "Estimate":
        """The ratio of independent estimates, by the delta method. Where both rise together the variance is too large."""
        ratio = self.value / other.value
        return Estimate(ratio, (self.variance + ratio**2 * other.variance) / other.value**2)

    def interval(self, low: float = -math.inf, high: float = math.inf) -> dict[str, float]:
        """Value and interval at LEVEL as plain data, clamped to the values that the number can have."""
        half = DEVIATIONS * math.sqrt(self.variance)
        clamped = [min(max(end, low), high) for end in (self.value, self.value - half, self.value + half)]
        return dict(zip(("value", "low", "high"), clamped, strict=True))

    def root(self) -> dict[str, float]:
        """The square root of a number that is not negative, with the roots of its interval's ends."""
        return {name: math.sqrt(end) for name, end in self.interval(low=0.0).items()}


def unknown(low: float, high: float, value: float) -> dict[str, float]:
    """What noise hides: an interval of every value that there can be."""
    return {"value": value, "low": low, "high": high}


def exactly(value: float) -> dict[str, float]:
    """A number that is known by definition."""
    return {"value": value, "low": value, "high": value}
