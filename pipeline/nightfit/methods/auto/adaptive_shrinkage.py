"""Adaptive shrinkage: weights of many sizes, most of them near zero perhaps, as few strong columns among many are. Imports numba.

M. Stephens, False discovery rates: a new deal (Biostatistics 2017), for the prior; P. Carbonetto and M. Stephens, Scalable variational
inference for Bayesian variable selection (Bayesian Analysis 2012), for what is done where the noise of weights is correlated.
"""

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.types import Array

SIZES = np.exp2(np.arange(-13.0, 1.5, 1.5))
SWEEPS, STILL = 100, 1e-4
LEAST_SHARE, HARDLY = 1e-6, 1e-4


def mixed(estimate: Array, noise: Array, columns: Array) -> tuple[float, Array]:
    """For an estimate B w + N(0, noise), B = `columns`, of independent w_j ~ sum_k pi_k N(0, sigma_k^2), sigma_0 = 0: B times the posterior
    mean of w, and a bound on minus twice the log likelihood (without the constant), at the shares pi that make it smallest.

    With Q = B' noise^-1 B and h = B' noise^-1 estimate, w_j given the others is N(m, s) in part k, s = 1 / (Q_jj + 1 / sigma_k^2) and
    m = s (h_j - sum_i Q_ji w_i), with a probability in proportion to pi_k sqrt(s / sigma_k^2) exp(m^2 / 2 s). Taken in turns, each with the
    means of the others, they are the nearest independent distribution to the posterior, and the bound follows from it: equal where
    columns are orthogonal, and too cautious where they are not.
    """
    weighted = np.linalg.solve(noise, columns)
    Q, h = columns.T @ weighted, weighted.T @ estimate
    seen = np.diag(Q) > HARDLY * np.diag(Q).max()
    largest = float(np.max((h[seen] / np.diag(Q)[seen]) ** 2, initial=1e-300))
    variances, shares, means = np.r_[0.0, largest * SIZES], np.full(len(SIZES) + 1, 1 / (len(SIZES) + 1)), np.zeros(len(h))
    squares, divergence = _in_turns(Q, h, variances, shares, means)
    about = estimate @ np.linalg.solve(noise, estimate) - 2 * h @ means + means @ Q @ means + np.diag(Q) @ (squares - means**2)
    return float(np.linalg.slogdet(noise)[1] + about + 2 * divergence), columns @ means


@compiled
def _in_turns(Q, h, variances, shares, means):  # type: ignore[no-untyped-def]
    """Changes means and shares until they stand still; E w_j^2, and the divergence of the found distribution from the prior."""
    d, parts = len(h), len(variances)
    explained, squares, divergence = Q @ means, np.zeros(d), 0.0
    m, s, likely = np.zeros(parts), np.zeros(parts), np.zeros(parts)
    for _ in range(SWEEPS):
        counted, moved, divergence = np.zeros(parts), 0.0, 0.0
        for j in range(d):
            left = h[j] - explained[j] + Q[j, j] * means[j]
            for k in range(parts):
                ratio = 1.0 / (1.0 + variances[k] * Q[j, j])
                s[k] = variances[k] * ratio
                m[k] = s[k] * left
                likely[k] = np.log(shares[k]) + 0.5 * (np.log(ratio) + m[k] * left)
            likely -= likely.max()
            likely -= np.log(np.exp(likely).sum())
            mean, squares[j] = 0.0, 0.0
            for k in range(parts):
                p = np.exp(likely[k])
                mean += p * m[k]
                squares[j] += p * (m[k] ** 2 + s[k])
                ratio = 1.0 / (1.0 + variances[k] * Q[j, j])
                divergence += p * (likely[k] - np.log(shares[k]) + 0.5 * (ratio + m[k] * left * ratio - 1.0 - np.log(ratio)))
                counted[k] += p
            explained += Q[:, j] * (mean - means[j])
            moved += Q[j, j] * (mean - means[j]) ** 2
            means[j] = mean
        shares[:] = (counted + LEAST_SHARE) / (d + parts * LEAST_SHARE)
        if moved < STILL:
            break
    return squares, divergence
