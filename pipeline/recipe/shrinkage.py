"""Empirical Bayes: shrink an estimate whose noise is known towards zero by as much as it looks like noise. Imports numpy."""

import numpy as np

from pipeline.types import Array

WORTH = 2.0


def shrunk(estimate: Array, deviation: float, sampled: float, curvature: Array, free: tuple[int, ...]) -> Array:
    """The posterior mean of v ~ N(0, tau^2 I) given an estimate with noise N(0, H^-1 (deviation^2 I + sampled H) H^-1): the added
    noise, and that of drawing the records (sampled = E r^2 / n).

    In H's eigenvectors: q_k tau^2 / (tau^2 + (deviation^2 + sampled h_k) / h_k^2), tau^2 by maximum likelihood, but zero unless that
    gains more than Akaike's price of a parameter. For H = I it is the factor of James and Stein up to d against d - 2. The free
    coordinates (the intercept) are neither shrunk nor evidence of signal.
    """
    shrinkable = np.setdiff1d(np.arange(len(estimate)), free)
    if not len(shrinkable):
        return estimate
    values, vectors = np.linalg.eigh(curvature[np.ix_(shrinkable, shrinkable)])
    turned = vectors.T @ estimate[shrinkable]
    noise = (deviation**2 + sampled * values) / values**2
    candidates = np.r_[0.0, np.median(noise) * np.exp2(np.linspace(-8, 30, 153))]
    variance = candidates[:, None] + noise
    unlikely = (np.log(variance) + turned**2 / variance).sum(axis=1)
    unlikely[1:] += WORTH
    likely = unlikely.argmin()
    kept = estimate.copy()
    kept[shrinkable] = vectors @ (turned * candidates[likely] / variance[likely])
    return kept
