"""Which raw values a target may have, and the numbers that a loss sees instead. Imports types."""

from enum import StrEnum
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from nightfit.types import Array

Pair = tuple[float, float]
ANYWHERE: Pair = (-np.inf, np.inf)


class Target(StrEnum):
    """The domain of a target. A record whose target lies outside of it counts as a row of zeros.

    real: any finite number.
    labels: 0 or 1, or -1 or 1; they are encoded as -1 and 1.
    counts: whole numbers from 0.
    non_negative: numbers from 0.
    positive: numbers above 0.
    classes: whole numbers from 0, the places of declared labels.
    """

    REAL = "real"
    LABELS = "labels"
    COUNTS = "counts"
    NON_NEGATIVE = "non_negative"
    POSITIVE = "positive"
    CLASSES = "classes"

    def holds(self, raw: Array) -> npt.NDArray[np.bool_]:
        """Whether each raw value lies in the domain; no number that is not finite does."""
        held: npt.NDArray[np.bool_] = np.isfinite(raw)
        if self is Target.LABELS:
            held &= np.isin(raw, (-1.0, 0.0, 1.0))
        elif self in (Target.COUNTS, Target.CLASSES):
            held &= (raw >= 0) & (raw == np.floor(raw))
        elif self is Target.NON_NEGATIVE:
            held &= raw >= 0
        elif self is Target.POSITIVE:
            held &= raw > 0
        return held

    def encoded(self, raw: Array) -> Array:
        """-1 or 1 for labels, any other value as it is."""
        return np.where(raw > 0, 1.0, -1.0) if self is Target.LABELS else raw

    def clamps(self, low: float, high: float) -> bool:
        """Whether encoded values of the domain stay in it when they are clamped to [low, high]."""
        if self is Target.REAL:
            return True
        if self is Target.LABELS:
            return low <= -1 and high >= 1
        # the others begin at 0 and have no upper end: a low end up to 0 is never reached
        ends = np.array([high] if low <= 0 else [low, high])
        return bool(np.all(self.holds(ends) | np.isinf(ends)))


class Treatment(TypedDict, total=False):
    """Fields of `Preprocessing`: y' = clip((y - target_centre) / target_scale, *target_reach)."""

    target_centre: float
    target_scale: float
    target_reach: Pair


def treatment(target: Target, scalable: bool, bounds: Pair | None) -> Treatment:
    """What public bounds of a target do to it.

    Parameters
    ----------
    target : the loss's domain. Labels have their encoding and need no bounds.
    scalable : whether the loss allows to centre and scale the target; if not, bounds only clamp it.
    bounds : public (low, high), or None where nothing is known.

    Examples
    --------
    >>> treatment(Target.REAL, True, (0.0, 10.0))
    {'target_centre': 5.0, 'target_scale': 5.0, 'target_reach': (-1.0, 1.0)}
    >>> treatment(Target.COUNTS, False, (0.0, 10.0))
    {'target_reach': (0.0, 10.0)}
    """
    if bounds is None or target in (Target.LABELS, Target.CLASSES):
        return {}
    if not scalable:
        return {"target_reach": bounds}
    low, high = bounds
    half = (high - low) / 2
    return {"target_centre": low + half, "target_scale": half, "target_reach": (-1.0, 1.0)}
