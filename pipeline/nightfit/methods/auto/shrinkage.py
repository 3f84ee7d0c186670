"""Empirical Bayes: an estimate whose noise is known is shrunk by as much as it looks like noise. Imports adaptive_shrinkage and below."""

import numpy as np
from scipy.special import expit

from nightfit.methods.auto.adaptive_shrinkage import mixture_posterior
from nightfit.methods.auto.constants.shrinkage import PRICE_OF_MANY_SIZES, PRICE_OF_ONE_SIZE, VARIANCE_EXPONENTS
from nightfit.types import Array


def shrunk(estimate: Array, noise: Array, shapes: tuple[Array, ...], columns: Array | None = None) -> Array:
    """The posterior mean of v given an estimate v + N(0, noise).

    Either v is zero, or it is N(0, tau^2 diag(shape)), or B w with weights w of many sizes: one of the shapes or the mixture, and their
    sizes, by maximum likelihood. What was fitted is paid for in twice the log likelihood: 2 for tau^2 and 6 for the mixture. With the gain
    g that is left, v is not zero with the odds exp(g / 2).

    For a noise of s^2 I and the shape one this is the factor of James and Stein (with d for d - 2), times that probability.

    Parameters
    ----------
    estimate, noise : Array
        The estimate and the covariance of its noise.
    shapes : tuple of Array
        Prior variances, up to one factor tau^2.
    columns : Array or None
        B; None leaves the mixture out.
    """
    zero = float(np.linalg.slogdet(noise)[1] + estimate @ np.linalg.solve(noise, estimate))
    best, kept = np.inf, np.zeros(len(estimate))
    for shape in shapes:
        root = np.sqrt(shape)
        values, vectors = np.linalg.eigh(noise / np.outer(root, root))
        turned = vectors.T @ (estimate / root)
        candidates = np.median(values) * np.exp2(VARIANCE_EXPONENTS)
        variance = candidates[:, None] + values
        unlikely = (np.log(variance) + turned**2 / variance).sum(axis=1) + 2 * np.log(root).sum() + PRICE_OF_ONE_SIZE
        likely = int(unlikely.argmin())
        if unlikely[likely] < best:
            best, kept = float(unlikely[likely]), root * (vectors @ (turned * candidates[likely] / variance[likely]))
    if columns is not None:
        bound, mean = mixture_posterior(estimate, noise, columns)
        if bound + PRICE_OF_MANY_SIZES < best:
            best, kept = bound + PRICE_OF_MANY_SIZES, mean
    weighted: Array = expit((zero - best) / 2) * kept
    return weighted
