"""The proximal step of a penalty in the metric of the fit: on the driver, free. Imports problem, numpy and constants."""

import numpy as np

from nightfit.methods.auto.constants.numerical import PROX_STEPS, PROX_TOLERANCE
from nightfit.problem.accelerated import fista, minimise
from nightfit.problem.penalties import Penalty, is_zero
from nightfit.types import Array


def proximal(weights: Array, curvature: Array, penalty: Penalty, features: int) -> Array:
    """argmin_u (u - weights)' curvature (u - weights) / 2 + penalty(u_features): the penalised fit, to second order of the loss."""
    if is_zero(penalty):
        return weights
    step = 1 / float(np.linalg.eigvalsh(curvature)[-1])

    def gradient(u: Array) -> Array:
        return curvature @ (u - weights)

    return minimise(gradient, penalty, features, weights, step, iterations=PROX_STEPS, momentum=fista, tolerance=PROX_TOLERANCE)
