"""Adaptive shrinkage: weights of many sizes, most of them near zero perhaps. Imports numerics and constants.

M. Stephens, False discovery rates: a new deal (Biostatistics 2017), for the prior; P. Carbonetto and M. Stephens, Scalable variational
inference for Bayesian variable selection (Bayesian Analysis 2012), for correlated noise.
"""

import numpy as np

from nightfit.methods.auto.constants.numerical import POSITIVE
from nightfit.methods.auto.constants.shrinkage import (
    LEAST_MIXTURE_SHARE,
    LEAST_RELATIVE_PRECISION,
    MIXTURE_SWEEPS,
    MIXTURE_TOLERANCE,
    MIXTURE_VARIANCES,
)
from nightfit.numerics.compiled import compiled
from nightfit.types import Array


def mixture_posterior(estimate: Array, noise: Array, columns: Array) -> tuple[float, Array]:
    """The posterior mean of B w for independent w_j ~ sum_k pi_k N(0, sigma_k^2), sigma_0 = 0, given B w + N(0, noise) = estimate.

    With Q = B' noise^-1 B and h = B' noise^-1 estimate, w_j given the others is N(m, s) in component k, s = 1 / (Q_jj + 1 / sigma_k^2) and
    m = s (h_j - sum_i Q_ji w_i), with a probability in proportion to pi_k sqrt(s / sigma_k^2) exp(m^2 / 2 s). Coordinate ascent on these,
    each with the means of the others, finds the nearest independent distribution to the posterior and a lower bound on the likelihood:
    exact where columns are orthogonal, and too cautious where they are not. The shares pi maximise the bound.

    Parameters
    ----------
    estimate : Array
        The noisy estimate.
    noise : Array
        Its covariance.
    columns : Array
        B.

    Returns
    -------
    tuple of float and Array
        An upper bound on minus twice the log likelihood, without the constant, and B times the posterior mean of w.
    """
    weighted = np.linalg.solve(noise, columns)
    Q, h = columns.T @ weighted, weighted.T @ estimate
    precise = np.diag(Q) > LEAST_RELATIVE_PRECISION * np.diag(Q).max()
    largest = float(np.max((h[precise] / np.diag(Q)[precise]) ** 2, initial=POSITIVE))
    variances, components, means = np.r_[0.0, largest * MIXTURE_VARIANCES], len(MIXTURE_VARIANCES) + 1, np.zeros(len(h))
    shares = np.full(components, 1 / components)
    squares, divergence = _ascend(Q, h, variances, shares, means, MIXTURE_SWEEPS, MIXTURE_TOLERANCE, LEAST_MIXTURE_SHARE)
    misfit = estimate @ np.linalg.solve(noise, estimate) - 2 * h @ means + means @ Q @ means + np.diag(Q) @ (squares - means**2)
    return float(np.linalg.slogdet(noise)[1] + misfit + 2 * divergence), columns @ means


@compiled
def _ascend(Q, h, variances, shares, means, sweeps, tolerance, least_share):  # type: ignore[no-untyped-def]
    """Changes means and shares in place until they settle; returns E w_j^2 and the divergence of the distribution from the prior."""
    d, parts = len(h), len(variances)
    explained, squares, divergence = Q @ means, np.zeros(d), 0.0
    m, s, likely = np.zeros(parts), np.zeros(parts), np.zeros(parts)
    for _ in range(sweeps):
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
        shares[:] = (counted + least_share) / (d + parts * least_share)
        if moved < tolerance:
            break
    return squares, divergence
