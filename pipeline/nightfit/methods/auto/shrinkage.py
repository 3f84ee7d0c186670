"""Empirical Bayes: shrink an estimate whose noise is known towards zero by as much as it looks like noise. Imports numpy, mixture."""

import numpy as np
from scipy.special import expit

from nightfit.methods.auto.adaptive_shrinkage import mixed
from nightfit.types import Array

PRICE, PRICE_OF_MANY = 2.0, 6.0


def shrunk(estimate: Array, noise: Array, shapes: tuple[Array, ...], columns: Array | None = None) -> Array:
    """The posterior mean of v given an estimate v + N(0, noise). Either v is zero, or it is N(0, tau^2 diag(shape)), or B w with weights w
    of many sizes (`mixed`, B = `columns`): one of the shapes or the mixture, and their sizes, by maximum likelihood. What was fitted is
    paid for, 2 in twice the log likelihood for tau^2 (Akaike's price) and 6 for the size and share of the weights that are not zero, which
    must be clearly likelier than one size. Then with a gain of g in twice the log likelihood v is not zero with the odds exp(g / 2).

    For a noise of s^2 I and the shape one it is the factor of James and Stein up to d against d - 2, times that probability.
    """
    zero = float(np.linalg.slogdet(noise)[1] + estimate @ np.linalg.solve(noise, estimate))
    best, kept = np.inf, np.zeros(len(estimate))
    for shape in shapes:
        root = np.sqrt(shape)
        values, vectors = np.linalg.eigh(noise / np.outer(root, root))
        turned = vectors.T @ (estimate / root)
        candidates = np.median(values) * np.exp2(np.linspace(-12, 30, 169))
        variance = candidates[:, None] + values
        unlikely = (np.log(variance) + turned**2 / variance).sum(axis=1) + 2 * np.log(root).sum() + PRICE
        likely = int(unlikely.argmin())
        if unlikely[likely] < best:
            best, kept = float(unlikely[likely]), root * (vectors @ (turned * candidates[likely] / variance[likely]))
    if columns is not None:
        bound, mean = mixed(estimate, noise, columns)
        if bound + PRICE_OF_MANY < best:
            best, kept = bound + PRICE_OF_MANY, mean
    made: Array = expit((zero - best) / 2) * kept
    return made
