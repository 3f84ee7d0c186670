"""Where columns are clamped when the model is used. Imports residuals, level_and_scale and below.

Slopes are those of most rows. Beyond these a truth may level off or go on in proportion: that hardly matters for the slopes, and much for
the clamps that predictions are made with.
"""

import math
from dataclasses import replace

import numpy as np

from nightfit.methods.auto.constants.level import BEYOND_TARGETS, LEAST_REACH_KEPT, MOST_EFFECT, REACH_MARGIN
from nightfit.methods.auto.constants.steps import HIDDEN_CLIP
from nightfit.methods.auto.distributions import SignedDistribution
from nightfit.methods.auto.level_and_scale import Calibrated
from nightfit.methods.auto.residuals import ResidualQueries
from nightfit.queries.rows import Rows
from nightfit.queries.tail_gains import FARTHER, NEARER, NEAREST, clamped
from nightfit.types import Array


def farthest(answer: Array, deviation: float) -> float:
    """By which factor clamps move, from the gains (of each clamp over the one before) and their noise.

    Farther if the last gain is surely positive (two standard deviations), or the one before is and the last is positive. Nearer if the one
    before is surely negative, or both before together are: nearest where the first is negative. Else one.
    """
    surely = REACH_MARGIN * deviation
    near, half, far = answer
    if far > surely or (half > surely and far > 0):
        return FARTHER
    if half < -surely or near + half < -math.sqrt(2) * surely:
        return NEAREST if near < 0 else NEARER
    return 1.0


def ask_reach(queries: ResidualQueries, weights: Array, calibrated: Calibrated) -> Rows:
    """The rows with unbounded columns, whose scale is known, clamped where predictions cease to go on in proportion.

    What a farther clamp adds to a prediction is clipped at one standard deviation of predictions up to the reach, and at two beyond it.
    """
    plan, rows, free = queries.plan, queries.maps.coordinates.rows, np.zeros(queries.plan.columns, dtype=bool)
    free[list(plan.unbounded)] = rows.reach[list(plan.unbounded)] == plan.tuning.reach
    bounds = {"clip": calibrated.clip, "bound": max(math.sqrt(queries.maps.signal(calibrated.at)), HIDDEN_CLIP)}
    answer = plan.ask(queries.gate, "tails", rows=rows, weights=weights, free=free, **bounds)
    return clamped(rows, free, farthest(answer, plan.deviation("tails", **bounds)))


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
