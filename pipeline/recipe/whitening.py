"""From a noisy second moment to coordinates in which rows are nearly isotropic. Imports numpy."""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.types import Array


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """M = vectors diag(values) vectors', values above a floor."""

    values: Array
    vectors: Array

    @property
    def inverse(self) -> Array:
        return (self.vectors / self.values) @ self.vectors.T

    @property
    def inverse_root(self) -> Array:
        """W with W M W' = I, its rows along the vectors."""
        return (self.vectors / np.sqrt(self.values)).T

    @property
    def matrix(self) -> Array:
        return (self.vectors * self.values) @ self.vectors.T


def repaired(M: Array, deviation: float, floor: float = 0.0) -> Spectrum:
    """A positive definite matrix from a second moment with symmetric noise (deviation on the diagonal, 5/7 of it beside).

    The off-diagonal part is shrunk by a = max(0, 1 - E||noise||^2 / ||off-diagonal||^2), the positive-part James-Stein factor for
    its d (d - 1) / 2 numbers; eigenvalues are floored at half of the size that a's noise gives the largest one, sqrt(2 d) deviations
    (Wigner's 2 sqrt(d) times 5/7), so that no direction is blown up by noise, and at `floor`.
    """
    d = len(M)
    beside = M - np.diag(M.diagonal())
    power = float((beside**2).sum())
    shrink = max(0.0, 1 - deviation**2 * (25 / 49) * d * (d - 1) / power) if power > 0 else 0.0
    values, vectors = np.linalg.eigh(np.diag(np.maximum(M.diagonal(), deviation)) + shrink * beside)
    least = max(0.5 * max(shrink * deviation * math.sqrt(2 * d), deviation), floor)
    return Spectrum(values=np.maximum(values, least), vectors=vectors)


def centring(M: Array, deviation: float, intercept_weight: float) -> Array:
    """A with z = A (x, 1): whitened x about its mean, and the intercept as a coordinate of its own, from the noisy second moment of
    rows (x, 1).

    The mean is M_x1 / M_11, the covariance M_xx - M_x1 M_1x / M_11: centring costs nothing once M is paid. M_11 is the mean weight
    of a clipped row, at least a fifth here.
    """
    d = len(M) - 1
    weight = max(float(M[-1, -1]), 0.2)
    mean = M[:-1, -1] / weight
    root = repaired(M[:-1, :-1] - weight * np.outer(mean, mean), deviation).inverse_root
    A = np.zeros((d + 1, d + 1))
    A[:d, :d], A[:d, -1], A[-1, -1] = root, -root @ mean, intercept_weight
    return A


def uncoupled(M: Array, deviation: float) -> Array:
    """M with the last row and column beside the diagonal shrunk by max(0, 1 - E||noise||^2 / ||them||^2).

    Rows are centred, so the intercept hardly depends on slopes, but its first move (the target's mean) is large: noise in these
    entries would carry it over into slopes.
    """
    made, beside = M.copy(), M[-1, :-1]
    power = float(beside @ beside)
    made[-1, :-1] = made[:-1, -1] = beside * (max(0.0, 1 - (25 / 49) * deviation**2 * len(beside) / power) if power > 0 else 0.0)
    return made
