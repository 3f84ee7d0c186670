"""BlogFeedback of the UCI repository, where its Parquet is given: figure 3 of Xie et al. (2023). Imports fits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import Lasso

from nightfit.shards.synthetic import Synthetic
from nightfit.types import Array, NightfitError
from nightfit_flows.reproduce.experiment import Curve, Figure, Scale, Show, Table, Verdict, judged
from nightfit_flows.reproduce.fits import Named, Setting, descents, level

FILE, TARGET = "blogfeedback.parquet", "y_comments_next24h"
SHARE = 0.7  # of the records to fit, as theirs
EPSILONS = (0.5, 2.0)
WEIGHT = 0.01  # of the l1 penalty, in sizes of residuals


def read(data: Path) -> tuple[Array, Array]:
    """Features and number of comments of the official training records."""
    try:
        table = pd.read_parquet(data / FILE)
    except (OSError, ValueError):
        raise NightfitError(f"{data / FILE} cannot be read as Parquet") from None
    if TARGET not in table.columns:
        raise NightfitError(f"{FILE} has no column {TARGET!r}, the number of comments")
    if "_split" in table.columns:
        table = table[table["_split"] == 0]
    features = [name for name in table.columns if not name.startswith(("_", "y_"))]
    return table[features].to_numpy(dtype=np.float64), table[TARGET].to_numpy(dtype=np.float64)


def risk(slopes: Array, intercept: float, held: tuple[Array, Array]) -> float:
    """Half of the mean squared error."""
    return float(np.mean((held[0] @ slopes + intercept - held[1]) ** 2) / 2)


def figures(data: Path, methods: Sequence[Named], scale: Scale, show: Show) -> list[Figure]:
    """Test risk over iterations, at each epsilon."""
    X, y = read(data)
    repeats, splits = scale.of(5, 1), []
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: int(SHARE * len(y))], order[int(SHARE * len(y)) :]
        splits.append(((np.ascontiguousarray(X[train]), y[train]), (X[test], y[test])))
    plain = [_lasso(*train, held) for train, held in splits]
    zeros = [risk(np.zeros(X.shape[1]), 0.0, held) for _, held in splits]
    shape = Synthetic(rows=len(splits[0][0][1]), columns=X.shape[1], shards=1, task="linear", seed=0)
    shown = []
    for epsilon in EPSILONS:
        setting = Setting(rows=shape, epsilon=epsilon, model={"penalty": {"l1": WEIGHT}})
        at = [(named, epsilon) for named in methods]
        curves = descents(at, setting, repeats, lambda seed: splits[seed][0], lambda w, b, seed: risk(w, b, splits[seed][1]), show)
        ends = [0.0, max(found.last.x for found in curves)]
        curves += [level("not private", "not private", ends, plain), level("zero", "zero", ends, zeros)]
        shown.append(_figure(epsilon, curves, len(splits[0][0][1]), X.shape[1], repeats))
    return shown


def _figure(epsilon: float, curves: list[Curve], rows: int, columns: int, repeats: int) -> Figure:
    return Figure(
        title=f"Figure 3: BlogFeedback, test risk over iterations at epsilon {epsilon:g}",
        over="iteration",
        error="test risk",
        curves=tuple(curves),
        about=f"{rows:,} posts to fit, {columns} columns, {repeats} splits. The curves start at the level that was paid for.",
    )


def _lasso(X: Array, y: Array, held: tuple[Array, Array]) -> float:
    """A lasso on columns of unit size, without privacy."""
    centre, size = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-9)
    fit = Lasso(alpha=WEIGHT * y.std(), max_iter=3000, tol=1e-3).fit((X - centre) / size, y)
    slopes = fit.coef_ / size
    return risk(slopes, float(fit.intercept_ - centre @ slopes), held)


def table(shown: Sequence[Figure]) -> Table:
    """Their table S1: errors of what was released."""
    names = [found.name for found in shown[0].curves]
    return Table(
        title="BlogFeedback: root mean squared error on test posts (their table S1)",
        header=("method", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)),
        rows=tuple((name, *(f"{(2 * figure.curve(name).last.mean) ** 0.5:.4g}" for figure in shown)) for name in names),
    )


def verdicts(shown: Sequence[Figure], sgd: Named, k: Named, h: Named) -> tuple[Verdict, ...]:
    """What the paper says of figure 3, where it was made."""
    claims = (
        ("On BlogFeedback DP-SPGD(H) and DP-SPGD(K) outperform DP-SPGD at a large budget (epsilon 2).", (h, k), sgd, shown[-1:]),
        ("On BlogFeedback DP-SPGD(H) outperforms DP-SPGD(K).", (h,), k, shown),
    )
    if not shown:
        return tuple(Verdict(claim=claim, answer="not tested", why=f"{FILE} was not given (--data).") for claim, *_ in claims)
    return tuple(
        judged(
            claim,
            [
                (f"{named.name}, {figure.title}", figure.curve(named.name).last.mean < figure.curve(other.name).last.mean)
                for named in better
                for figure in places
            ],
        )
        for claim, better, other, places in claims
    )
