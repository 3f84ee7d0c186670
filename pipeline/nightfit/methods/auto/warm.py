"""A fit that starts at an earlier model: its weights in the frame's coordinates, and what to shrink towards. Imports frame, start."""

import numpy as np

from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.warm_start import Previous
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


def in_frame(start: Previous | None, shape: Preprocessing, frame: WhitenedCoordinates) -> Array:
    """v with z . v = prediction of the earlier model, for rows inside the clamps and in the directions used; zero without one."""
    if start is None or start.run is None:
        return np.zeros(int(frame.used.sum()))
    raw = start.scaled(shape)
    weights = raw * frame.rows.scale
    if shape.intercept:
        weights[-1] += raw @ frame.rows.centre
    return np.asarray(np.linalg.solve(frame.whole.T, weights), dtype=np.float64)[frame.used]


def nearer(estimate: Array, start: Array, curvature: Array, free: tuple[int, ...]) -> Array:
    """What to shrink an estimate towards: the earlier model or zero, whichever predicts more nearly as the estimate does.

    Of two prior centres with the same unknown variance, the one nearer to the estimate has the larger marginal likelihood. Where the
    data jumped away from the earlier model by more than they are away from no signal at all, it is forgotten.
    """

    def far(centre: Array) -> float:
        gap = estimate - centre
        gap[list(free)] = 0.0
        return float(gap @ curvature @ gap)

    return start if far(start) < far(np.zeros(len(start))) else np.zeros(len(start))
