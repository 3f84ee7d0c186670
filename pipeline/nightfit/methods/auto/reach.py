"""A limit to what one column does to a prediction. Imports distributions and below."""

from dataclasses import replace

import numpy as np

from nightfit.methods.auto.constants.level import BEYOND_TARGETS, LEAST_REACH_KEPT, MOST_EFFECT
from nightfit.methods.auto.distributions import SignedDistribution
from nightfit.queries.rows import Rows
from nightfit.types import Array


def limit_reach(rows: Rows, unbounded: tuple[int, ...], weights: Array, targets: SignedDistribution) -> Rows:
    """The rows with less reach for a column that alone would move a prediction by more than twice the distance between its level and nearly
    all targets; at least two scales.
    """
    free = list(unbounded)
    low, high = targets.range_without(BEYOND_TARGETS)
    far = MOST_EFFECT * max(high - float(weights[-1]), float(weights[-1]) - low)
    reach = rows.reach.copy()
    with np.errstate(divide="ignore"):
        reach[free] = np.minimum(reach[free], np.maximum(far / np.abs(weights[free]), LEAST_REACH_KEPT))
    return replace(rows, reach=reach)
