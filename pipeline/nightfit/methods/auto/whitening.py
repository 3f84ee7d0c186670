"""From a noisy second moment to coordinates in which rows are nearly isotropic. Imports numpy."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.types import Array

TINY = 1e-12
WIDE = 3.0
BEYOND_EDGE = 1.1
COUPLED, MOST_EXPLAINED = 3.0, 0.9


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


def largest_of_noise(deviation: float, d: int) -> float:
    """The largest eigenvalue of d x d noise: Wigner's 2 sqrt(d) times the deviation beside the diagonal, 5/7 of that on it."""
    return deviation * (10 / 7) * math.sqrt(d)


def repaired(M: Array, deviation: float) -> Spectrum:
    """A positive definite matrix from a second moment with symmetric noise (deviation on the diagonal, s = 5/7 of it beside).

    What columns have in common is a few large eigenvalues of the part beside the diagonal, and noise is many below its edge 2 s sqrt(d): an
    eigenvalue a tenth beyond it becomes sqrt(value^2 - edge^2), the shrinkage of smallest squared error (Gavish and Donoho 2017, for
    singular values of square matrices, whose noise has the same edge). What is left is shrunk by a = max(0, 1 - E||noise||^2 /
    ||numbers||^2), the positive-part factor of James and Stein, half way between that of the rest, which squared error asks for, and that
    of all numbers: once rows are whitened, directions of little variance count as much as others. Variances are shrunk towards their mean
    by such a factor too. Eigenvalues of the whole are floored at half of the size that a's noise gives the largest one, sqrt(2 d)
    deviations, so that no direction is blown up by noise.
    """
    d, s = len(M), deviation * 5 / 7
    values, vectors = np.linalg.eigh(M - np.diag(M.diagonal()))
    edge = 2 * s * math.sqrt(d)
    common = np.abs(values) > BEYOND_EDGE * edge
    others = d - int(common.sum())
    shrink = (_beyond_noise(values[~common], s**2 * others * (others - 1)) + _beyond_noise(values, s**2 * d * (d - 1))) / 2
    values = np.where(common, np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0)), shrink * values)
    beside = (vectors * values) @ vectors.T
    np.fill_diagonal(beside, 0.0)
    apart = M.diagonal() - M.diagonal().mean()
    alike = M.diagonal().mean() + _beyond_noise(apart, deviation**2 * (d - 1)) * apart
    values, vectors = np.linalg.eigh(np.diag(np.maximum(alike, deviation)) + beside)
    return Spectrum(values=np.maximum(values, max(0.5 * max(shrink * deviation * math.sqrt(2 * d), deviation), TINY)), vectors=vectors)


def worthwhile(values: Array, signal: float, noise: float) -> npt.NDArray[np.bool_]:
    """Which directions to keep: the r largest, for the r that minimises the expected squared error of predictions,

    sum_{k <= r} S_k N / (S_k + N) + sum_{k > r} S_k, with N = r noise: a kept direction's error after shrinkage, a dropped one's signal.

    S_k = signal values_k / sum values is what ridge regression assumes: coefficients of scaled columns have one size. Rows whitened in r
    directions have norms near sqrt(r), so every one of their slopes has the variance r noise.
    """
    order = np.argsort(values)[::-1]
    ordered = values[order]
    expected = signal * ordered / ordered.sum()
    kept = np.arange(1, len(values) + 1)
    spent = kept[:, None] * noise
    inside = np.tril(expected * spent / (expected + spent)).sum(axis=1)
    most = int((inside + expected.sum() - np.cumsum(expected)).argmin()) + 1
    chosen = np.zeros(len(values), dtype=bool)
    chosen[order[:most]] = True
    return chosen


def centring(M: Array, deviation: float, whole: float) -> tuple[Array, Array]:
    """A with z = A (x, 1): whitened x about its mean, and the intercept as a coordinate of its own, from the noisy second moment of
    rows (x, 1); and the variances of x in the directions of A.

    The mean is M_x1 / M_11, the covariance M_xx - M_x1 M_1x / M_11: centring costs nothing once M is paid. M_11 is the mean weight
    of a clipped row, between the share of rows that are not clipped (`whole`) and one. The mean is shrunk by James and Stein's
    factor towards the centre that rows have already: where M is mostly noise, whitening would blow an error of the mean up and the
    intercept would follow it.
    """
    d = len(M) - 1
    weight = float(np.clip(M[-1, -1], whole, 1.0))
    mean = M[:-1, -1] / weight * _beyond_noise(M[:-1, -1], deviation**2 * d * 25 / 49)
    spectrum = repaired(M[:-1, :-1] - weight * np.outer(mean, mean), deviation)
    A = np.zeros((d + 1, d + 1))
    A[:d, :d], A[:d, -1], A[-1, -1] = spectrum.inverse_root, -spectrum.inverse_root @ mean, 1.0
    return A, spectrum.values


def levelled(M: Array, deviation: float, free: tuple[int, ...], between: tuple[float, float], floor: float = 0.1) -> Spectrum:
    """The second moment of rows that are whitened already, from a noisy one: what differs from a multiple of the identity is kept where
    noise cannot have made it.

    With S the block of slopes, h = trace S / d and t the noise's largest eigenvalue, eigenvalues of S - h I inside of [-t, t] become
    zero. A step by the inverse of a curvature diverges where the true one is more than twice as large. One that was seen is at most t
    too small, so none is less than t; and none that became h is less than (h + t) / 2, with a t of at most 3 h: beyond that steps
    would hardly move, and the descent notices a step that went too far. The coupling of the intercept to slopes is left out unless it is
    surely there, three deviations beyond the largest of its noise: rows are centred, and noise there would carry the intercept's errors
    over into slopes. But columns that noise kept from being centred (a spread of a hundredth of the mean) are nearly constants, and without
    it their slopes would take up what the intercept misses. The intercept's own curvature lies `between` two numbers that are known, and
    slopes explain nine tenths of it at most.
    """
    made, d = np.diag(M.diagonal()), len(M) - len(free)
    level = max(float(M[:d, :d].trace()) / d, floor)
    largest = largest_of_noise(deviation, d)
    values, vectors = np.linalg.eigh(M[:d, :d] - level * np.eye(d))
    least = min(largest, (level + min(largest, WIDE * level)) / 2)
    values = np.maximum(level + np.where(np.abs(values) > largest, values, 0.0), least)
    made[:d, :d] = (vectors * values) @ vectors.T
    for j in free:
        made[j, j] = np.clip(M[j, j], *between)
        coupled = np.where(np.abs(M[:d, j]) > (math.sqrt(2 * math.log(max(2, d))) + COUPLED) * deviation * 5 / 7, M[:d, j], 0.0)
        explained = float(coupled @ np.linalg.solve(made[:d, :d], coupled)) / made[j, j]
        made[:d, j] = made[j, :d] = coupled * math.sqrt(min(1.0, MOST_EXPLAINED / max(explained, TINY)))
    values, vectors = np.linalg.eigh(made)
    return Spectrum(values=np.maximum(values, floor), vectors=vectors)


def _beyond_noise(numbers: Array, expected: float) -> float:
    """max(0, 1 - expected / ||numbers||^2)."""
    power = float((numbers**2).sum())
    return max(0.0, 1 - expected / power) if power > 0 else 0.0
