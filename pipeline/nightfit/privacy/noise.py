"""The only sampler of private noise, on the driver, from the operating system's entropy. The only importer of opendp.

Guarantee: `OperatingSystemNoise` adds exact discrete Gaussian noise (Canonne, Kamath, Steinke 2020) to integers and selects by
exact Gumbel noise on integer scores, so no floating-point attack on the sampler applies. The noise of `smooth` is made of doubles
and rounded to a public grid: its distribution is right to rounding error only. Broken by tests/privacy/test_noise.py.
"""

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightfit.types import Array, Integers

LEAST_SLICE = 2**10
"""Coordinates that are worth a thread: they take about a hundred times as long as starting it."""


class Noise(Protocol):
    """A sampler of private noise."""

    @property
    def private(self) -> bool:
        """Whether a release made with this noise may claim privacy."""

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        """values plus independent integers drawn from the discrete Gaussian with parameter sigma."""

    def largest(self, scores: Integers, count: int, scale: float) -> Integers:
        """Indices of the `count` largest scores after independent Gumbel(scale) noise, unordered."""

    def smooth(self, values: Array, scales: Array, family: str, spread: float, grid: float) -> Integers:
        """values plus scales times independent noise of a family, in steps of the grid.

        laplace_log_normal is Laplace(1) exp(spread N), arsinh_normal sinh(spread N) / spread, gaussian N, with N standard normal.
        """

    def uniform_integer(self, count: int) -> int:
        """One of 0, ..., count - 1, exactly uniform."""


def _check(values: Integers, sigma: float) -> None:
    if values.dtype != np.int64 or values.ndim != 1:
        raise TypeError(f"noise is added to a vector of int64, got {values.dtype} of {values.ndim} dimensions")
    if not (0 < sigma < 2.0**60):
        raise ValueError(f"sigma must lie between 0 and 2^60 grid steps, got {sigma}")


def _rounded(values: Array, grid: float) -> Integers:
    """In steps of the grid; NaN becomes 0, and what is beyond 2^62 steps is cut there: post-processing."""
    return np.rint(np.clip(np.nan_to_num(values / grid, nan=0.0), -(2.0**62), 2.0**62)).astype(np.int64)


def _standard(uniform: Callable[[int], Array], family: str, spread: float, count: int) -> Array:
    """Independent numbers of a family, by inverse distribution functions of uniform ones."""
    from scipy.special import ndtri

    if family == "laplace_log_normal":
        u = uniform(count)
        laplace = np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))
        return np.asarray(laplace * np.exp(spread * ndtri(uniform(count))))
    if family == "arsinh_normal":
        return np.asarray(np.sinh(spread * ndtri(uniform(count))) / spread)
    if family == "gaussian":
        return np.asarray(ndtri(uniform(count)))
    raise ValueError(f"unknown noise {family!r}")


def _uniform(bits: npt.NDArray[np.uint64]) -> Array:
    """(k + 1/2) / 2^53 for 53 of the 64 bits: never 0 or 1."""
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _from_system(count: int) -> Array:
    return _uniform(np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64))


@dataclass(frozen=True, slots=True)
class OperatingSystemNoise:
    """OpenDP's discrete Gaussian: no seed, safe across forks and threads.

    Long vectors are drawn in slices, one on each processor: OpenDP works without the interpreter's lock, and takes a hundred times as long
    for a number as a query takes to add it. Coordinates are independent of each other in whatever slices they are drawn.
    """

    @property
    def private(self) -> bool:
        return True

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        import opendp.prelude as dp

        _check(values, sigma)
        dp.enable_features("contrib")

        def noisy(slice_: Integers) -> Integers:
            space = dp.vector_domain(dp.atom_domain(T="i64"), size=len(slice_)), dp.l2_distance(T=float)
            return np.asarray(dp.m.make_gaussian(*space, scale=float(sigma))(slice_), dtype=np.int64)

        slices = np.array_split(values, max(1, min(len(os.sched_getaffinity(0)), len(values) // LEAST_SLICE)))
        if len(slices) == 1:
            return noisy(values)
        with ThreadPoolExecutor(len(slices)) as threads:
            return np.concatenate(list(threads.map(noisy, slices)))

    def largest(self, scores: Integers, count: int, scale: float) -> Integers:
        import opendp.prelude as dp

        _check(scores, scale)
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=len(scores)), dp.linf_distance(T="i64", monotonic=False)
        chosen = dp.m.make_noisy_top_k(*space, dp.zero_concentrated_divergence(), k=count, scale=float(scale))
        return np.asarray(chosen(scores), dtype=np.int64)

    def smooth(self, values: Array, scales: Array, family: str, spread: float, grid: float) -> Integers:
        return _rounded(values + scales * _standard(_from_system, family, spread, len(values)), grid)

    def uniform_integer(self, count: int) -> int:
        return secrets.randbelow(count)


@dataclass(frozen=True, slots=True)
class SeededNoise:
    """Rounded Gaussian noise that anyone who knows the seed can subtract: for tests; a release made with it is not private."""

    rng: np.random.Generator

    @property
    def private(self) -> bool:
        return False

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        _check(values, sigma)
        return values + np.rint(self.rng.normal(0, sigma, len(values))).astype(np.int64)

    def largest(self, scores: Integers, count: int, scale: float) -> Integers:
        _check(scores, scale)
        return np.argsort(-(scores + self.rng.gumbel(0, scale, len(scores))), kind="stable")[:count].astype(np.int64)

    def smooth(self, values: Array, scales: Array, family: str, spread: float, grid: float) -> Integers:
        def uniform(count: int) -> Array:
            return _uniform(self.rng.integers(0, 2**64, count, dtype=np.uint64))

        return _rounded(values + scales * _standard(uniform, family, spread, len(values)), grid)

    def uniform_integer(self, count: int) -> int:
        return int(self.rng.integers(count))


@dataclass(frozen=True, slots=True)
class NoNoise:
    """The exact integers: for tests of the optimiser; a release made with it is not private."""

    @property
    def private(self) -> bool:
        return False

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        _check(values, sigma)
        return values

    def largest(self, scores: Integers, count: int, scale: float) -> Integers:
        _check(scores, scale)
        return np.argsort(-scores, kind="stable")[:count].astype(np.int64)

    def smooth(self, values: Array, scales: Array, family: str, spread: float, grid: float) -> Integers:
        return _rounded(values, grid)

    def uniform_integer(self, count: int) -> int:
        return secrets.randbelow(count)
