"""Gaussian noise whose scale is a smooth sensitivity: its delta, and the largest shift for a budget. Imports numpy and scipy."""

import math

import numpy as np

from nightfit.privacy.accounting.costs import MARGIN
from nightfit.types import Array

MOST_PIECES = 64  # bounds the work of step (3) of the proof: the bound of fewer pieces is looser, and holds as well


def smooth_gaussian_delta(epsilon: float, smoothness: float, shift: float, coordinates: int) -> float:
    """A delta at which f + (S / shift) N(0, I) is private when neighbours move f by at most S and S by a factor of at most e^smoothness.

    Parameters
    ----------
    epsilon, smoothness, coordinates
        Of the guarantee; of the smooth sensitivity S; the length of f.
    shift
        The move of f in units of the noise's standard deviation, at most.

    Returns
    -------
    float
        The delta, rounded up; 1 where the proof does not hold (shift^2 > 2 epsilon).

    Notes
    -----
    In units of one neighbour's noise: P = N(0, I) against Q = N(D e_1, lam^2 I), |ln lam| <= smoothness, D <= shift min(1, lam), and
    delta is the largest P(A) - e^epsilon Q(A), at A = {dP / dQ > e^epsilon}: outside a ball for lam < 1, inside one for lam > 1.

    Guarantee: no lam and D give more than is returned. Three steps; each moves Q or P and keeps A, which only underestimates the new pair.
    (1) D: the ball's centre D / (1 - lam^2) lies beyond Q's mean for lam < 1 and behind it for lam > 1, so a larger D takes mass of
    Q out of A (Anderson): the largest D is the worst. (2) lam <= 1, in units of Q's noise: P = N(shift e_1, s^2 I), s = 1 / lam, against
    N(0, I). P's mean has the loss shift^2 / 2 - coordinates ln s <= epsilon, so it lies in the ball, which is convex: a larger s takes
    mass of P out of the ball, into A, and s = e^smoothness is the worst. A shift^2 above 2 epsilon is refused (delta 1). (3) lam >= 1: Q's
    density at lam in [l, l'] is at least (l / l')^coordinates times that at l, so delta is at most that of l at
    epsilon - coordinates ln(l' / l): the interval is cut until that is no more than what (2) gives, or into MOST_PIECES.
    Corrected: Wang et al. 2020, alg. 1, print a shift five times too small. Broken by
    test_no_change_of_scale_exceeds_the_delta_of_smooth_noise.
    """
    if shift**2 > 2 * epsilon:
        return 1.0
    worst = float(_scaled_profile(epsilon, np.array([-smoothness]), shift, coordinates)[0])
    pieces, wider = 4, math.inf
    while wider > worst and pieces <= MOST_PIECES:
        each = smoothness / pieces
        wider = float(_scaled_profile(epsilon - coordinates * each, each * np.arange(pieces, dtype=np.float64), shift, coordinates).max())
        pieces *= 4
    return max(worst, wider) * (1 + MARGIN)


def _scaled_profile(epsilon: float, logarithms: Array, shift: float, coordinates: int) -> Array:
    """The largest P(A) - e^epsilon Q(A) for P = N(0, I) and Q = N(D e_1, lam^2 I), D = shift min(1, lam), at each ln lam.

    All logarithms are negative, or none is. The privacy loss is c |y - y0|^2 + constant, so both probabilities are tails of non-central
    chi-square distributions; half spaces for lam = 1.
    """
    from scipy.stats import ncx2, norm

    found = np.full(len(logarithms), norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift))
    changed = logarithms != 0
    lam = np.exp(logarithms[changed])
    moved = shift * np.minimum(1.0, lam)
    c = (1 / lam**2 - 1) / 2
    y0 = (moved / lam**2) / (1 / lam**2 - 1)
    constant = coordinates * np.log(lam) + moved**2 / (2 * lam**2) - c * y0**2
    radius = np.maximum((epsilon - constant) / c, 0.0)
    balls = (radius, coordinates, y0**2), (radius / lam**2, coordinates, ((y0 - moved) / lam) ** 2)
    one, other = ((ncx2.sf if logarithms[0] < 0 else ncx2.cdf)(*ball) for ball in balls)
    found[changed] = one - math.exp(epsilon) * other
    return found


def smooth_gaussian_shift(epsilon: float, delta: float, smoothness: float, coordinates: int) -> float:
    """The largest shift with smooth_gaussian_delta <= delta, by bisection that keeps the safe side; 0 if there is none.

    Parameters
    ----------
    epsilon, delta
        The guarantee.
    smoothness, coordinates
        As of `smooth_gaussian_delta`.
    """
    low, high = 0.0, 1.0
    while smooth_gaussian_delta(epsilon, smoothness, high, coordinates) <= delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if smooth_gaussian_delta(epsilon, smoothness, middle, coordinates) <= delta else (low, middle)
    return low
