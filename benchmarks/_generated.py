"""Generated data sets of the kinds that real records come in: what the constants of the automatic method were chosen on.

Each family is drawn anew for every seed, coefficients included. Modelled on well-known public data sets, by the kinds of their columns
and targets, are census, visits, spending, use_of_services and popularity.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.problem.losses import Loss
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.types import Array

Random = np.random.Generator
Drawn = tuple[Array, Array]


def indicators(rng: Random, n: int, d: int) -> Array:
    """Independent ones with shares between 0.5% and a half."""
    return (rng.random((n, d)) < np.exp(rng.uniform(np.log(0.005), np.log(0.5), d))).astype(float)


def one_hot(rng: Random, n: int, levels: int) -> Array:
    """A category with Zipf's shares."""
    shares = 1 / np.arange(1, levels + 1)
    return np.eye(levels)[rng.choice(levels, n, p=shares / shares.sum())]


def correlated(rng: Random, n: int, d: int, decay: float) -> Array:
    """Gaussians of unit variance whose covariance has eigenvalues k^-decay in random directions."""
    turned, _ = np.linalg.qr(rng.normal(size=(d, d)))
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** (-decay / 2) @ turned.T
    return X / X.std(axis=0)


def with_share(rng: Random, signal: Array, noise: Array, explained: float) -> Array:
    """Signal plus noise, scaled so that about `explained` of the variance is the signal's (of a noise without variance: its middle)."""
    size = np.quantile(np.abs(noise - np.median(noise)), 0.9) / 1.645
    return signal / signal.std() + noise / size * np.sqrt(1 / explained - 1)


def gaussian(rng: Random, n: int) -> Drawn:
    X = rng.normal(size=(n, 20))
    return X, with_share(rng, X @ rng.normal(size=20), rng.normal(size=n), 0.3)


def ill_conditioned(rng: Random, n: int) -> Drawn:
    X = correlated(rng, n, 40, 1.5)
    return X, with_share(rng, X @ rng.normal(size=40), rng.normal(size=n), 0.3)


def near_collinear(rng: Random, n: int) -> Drawn:
    """Copies of ten columns with a little of their own, as totals and their parts are."""
    base = rng.lognormal(0, 1, (n, 10))
    X = np.hstack([base + 0.05 * rng.lognormal(0, 1, (n, 10)) for _ in range(6)])
    return X, with_share(rng, base @ rng.normal(size=10), rng.standard_t(4, n), 0.3)


def far_from_zero(rng: Random, n: int) -> Drawn:
    X = rng.normal(size=(n, 15)) + 10 ** rng.uniform(0, 3, 15)
    return X, 50 + with_share(rng, X @ rng.normal(size=15), rng.normal(size=n), 0.3)


def rare(rng: Random, n: int) -> Drawn:
    X = np.hstack([indicators(rng, n, 40), rng.normal(size=(n, 5))])
    return X, with_share(rng, X @ rng.normal(size=45), rng.standard_t(4, n), 0.2)


def visits(rng: Random, n: int) -> Drawn:
    """Skewed counts: a Poisson number with a gamma rate that depends on indicators and a few sizes."""
    X = np.hstack([indicators(rng, n, 20), correlated(rng, n, 10, 1.0), rng.poisson(rng.lognormal(0.5, 0.8, (n, 5)))])
    direction = (X / np.maximum(X.std(axis=0), 1e-3)) @ rng.normal(size=35)
    rate = np.exp(0.8 + 0.5 * direction / direction.std())
    return X, rng.poisson(rate * rng.gamma(0.7, 1 / 0.7, n)).astype(float)


def spending(rng: Random, n: int) -> Drawn:
    """Amounts: mostly small or zero, some huge."""
    X = np.hstack([indicators(rng, n, 30), correlated(rng, n, 12, 1.0)])
    direction = (X / np.maximum(X.std(axis=0), 1e-3)) @ rng.normal(size=42)
    direction /= direction.std()
    amount = 1000 * np.exp(0.6 * direction + 1.2 * rng.normal(size=n))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-1 - direction)), amount, 0.0)


def use_of_services(rng: Random, n: int) -> Drawn:
    """Signal that sits in extreme rows: costs add up over heavy-tailed counts."""
    counts = rng.poisson(rng.lognormal(-0.5, 1.3, (n, 7))).astype(float)
    X = np.hstack([indicators(rng, n, 25), correlated(rng, n, 10, 1.0), counts])
    prices = rng.lognormal(5, 1, 7)
    return X, counts @ prices * rng.lognormal(0, 0.7, n) + 300 * rng.lognormal(0, 1, n)


def popularity(rng: Random, n: int) -> Drawn:
    """Many near-collinear heavy-tailed sizes, many rare words, and a count that few rows have much of."""
    size = rng.lognormal(0, 1.2, (n, 6))
    stats = np.hstack([size * rng.lognormal(0, 0.2, (n, 6)) for _ in range(8)])
    X = np.hstack([stats, indicators(rng, n, 72)])
    rate = size @ rng.lognormal(-1, 1, 6) * 0.5
    return X, rng.poisson(rate * rng.gamma(0.5, 2, n)).astype(float)


def level_off(rng: Random, n: int) -> Drawn:
    """Heavy-tailed counts whose effect grows with their logarithm."""
    counts = rng.poisson(rng.lognormal(-0.5, 1.3, (n, 7))).astype(float)
    X = np.hstack([indicators(rng, n, 25), correlated(rng, n, 10, 1.0), counts])
    return X, np.log1p(counts) @ rng.lognormal(0, 1, 7) + 3 * rng.lognormal(0, 0.7, n)


def weak(rng: Random, n: int) -> Drawn:
    X = np.hstack([indicators(rng, n, 10), rng.normal(size=(n, 20))])
    return X, 3 + with_share(rng, X @ rng.normal(size=30), rng.standard_t(3, n), 0.02)


def unexplained(rng: Random, n: int) -> Drawn:
    return np.hstack([indicators(rng, n, 10), rng.normal(size=(n, 20))]), rng.lognormal(0, 1.5, n)


def few_matter(rng: Random, n: int) -> Drawn:
    X, w = rng.normal(size=(n, 100)), np.zeros(100)
    w[rng.choice(100, 8, replace=False)] = rng.normal(size=8)
    return X, with_share(rng, X @ w, rng.standard_t(3, n), 0.3)


def labelled(rng: Random, direction: Array, size: float, offset: float) -> Array:
    centred = (direction - direction.mean()) / direction.std()
    return (rng.random(len(direction)) < 1 / (1 + np.exp(offset - size * centred))).astype(float)


def census(rng: Random, n: int) -> Drawn:
    """One-hot categories and a few sizes, one of them zero for most."""
    X = np.hstack([one_hot(rng, n, k) for k in (8, 14, 7, 12, 6, 5, 2, 30)] + [correlated(rng, n, 3, 0.5) * 10 + 40])
    X = np.c_[X, np.where(rng.random(n) < 0.08, rng.lognormal(8, 1, n), 0.0)]
    return X, labelled(rng, X[:, :-1] / X[:, :-1].std(axis=0) @ rng.normal(size=87) + 2 * (X[:, -1] > 5000), 2.0, 1.2)


def diagnosis(rng: Random, n: int) -> Drawn:
    X = np.hstack([indicators(rng, n, 30), correlated(rng, n, 20, 1.2)])
    return X, labelled(rng, X / X.std(axis=0) @ rng.normal(size=50), 1.0, 2.0)


def gaussian_labels(rng: Random, n: int) -> Drawn:
    X = rng.normal(size=(n, 30))
    return X, labelled(rng, X @ rng.normal(size=30), 2.0, 0.0)


def wild_noise(rng: Random, n: int) -> Drawn:
    X = correlated(rng, n, 30, 0.5)
    return X, with_share(rng, X @ rng.normal(size=30), rng.standard_t(1.5, n), 0.4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    draw: Callable[[Random, int], Drawn]
    loss: Loss
    rows: int

    @property
    def name(self) -> str:
        return f"{self.draw.__name__} {self.rows}"

    def split(self, seed: int) -> tuple[Array, Array, Array, Array]:
        """Training rows, and as many (at least 20,000) of the same law to score."""
        held = max(self.rows, 20_000)
        X, y = self.draw(np.random.default_rng(seed), self.rows + held)
        return X[: self.rows], y[: self.rows], X[self.rows :], y[self.rows :]


def families() -> Iterator[Family]:
    for draw in (
        gaussian,
        ill_conditioned,
        near_collinear,
        far_from_zero,
        rare,
        spending,
        use_of_services,
        popularity,
        level_off,
        few_matter,
    ):
        yield Family(draw=draw, loss=Squared(), rows=20_000)
    for draw in (visits, weak, unexplained, spending, ill_conditioned):
        yield Family(draw=draw, loss=Squared(), rows=4_500)
    for draw in (census, diagnosis, gaussian_labels):
        yield Family(draw=draw, loss=Logistic(), rows=25_000)
    yield Family(draw=wild_noise, loss=Huber(), rows=20_000)
