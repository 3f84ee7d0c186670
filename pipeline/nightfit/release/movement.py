"""Which coefficients moved from one release to the next by more than their noise. Imports the document and numpy."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from nightfit.methods.intervals import INTERCEPT
from nightfit.release.document import Release
from nightfit.types import Array

FALSE_ALARMS = 0.05  # of all pairs of nights between which nothing changed, the share that names a coefficient


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A coefficient that moved, in the user's units."""

    name: str
    before: float
    after: float

    def words(self) -> str:
        """age 0.12 to 0.31."""
        return f"{self.name} {self.before:.3g} to {self.after:.3g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a release says of each term: its estimate, and how far noise may have moved that.

    Parameters
    ----------
    names
        Of the features, or of the columns whose means were released; the intercept is last where it has an interval.
    estimate, deviation, bias
        Unshrunk estimates with the standard deviation of privacy noise and sampling, and a bound on their bias; where a method knows no
        intervals, the released values with the deviation of the privacy noise alone. The deviation is NaN where the data decided it, and
        where a coefficient is not known alone: it is the released one then.
    """

    names: tuple[str, ...]
    estimate: Array
    deviation: Array
    bias: Array

    @classmethod
    def of(cls, release: Release) -> "Terms":
        """The terms of a release."""
        names = tuple(name for name, _, _ in release.terms)
        found = release.intervals
        if found is not None:
            named = (*names, INTERCEPT)[: len(found.estimate)]
            values = np.array([*(value for _, value, _ in release.terms), release.content["intercept"]])[: len(named)]
            estimate, bias = np.where(found.known, found.estimate, values), np.where(found.known, found.bias, 0.0)
            return cls(names=named, estimate=estimate, deviation=found.deviation, bias=bias)
        if release.class_intervals:
            return cls._of_classes(release)
        values = np.array([value for _, value, _ in release.terms])
        noise = np.array([np.nan if sd is None else sd for _, _, sd in release.terms])
        return cls(names=names, estimate=values, deviation=noise, bias=np.zeros(len(names)))

    @classmethod
    def _of_classes(cls, release: Release) -> "Terms":
        """The terms of each of several classes."""
        features, named = release.preprocessing.features, release.class_intervals.items()
        return cls(
            names=tuple(f"{label}: {name}" for label, found in named for name in (*features, INTERCEPT)[: len(found.estimate)]),
            estimate=np.concatenate([found.estimate for _, found in named]),
            deviation=np.concatenate([found.deviation for _, found in named]),
            bias=np.concatenate([found.bias for _, found in named]),
        )


def moved(before: Release, after: Release) -> tuple[Move, ...]:
    """The terms that moved beyond their noise: |b - a| > z sqrt(sd_a^2 + sd_b^2) + bias_a + bias_b.

    z is the normal quantile of 1 - FALSE_ALARMS / (2 d): all d terms together are named falsely in at most that share of nights
    (Bonferroni). Sampling is counted as if both nights had other records, so that with common ones moves are named later, never sooner.
    """
    old, new = Terms.of(before), Terms.of(after)
    place = {name: at for at, name in enumerate(old.names)}
    common = [(place[name], at) for at, name in enumerate(new.names) if name in place]
    if not common:
        return ()
    a, b = (np.array(side) for side in zip(*common, strict=True))
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * len(common)))
    reach = z * np.hypot(old.deviation[a], new.deviation[b]) + old.bias[a] + new.bias[b]
    far = np.abs(new.estimate[b] - old.estimate[a]) > reach
    return tuple(
        Move(name=new.names[at], before=float(old.estimate[was]), after=float(new.estimate[at]))
        for was, at, beyond in zip(a, b, far, strict=True)
        if beyond
    )
