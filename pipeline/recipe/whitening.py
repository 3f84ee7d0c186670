"""From a noisy second moment to coordinates in which rows are nearly isotropic. Imports numpy."""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.types import Array

TINY = 1e-12


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


def repaired(M: Array, deviation: float) -> Spectrum:
    """A positive definite matrix from a second moment with symmetric noise (deviation on the diagonal, 5/7 of it beside).

    The off-diagonal part is shrunk by a = max(0, 1 - E||noise||^2 / ||off-diagonal||^2), the positive-part James-Stein factor for
    its d (d - 1) / 2 numbers; eigenvalues are floored at half of the size that a's noise gives the largest one, sqrt(2 d) deviations
    (Wigner's 2 sqrt(d) times 5/7), so that no direction is blown up by noise.
    """
    d = len(M)
    beside = M - np.diag(M.diagonal())
    shrink = _beyond_noise(beside, deviation**2 * (25 / 49) * d * (d - 1))
    values, vectors = np.linalg.eigh(np.diag(np.maximum(M.diagonal(), deviation)) + shrink * beside)
    return Spectrum(values=np.maximum(values, max(0.5 * max(shrink * deviation * math.sqrt(2 * d), deviation), TINY)), vectors=vectors)


def centring(M: Array, deviation: float, whole: float, intercept_weight: float) -> Array:
    """A with z = A (x, 1): whitened x about its mean, and the intercept as a coordinate of its own, from the noisy second moment of
    rows (x, 1).

    The mean is M_x1 / M_11, the covariance M_xx - M_x1 M_1x / M_11: centring costs nothing once M is paid. M_11 is the mean weight
    of a clipped row, between the share of rows that are not clipped (`whole`) and one. The mean is shrunk by James and Stein's
    factor towards the centre that rows have already: where M is mostly noise, whitening would blow an error of the mean up and the
    intercept would follow it.
    """
    d = len(M) - 1
    weight = float(np.clip(M[-1, -1], whole, 1.0))
    mean = M[:-1, -1] / weight * _beyond_noise(M[:-1, -1], deviation**2 * d * 25 / 49)
    root = repaired(M[:-1, :-1] - weight * np.outer(mean, mean), deviation).inverse_root
    A = np.zeros((d + 1, d + 1))
    A[:d, :d], A[:d, -1], A[-1, -1] = root, -root @ mean, intercept_weight
    return A


def levelled(M: Array, deviation: float, free: tuple[int, ...], between: tuple[float, float], floor: float = 0.1) -> Spectrum:
    """The second moment of rows that are whitened already, from a noisy one: what differs from a multiple of the identity is shrunk.

    With S the block of slopes and h = trace S / d, S - h I has d + d (d - 1) 25/49 noise variances, so
    S <- h I + max(0, 1 - E||noise||^2 / ||S - h I||^2) (S - h I), James and Stein's factor: where noise hides the rest, every direction
    has the same curvature. The intercept's coupling to slopes is shrunk in the same way: rows are centred, so it is small, but the
    intercept's first move (the target's mean) is large, and noise there would carry it over into slopes. The intercept's own
    curvature lies `between` two numbers that are known.
    """
    made, d = M.copy(), len(M) - len(free)
    slopes = made[:d, :d]
    level = max(float(slopes.trace()) / d, floor)
    differs = slopes - level * np.eye(d)
    kept = _beyond_noise(differs, deviation**2 * (d + d * (d - 1) * 25 / 49))
    made[:d, :d] = level * np.eye(d) + kept * differs
    for j in free:
        coupling = M[j, :d]
        made[j, :d] = made[:d, j] = coupling * _beyond_noise(coupling, deviation**2 * d * 25 / 49)
        made[j, j] = np.clip(M[j, j], *between)
    values, vectors = np.linalg.eigh(made)
    return Spectrum(values=np.maximum(values, max(0.5 * kept * deviation * math.sqrt(2 * d), floor)), vectors=vectors)


def _beyond_noise(numbers: Array, expected: float) -> float:
    """max(0, 1 - expected / ||numbers||^2)."""
    power = float((numbers**2).sum())
    return max(0.0, 1 - expected / power) if power > 0 else 0.0
