"""A penalty against a quadratic: the proximal step in the metric of the fit, d-sized and free. Imports numpy and penalties."""

import numpy as np

from nightfit.problem.accelerated import fista, minimise
from nightfit.problem.penalties import Penalty, is_zero
from nightfit.types import Array

STEPS = 2_000
TOLERANCE = 1e-10


def proximal(weights: Array, curvature: Array, penalty: Penalty, features: int) -> Array:
    """argmin_u (u - weights)' curvature (u - weights) / 2 + penalty(u_features): the penalised fit, to second order of the loss."""
    if is_zero(penalty):
        return weights
    step = 1 / float(np.linalg.eigvalsh(curvature)[-1])

    def gradient(u: Array) -> Array:
        return curvature @ (u - weights)

    return minimise(gradient, penalty, features, weights, step, iterations=STEPS, momentum=fista, tolerance=TOLERANCE)
