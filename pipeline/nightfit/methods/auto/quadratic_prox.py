"""A penalty against a quadratic: the proximal step in the metric of the fit, d-sized and free. Imports numpy and penalties."""

import math

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.none import NoPenalty
from nightfit.types import Array

STEPS = 2_000
TOLERANCE = 1e-10


def proximal(weights: Array, curvature: Array, penalty: Penalty, features: int) -> Array:
    """argmin_u (u - weights)' curvature (u - weights) / 2 + penalty(u_features): the penalised fit, to second order of the loss.

    Accelerated proximal gradient (Beck, Teboulle 2009), restarted where the momentum points uphill (O'Donoghue, Candes 2015).
    """
    if isinstance(penalty, NoPenalty):
        return weights
    step = 1 / float(np.linalg.eigvalsh(curvature)[-1])
    here = ahead = weights.copy()
    momentum = 1.0
    for _ in range(STEPS):
        moved = ahead - step * curvature @ (ahead - weights)
        moved[:features] = penalty.prox(moved[:features], step)
        if (ahead - moved) @ (moved - here) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - here)
        settled = np.abs(moved - here).max() <= TOLERANCE * max(1.0, np.abs(moved).max())
        here, momentum = moved, following
        if settled:
            break
    return here
