"""Table 3 of Han et al. (2018) with budgets that mean something: plain functions, no Prefect. Imports packages below.

Every number here is a test error on rows in the clear, beside a baseline that is not private: an experiment on public or made-up
data, not a release.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightfit.methods.local.fit import MARGIN_REACHED, LocalMethod, local_fit
from nightfit.numerics.keystream import KEY_BYTES, Key
from nightfit.numerics.prf import slots_of
from nightfit.privacy.accounting import Currency, limit
from nightfit.privacy.local.server import Server
from nightfit.problem.losses import Loss
from nightfit.problem.losses.gompertz import Gompertz
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.ramp import Ramp
from nightfit.problem.penalties.l2 import L2
from nightfit.types import Adjacency, Array, Block, NightfitError

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "gompertz": Gompertz(), "logistic": Logistic(), "ramp": Ramp()}
BATCHES = (1, 5, 10)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
EPOCHS = 10  # of the curriculum, their T_max
L2_WEIGHT = 1e-4  # public and fixed: their cross-validation on the private data is not paid for
UNUSED_DELTA = 1e-9  # pure budgets have none
CATEGORIES = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)  # A7A has 14 columns of such sizes, 123 in all
SIDE = 28


@dataclass(frozen=True, kw_only=True)
class Data:
    """Rows of norm 1 with a last column for the intercept, labels -1 and +1."""

    name: str
    train: Block
    test: Block

    def error(self, weights: Array) -> float:
        """The share of test rows on the wrong side."""
        return float(np.mean(np.where(self.test.X @ weights >= 0, 1.0, -1.0) != self.test.y))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One number of the table: test error, mean and standard deviation over repetitions. Epsilon is a user's, for the whole fit."""

    data: str
    loss: str
    method: str
    batch: int
    epsilon: float
    error: float
    deviation: float


def adult_like(train: int = 16_100, test: int = 16_461, seed: int = 0) -> Data:
    """Rows as in A7A: one category in each of 14 columns, 123 indicators, a quarter positive, about 15 in 100 not predictable."""
    rng = np.random.default_rng(seed)
    rows = train + test
    indicators = []
    for size in CATEGORIES:
        shares = rng.dirichlet(np.full(size, 0.7))
        indicators.append(np.eye(size)[rng.choice(size, rows, p=shares)])
    X = np.hstack(indicators)
    z = X @ rng.normal(0, 1.6, X.shape[1])
    y = rng.logistic(size=rows) < z - np.quantile(z, 0.76)
    return _data("adult-like", X, y, train)


def digits_like(train: int = 11_982, test: int = 1_984, seed: int = 0) -> Data:
    """Rows as in MNIST 3 against 8: 784 pixels from 0 to 1, most of them dark; two smooth shapes, each with smooth deformations."""
    rng = np.random.default_rng(seed)
    rows = train + test
    y = rng.random(rows) < 0.5
    place = np.linspace(-1, 1, SIDE)
    fields = np.array([_bump(place, rng.uniform(-0.7, 0.7, 2), rng.uniform(0.1, 0.3)) for _ in range(60)])
    shared, apart = fields[:8].sum(axis=0), fields[8:12].sum(axis=0)
    styles = rng.normal(0, 0.35, (rows, 48)) @ fields[12:] + rng.normal(0, 0.25, (rows, 12)) @ fields[:12]
    X = np.clip(shared + np.where(y, 0.3, -0.3)[:, None] * apart + styles - 0.4, 0, 1)
    return _data("digits-like", X, y, train)


def _bump(place: Array, centre: Array, width: float) -> Array:
    """A smooth spot of a picture, as one row."""
    down, across = np.exp(-((place - centre[:, None]) ** 2) / width**2)
    return np.outer(down, across).ravel()


def parquet(path: Path, target: str | None = None, seed: int = 0) -> Data:
    """Any Parquet with a target of two values: the column named, `y`, or the only one that begins with y_. Columns that begin with _ are
    left out, but `_split` = 0 / 1 says which rows are for training and testing; else a tenth is for testing.
    """
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError):
        raise NightfitError(f"{path} cannot be read as Parquet") from None
    targets = [name for name in table.columns if name == "y" or name.startswith("y_")]
    if target is None and len(targets) != 1:
        raise NightfitError(f"{path.name}: name the column to be predicted with --target")
    chosen = target or targets[0]
    if chosen not in table.columns:
        raise NightfitError(f"{path.name} has no column {chosen!r}")
    features = [name for name in table.columns if name not in {*targets, chosen} and not name.startswith("_")]
    numbers = table[features].select_dtypes(["number", "bool"])
    if numbers.shape[1] < len(features) or not features:
        raise NightfitError(f"{path.name}: every feature must be a number; encode the others, or begin their names with _")
    X, values = np.nan_to_num(numbers.to_numpy(dtype=np.float64)), table[chosen].to_numpy(dtype=np.float64)
    if len(np.unique(values)) != 2:
        raise NightfitError(f"{path.name}: {chosen!r} must have two values")
    drawn = np.random.default_rng(seed).random(len(values)) >= 0.1
    first = table["_split"].to_numpy() == 0 if "_split" in table.columns else drawn
    order = np.argsort(~first, kind="stable")
    largest = np.maximum(np.abs(X).max(axis=0), 1e-300)
    return _data(path.stem, (X / largest)[order], (values == values.max())[order], int(first.sum()))


def _data(name: str, X: Array, y: npt.NDArray[np.bool_], train: int) -> Data:
    """Each row is scaled to norm 1 by its owner, with the intercept's column."""
    rows = np.hstack([X, np.ones((len(X), 1))])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels, slots = np.where(y, 1.0, -1.0), slots_of(name, 0, len(X))
    parts = [Block(np.ascontiguousarray(rows[part]), labels[part], slots[part]) for part in (slice(train), slice(train, None))]
    return Data(name=name, train=parts[0], test=parts[1])


def private_fit(data: Data, loss: Loss, solver: Literal["djw", "prestige"], batch: int, epsilon: float, sampler: str, key: Key) -> Array:
    """The weights of one local fit in which every user sends one report of this epsilon."""
    columns = data.train.X.shape[1]
    local = local_fit(
        LocalMethod(solver=solver, batch=batch, epochs=EPOCHS if solver == "prestige" else 1, sampler=sampler, bound=loss.lipschitz),
        loss=loss,
        penalty=L2(weight=L2_WEIGHT),
        features=columns - 1,
        columns=columns,
        units=len(data.train),
        ceiling=limit(epsilon, UNUSED_DELTA, Currency.PURE),
        currency=Currency.PURE,
        adjacency=Adjacency.REPLACE_ONE,
    )
    return local.outcome(local.exchange(lambda asked: asked.whole([asked.part(data.train, key)], key), lambda _: None)).weights


def plain_fit(data: Data, loss: Loss, batch: int, rng: np.random.Generator) -> Array:
    """Stochastic gradient descent with the same server, one pass, no privacy."""
    X, y = data.train.X, data.train.y
    size = loss.lipschitz + L2_WEIGHT * MARGIN_REACHED
    server = Server(radius=MARGIN_REACHED, l2=L2_WEIGHT, strongly=False, size=size, penalised=X.shape[1] - 1)
    weights, summed, order = np.zeros(X.shape[1]), np.zeros(X.shape[1]), rng.permutation(len(y))
    steps = math.ceil(len(y) / batch)
    for step in range(steps):
        rows = order[step * batch : (step + 1) * batch]
        slopes = loss.slope(y[rows], X[rows] @ weights)
        server.move(weights, summed, slopes @ X[rows] / len(rows), step + 1)
    return summed / steps


def prestige(
    data_sets: Sequence[Data],
    *,
    repeats: int = 20,
    losses: Sequence[str] = tuple(LOSSES),
    batches: Sequence[int] = BATCHES,
    epsilons: Sequence[float] = EPSILONS,
    sampler: str = "djw",
    seed: int = 0,
    show: Callable[[str], None] = lambda _: None,
) -> Iterator[Cell]:
    """The table, number by number: DJW and PRESTIGE (masked) at each epsilon, beside descent without privacy (epsilon infinite)."""
    for data in data_sets:
        for name in losses:
            for batch in batches:
                for method in ("sgd", "djw", "prestige"):
                    for epsilon in (math.inf,) if method == "sgd" else epsilons:
                        show(f"{data.name}, {name}, batch {batch}, {method}, epsilon {epsilon:g}")
                        errors = [
                            _error(data, name, method, batch, epsilon, sampler, np.random.default_rng([seed, r])) for r in range(repeats)
                        ]
                        spread = float(np.std(errors, ddof=1)) if repeats > 1 else 0.0
                        yield Cell(
                            data=data.name,
                            loss=name,
                            method=method,
                            batch=batch,
                            epsilon=epsilon,
                            error=float(np.mean(errors)),
                            deviation=spread,
                        )


def _error(data: Data, loss: str, method: str, batch: int, epsilon: float, sampler: str, rng: np.random.Generator) -> float:
    if method == "sgd":
        return data.error(plain_fit(data, LOSSES[loss], batch, rng))
    solver: Literal["djw", "prestige"] = "djw" if method == "djw" else "prestige"
    return data.error(private_fit(data, LOSSES[loss], solver, batch, epsilon, sampler, Key(rng.bytes(KEY_BYTES))))
