"""Empirical Bayes: shrink an estimate whose noise is known towards zero by as much as it looks like noise. Imports numpy."""

import numpy as np

from pipeline.recipe.whitening import Spectrum
from pipeline.types import Array


def shrunk(estimate: Array, deviation: float, sampled: float, curvature: Spectrum, free: tuple[int, ...]) -> Array:
    """The posterior mean of v ~ N(0, tau^2 I) given an estimate with noise N(0, H^-1 (deviation^2 I + sampled H) H^-1), tau^2 by
    maximum likelihood: the added noise, and that of drawing the records (sampled = E r^2 / n).

    In H's eigenvectors: q_k tau^2 / (tau^2 + (deviation^2 + sampled h_k) / h_k^2). For H = I it is the factor of James and Stein up to
    d against d - 2; with no signal tau = 0 and nothing is left but the free coordinates (the intercept), which are not shrunk.
    """
    turned = curvature.vectors.T @ estimate
    noise = (deviation**2 + sampled * curvature.values) / curvature.values**2
    candidates = np.r_[0.0, np.median(noise) * np.exp2(np.linspace(-8, 30, 153))]
    variance = candidates[:, None] + noise
    likely = (np.log(variance) + turned**2 / variance).sum(axis=1).argmin()
    kept = curvature.vectors @ (turned * candidates[likely] / variance[likely])
    kept[list(free)] = estimate[list(free)]
    return kept
