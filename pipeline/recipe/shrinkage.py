"""Empirical Bayes: shrink an estimate whose noise is known towards zero by as much as it looks like noise. Imports numpy, mixture."""

import numpy as np

from pipeline.recipe.mixture import mixed
from pipeline.types import Array

WORTH = 4.0


def shrunk(estimate: Array, noise: Array, shapes: tuple[Array, ...], columns: Array | None = None) -> Array:
    """The posterior mean of v ~ N(0, tau^2 diag(shape)) given an estimate v + N(0, noise), or of v = B w with weights w of many sizes
    (`mixed`, B = `columns`): one of the shapes or the mixture, and their sizes, by maximum likelihood, but twice the log likelihood must
    gain 4 for tau^2, and 8 for the size and share of the weights that are not zero; else v is zero.

    A variance that is truly zero gains 4 in one of 44 fits (half of a chi-square with one degree of freedom); at Akaike's price of 2
    it would be one of 13, and each of those is worse than the mean.

    For a noise of s^2 I and the shape one it is the factor of James and Stein up to d against d - 2.
    """
    best, kept = float(np.linalg.slogdet(noise)[1] + estimate @ np.linalg.solve(noise, estimate)), np.zeros(len(estimate))
    for shape in shapes:
        root = np.sqrt(shape)
        values, vectors = np.linalg.eigh(noise / np.outer(root, root))
        turned = vectors.T @ (estimate / root)
        candidates = np.median(values) * np.exp2(np.linspace(-12, 30, 169))
        variance = candidates[:, None] + values
        unlikely = (np.log(variance) + turned**2 / variance).sum(axis=1) + 2 * np.log(root).sum() + WORTH
        likely = int(unlikely.argmin())
        if unlikely[likely] < best:
            best, kept = float(unlikely[likely]), root * (vectors @ (turned * candidates[likely] / variance[likely]))
    if columns is not None:
        bound, mean = mixed(estimate, noise, columns)
        if bound + 2 * WORTH < best:
            kept = mean
    return kept
