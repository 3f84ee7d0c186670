"""From a noisy second moment to coordinates in which rows are nearly isotropic. Imports numpy and constants."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nightfit.methods.auto.constants.coordinates import (
    COUPLING_MARGIN,
    EIGENVALUE_FLOOR,
    LEAST_CURVATURE,
    MOST_CURVATURE_NOISE,
    MOST_EXPLAINED,
    SHARED_EIGENVALUE_EDGE,
    SMALLEST_EIGENVALUE,
)
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """A positive definite matrix: vectors diag(values) vectors'."""

    values: Array
    vectors: Array

    @cached_property
    def inverse(self) -> Array:
        return (self.vectors / self.values) @ self.vectors.T

    @property
    def inverse_root(self) -> Array:
        """W with W M W' = I; its rows lie along the vectors."""
        return (self.vectors / np.sqrt(self.values)).T

    @cached_property
    def matrix(self) -> Array:
        return (self.vectors * self.values) @ self.vectors.T


def largest_noise_eigenvalue(deviation: float, d: int) -> float:
    """2 s sqrt(d), the largest eigenvalue of d x d symmetric noise (Wigner) with s = 5/7 of the diagonal's standard deviation beside it."""
    return deviation * (2 * DIAGONAL / OTHERS) * math.sqrt(d)


def repaired(M: Array, deviation: float) -> Spectrum:
    """A positive definite matrix from a second moment with symmetric noise.

    1. Off the diagonal, noise has many eigenvalues below its edge t = 2 s sqrt(d). One beyond 1.1 t is signal and becomes
       sqrt(value^2 - t^2), the shrinkage of smallest squared error (Gavish and Donoho 2017).
    2. The other eigenvalues are shrunk by a = max(0, 1 - E||noise||^2 / ||numbers||^2), the positive-part factor of James and Stein: half
       way between that of these eigenvalues and that of all, because after whitening small directions count as much as large ones.
    3. Variances are shrunk towards their mean by such a factor too.
    4. Eigenvalues of the whole are at least half the error that noise leaves, max(a sqrt(2 d), 1) deviation.

    Parameters
    ----------
    M : Array
        d x d, as it was answered.
    deviation : float
        The standard deviation of the noise on the diagonal; beside it, s = 5/7 of that.
    """
    d, s = len(M), deviation * DIAGONAL / OTHERS
    values, vectors = np.linalg.eigh(M - np.diag(M.diagonal()))
    edge = 2 * s * math.sqrt(d)
    common = np.abs(values) > SHARED_EIGENVALUE_EDGE * edge
    others = d - int(common.sum())
    shrink = (_signal_share(values[~common], s**2 * others * (others - 1)) + _signal_share(values, s**2 * d * (d - 1))) / 2
    values = np.where(common, np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0)), shrink * values)
    beside = (vectors * values) @ vectors.T
    np.fill_diagonal(beside, 0.0)
    apart = M.diagonal() - M.diagonal().mean()
    variances = M.diagonal().mean() + _signal_share(apart, deviation**2 * (d - 1)) * apart
    values, vectors = np.linalg.eigh(np.diag(np.maximum(variances, deviation)) + beside)
    floor = max(EIGENVALUE_FLOOR * max(shrink * deviation * math.sqrt(2 * d), deviation), SMALLEST_EIGENVALUE)
    return Spectrum(values=np.maximum(values, floor), vectors=vectors)


def centring(M: Array, deviation: float, unclipped: float) -> tuple[Array, Array]:
    """A with z = A (x, 1), and the variances of x in the directions of A: z is x, centred and whitened, and the intercept.

    The mean is M_x1 / M_11 and the covariance M_xx - M_x1 M_1x / M_11. M_11 is the mean weight of a clipped row. The mean is shrunk towards
    zero by James and Stein's factor: whitening would scale up its error, and the intercept would follow it.

    Parameters
    ----------
    M : Array
        The noisy second moment of rows (x, 1).
    deviation : float
        The standard deviation of the noise on its diagonal.
    unclipped : float
        The share of rows that are not clipped: M_11 lies between it and one.
    """
    d = len(M) - 1
    weight = float(np.clip(M[-1, -1], unclipped, 1.0))
    mean = M[:-1, -1] / weight * _signal_share(M[:-1, -1], deviation**2 * d * DIAGONAL**2 / OTHERS**2)
    spectrum = repaired(M[:-1, :-1] - weight * np.outer(mean, mean), deviation)
    A = np.zeros((d + 1, d + 1))
    A[:d, :d], A[:d, -1], A[-1, -1] = spectrum.inverse_root, -spectrum.inverse_root @ mean, 1.0
    return A, spectrum.values


def safe_curvature(M: Array, deviation: float, free: tuple[int, ...], between: tuple[float, float]) -> Spectrum:
    """The curvature that steps divide by: the second moment of whitened rows where noise cannot have made it, else a safe multiple of the
    identity. A step by the inverse of a curvature diverges where the true one is more than twice as large.

    With S the block of slopes, h = trace S / d and t the noise's largest eigenvalue: eigenvalues of S - h I inside [-t, t] become zero;
    none of S is less than min(t, (h + min(t, 3 h)) / 2). The coupling of the intercept to slopes is kept where it exceeds the largest that
    noise makes by three standard deviations: rows are centred, but a column that noise kept from being centred is nearly a constant, and
    without the coupling its slope would take up what the intercept misses. Slopes explain nine tenths of the intercept at most.

    Parameters
    ----------
    M : Array
        The second moment of whitened rows, as it was answered.
    deviation : float
        The standard deviation of the noise on its diagonal.
    free : tuple of int
        The coordinate of the intercept, if there is one.
    between : tuple of float
        Bounds of the intercept's own curvature.
    """
    safe, d = np.diag(M.diagonal()), len(M) - len(free)
    level = max(float(M[:d, :d].trace()) / d, LEAST_CURVATURE)
    largest = largest_noise_eigenvalue(deviation, d)
    values, vectors = np.linalg.eigh(M[:d, :d] - level * np.eye(d))
    least = min(largest, (level + min(largest, MOST_CURVATURE_NOISE * level)) / 2)
    values = np.maximum(level + np.where(np.abs(values) > largest, values, 0.0), least)
    safe[:d, :d] = (vectors * values) @ vectors.T
    surely = (math.sqrt(2 * math.log(max(2, d))) + COUPLING_MARGIN) * deviation * DIAGONAL / OTHERS
    for j in free:
        safe[j, j] = np.clip(M[j, j], *between)
        coupled = np.where(np.abs(M[:d, j]) > surely, M[:d, j], 0.0)
        explained = float(coupled @ np.linalg.solve(safe[:d, :d], coupled)) / safe[j, j]
        safe[:d, j] = safe[j, :d] = coupled * math.sqrt(min(1.0, MOST_EXPLAINED / max(explained, SMALLEST_EIGENVALUE)))
    values, vectors = np.linalg.eigh(safe)
    return Spectrum(values=np.maximum(values, LEAST_CURVATURE), vectors=vectors)


def _signal_share(numbers: Array, noise_power: float) -> float:
    """max(0, 1 - noise_power / ||numbers||^2): the share of their power that is not noise."""
    power = float((numbers**2).sum())
    return max(0.0, 1 - noise_power / power) if power > 0 else 0.0
