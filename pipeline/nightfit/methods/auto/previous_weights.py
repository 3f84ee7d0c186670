"""A fit that starts at a previous model: its weights in tonight's coordinates, and what to shrink towards. Imports whitened_coordinates."""

import numpy as np

from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.warm_start import Previous
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


def previous_weights(start: Previous | None, shape: Preprocessing, coordinates: WhitenedCoordinates) -> Array:
    """v with z . v = the previous model's prediction, for rows inside the clamps; zero if there is none."""
    if start is None or start.run is None:
        return np.zeros(len(coordinates.moment))
    raw = start.scaled(shape)
    weights = raw * coordinates.rows.scale
    if shape.intercept:
        weights[-1] += raw @ coordinates.rows.centre
    return np.asarray(np.linalg.solve(coordinates.rotation.A.T, weights), dtype=np.float64)


def shrinkage_centre(estimate: Array, start: Array, curvature: Array, free: tuple[int, ...]) -> Array:
    """The previous weights or zero, whichever predicts more nearly as the estimate does: what the estimate is shrunk towards.

    Of two prior means with the same unknown variance, the nearer one has the larger marginal likelihood. Where the data are farther from
    the previous model than from no signal at all, it is forgotten.
    """

    def squared_distance(centre: Array) -> float:
        gap = estimate - centre
        gap[list(free)] = 0.0
        return float(gap @ curvature @ gap)

    return start if squared_distance(start) < squared_distance(np.zeros(len(start))) else np.zeros(len(start))
