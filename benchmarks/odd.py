"""Whether a fit of odd data is ever worse than the mean: test R2 of 20 seeds, mean and worst, beside that of least squares.

Targets far from zero, of tiny size, of two values, zero for most or nearly all; columns of sizes from 1e-6 to 1e9, without variance, of
category codes, with tails that have no mean or carry no signal, with garbage in a few rows; truths that level off or are not linear.
Nothing was tuned on them but the guards that they asked for. Seeded noise: for measuring only.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from benchmarks._fits import fitted
from benchmarks._generated import Drawn, Random, correlated, indicators, level_off, with_share
from nightfit.problem.losses.squared import Squared
from nightfit.types import Array

EPSILONS = (0.25, 1.0, 4.0)
ROWS, TEST_ROWS, SEEDS = 5_000, 20_000, 20


def plain(rng: Random, n: int) -> Drawn:
    """Ten normal columns that explain 0.3 of a target of deviation one."""
    X = rng.normal(size=(n, 10))
    return X, with_share(rng, X @ rng.normal(size=10), rng.normal(size=n), 0.3) * np.sqrt(0.3)


def temperature(rng: Random, n: int) -> Drawn:
    X, y = plain(rng, n)
    return X, 37 + 0.5 * y


def far_target(rng: Random, n: int) -> Drawn:
    X, y = plain(rng, n)
    return X, 1_000 + y


def tiny_target(rng: Random, n: int) -> Drawn:
    X, y = plain(rng, n)
    return X, 1e-7 * y


def two_values(rng: Random, n: int) -> Drawn:
    X = np.hstack([indicators(rng, n, 10), rng.normal(size=(n, 10))])
    return X, (rng.random(n) < 1 / (1 + np.exp(2 - 0.4 * X @ rng.normal(size=20)))).astype(float)


def mostly_zero(rng: Random, n: int) -> Drawn:
    X = rng.normal(size=(n, 20))
    return X, np.where(rng.random(n) < 0.03, rng.lognormal(3, 1, n) * np.exp(0.3 * X[:, 0]), 0.0)


def some(rng: Random, n: int, share: float) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """35 columns, a direction in them, and for how many records about there is anything at all."""
    X = np.hstack([indicators(rng, n, 20), correlated(rng, n, 15, 1.0)])
    direction = X / np.maximum(X.std(axis=0), 1e-3) @ rng.normal(size=35)
    direction /= direction.std()
    return X, direction, rng.random(n) < 1 / (1 + np.exp(np.log(1 / share - 1) - 0.7 * direction))


def inpatient(rng: Random, n: int) -> Drawn:
    X, direction, treated = some(rng, n, 0.1)
    return X, np.where(treated, np.exp(7 + 0.3 * direction + 1.2 * rng.normal(size=n)), 0.0)


def supplies(rng: Random, n: int) -> Drawn:
    X, direction, bought = some(rng, n, 0.2)
    return X, np.where(bought, np.exp(3 + 0.3 * direction + 0.7 * rng.normal(size=n)), 0.0)


def admissions(rng: Random, n: int) -> Drawn:
    X, _, admitted = some(rng, n, 0.1)
    return X, np.where(admitted, 1.0 + rng.poisson(0.2, n), 0.0)


def skewed_down(rng: Random, n: int) -> Drawn:
    X = rng.normal(size=(n, 10))
    return X, -np.exp(1.3 * rng.normal(size=n) + 0.1 * X @ rng.normal(size=10))


def no_variance(rng: Random, n: int) -> Drawn:
    """Amounts whose tail has no variance."""
    X = np.hstack([indicators(rng, n, 10), rng.normal(size=(n, 10))])
    return X, np.exp(0.2 * X @ rng.normal(size=20)) * (rng.pareto(1.3, n) + 0.1)


def all_sizes(rng: Random, n: int) -> Drawn:
    X, y = plain(rng, n)
    return X * 10.0 ** rng.uniform(-6, 9, 10), y


def constants_and_copies(rng: Random, n: int) -> Drawn:
    X, y = plain(rng, n)
    return np.hstack([np.ones((n, 3)), np.zeros((n, 3)), np.full((n, 1), 5.0), X, X[:, :3]]), y


def codes(rng: Random, n: int) -> Drawn:
    """Numbers of categories, one of which has an effect of its own for each number."""
    X = np.column_stack([rng.integers(0, most, n) for most in (2, 3, 5, 10, 50, 100, 1_000, 10_000)]).astype(float)
    return X, rng.normal(size=100)[X[:, 5].astype(int)] + 0.5 * X[:, 0] + rng.normal(size=n)


def capped(rng: Random, n: int) -> Drawn:
    sizes = rng.lognormal(0, 1.8, (n, 5))
    return np.hstack([indicators(rng, n, 15), sizes]), np.minimum(sizes, 5) @ rng.lognormal(0, 1, 5) + 3 * rng.standard_t(3, n)


def no_mean(rng: Random, n: int) -> Drawn:
    X = rng.standard_cauchy((n, 8))
    return X, with_share(rng, np.arctan(X) @ rng.normal(size=8), rng.normal(size=n), 0.3)


def garbage(rng: Random, n: int) -> Drawn:
    X, y = plain(rng, n)
    bad = rng.random(n) < 0.003
    X[bad] *= rng.lognormal(3, 1, (int(bad.sum()), 1))
    return X, y


def squares(rng: Random, n: int) -> Drawn:
    X = rng.normal(size=(n, 10))
    return X, X**2 @ rng.normal(size=10) + rng.normal(size=n)


FAMILIES = (temperature, far_target, tiny_target, two_values, mostly_zero, inpatient, supplies, admissions, skewed_down, no_variance)
FAMILIES += (all_sizes, constants_and_copies, codes, level_off, capped, no_mean, garbage, squares)


def content(seeds: int = SEEDS, rows: int = ROWS) -> dict[str, Any]:
    found = []
    for draw in FAMILIES:
        scores: dict[str, list[float]] = {name: [] for name in ("least squares", *map("{:g}".format, EPSILONS))}
        for seed in range(seeds):
            X, y = draw(np.random.default_rng(seed), rows + TEST_ROWS)
            predicted = {"least squares": LinearRegression().fit(X[:rows], y[:rows]).predict(X[rows:])}
            predicted |= {f"{e:g}": fitted(X[:rows], y[:rows], Squared(), e, seed).predict(X[rows:]) for e in EPSILONS}
            for name, values in predicted.items():
                scores[name].append(float(r2_score(y[rows:], values)))
        mean, worst = ({name: float(of(values)) for name, values in scores.items()} for of in (np.mean, np.min))
        found.append({"family": draw.__name__, "mean": mean, "worst": worst})
    return {"seeds": seeds, "rows": rows, "families": found}


def lines(found: dict[str, Any]) -> Iterator[str]:
    columns = ("least squares", *map("{:g}".format, EPSILONS))
    yield f"R2 of {found['seeds']} seeds, {found['rows']:,} rows: mean (worst)".ljust(44) + "".join(f"{name:>20}" for name in columns)
    for row in found["families"]:
        cells = (f"{row['mean'][name]:.3f} ({row['worst'][name]:.3f})" for name in columns)
        yield f"{row['family']:44}" + "".join(f"{cell:>20}" for cell in cells)
