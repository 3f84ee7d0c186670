"""The only sampler of private noise, on the driver, from the operating system's entropy. The only importer of opendp.

Guarantee: `OperatingSystemNoise` adds exact discrete Gaussian noise (Canonne, Kamath, Steinke 2020) to integers, so no
floating-point attack on the sampler applies. Broken by tests/test_noise.py.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.types import Integers


class Noise(Protocol):
    @property
    def private(self) -> bool:
        """Whether a release made with this noise may claim privacy."""

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        """values plus independent integers drawn from the discrete Gaussian with parameter sigma."""


def _checked(values: Integers, sigma: float) -> None:
    if values.dtype != np.int64 or values.ndim != 1:
        raise TypeError(f"noise is added to a vector of int64, got {values.dtype} of {values.ndim} dimensions")
    if not (0 < sigma < 2.0**60):
        raise ValueError(f"sigma must lie between 0 and 2^60 grid steps, got {sigma}")


@dataclass(frozen=True, slots=True)
class OperatingSystemNoise:
    """OpenDP's discrete Gaussian: no seed, safe across forks and threads."""

    @property
    def private(self) -> bool:
        return True

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        import opendp.prelude as dp

        _checked(values, sigma)
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64"), size=len(values)), dp.l2_distance(T=float)
        noisy = dp.m.make_gaussian(*space, scale=float(sigma))
        return np.asarray(noisy(values), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SeededNoise:
    """Rounded Gaussian noise that anyone who knows the seed can subtract: for tests; a release made with it is not private."""

    rng: np.random.Generator

    @property
    def private(self) -> bool:
        return False

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        _checked(values, sigma)
        return values + np.rint(self.rng.normal(0, sigma, len(values))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class NoNoise:
    """The exact integers: for tests of the optimiser; a release made with it is not private."""

    @property
    def private(self) -> bool:
        return False

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        _checked(values, sigma)
        return values
