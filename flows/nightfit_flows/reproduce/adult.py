"""Adult of the UCI repository, where its Parquet is given: figure 2 of Wang et al. (2020), ridge and logistic. Imports fits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from nightfit.shards.synthetic import Synthetic
from nightfit.types import Array
from nightfit_flows.reproduce import prestige
from nightfit_flows.reproduce.experiment import Figure, Scale, Show, Verdict, judged
from nightfit_flows.reproduce.fits import Named, Setting, descents, level

TRAIN, TEST = 28_000, 2_000
L2 = 1e-4
MODELS: dict[str, dict[str, Any]] = {
    "ridge": {"penalty": {"l2": L2}},
    "logistic": {"loss": "logistic", "penalty": {"l2": L2}},
}


def risk(model: str, z: Array, y: Array) -> float:
    """The mean loss of predictions z of labels -1 and 1."""
    return float(np.mean((z - y) ** 2) / 2 if model == "ridge" else np.mean(np.logaddexp(0.0, -y * z)))


def figures(data: Path, methods: Sequence[tuple[Named, float]], scale: Scale, show: Show) -> list[Figure]:
    """Test risk over iterations, of methods with their epsilons."""
    held = prestige.parquet(data / "adult.parquet")
    X, y = np.vstack([held.train.X, held.test.X])[:, :-1], np.concatenate([held.train.y, held.test.y])
    order = np.random.default_rng(0).permutation(len(y))[: TRAIN + TEST]
    cut = len(order) * TRAIN // (TRAIN + TEST)
    train, test = order[:cut], order[cut:]
    return [_figure(model, methods, (X[train], y[train]), (X[test], y[test]), scale.of(3, 1), show) for model in MODELS]


def _figure(
    model: str, methods: Sequence[tuple[Named, float]], train: tuple[Array, Array], held: tuple[Array, Array], repeats: int, show: Show
) -> Figure:
    (X, y), (test, truth) = train, held
    shape = Synthetic(rows=len(y), columns=X.shape[1], shards=1, task="linear" if model == "ridge" else "logistic", seed=0)
    target = y if model == "ridge" else (y > 0).astype(float)

    setting = Setting(rows=shape, model=MODELS[model])
    curves = descents(methods, setting, repeats, lambda _: (X, target), lambda w, b, _: risk(model, test @ w + b, truth), show)
    ends = [0.0, max(found.last.x for found in curves)]
    plain = (Ridge(alpha=L2 * len(y)) if model == "ridge" else LogisticRegression(C=1 / (L2 * len(y)), max_iter=1000)).fit(X, target)
    best = test @ np.ravel(plain.coef_) + float(np.ravel(plain.intercept_)[0])
    curves += [
        level("not private", "not private", ends, [risk(model, best, truth)]),
        level("zero", "zero", ends, [risk(model, np.zeros(len(truth)), truth)]),
    ]
    return Figure(
        title=f"Figure 2: Adult, {model}, test risk over iterations",
        over="iteration",
        error="test risk",
        curves=tuple(curves),
        logarithmic=False,
        about=f"{len(y):,} rows to fit and {len(truth):,} to test, {X.shape[1]} columns, at epsilon 1 unless the name says another.",
    )


def verdicts(shown: list[Figure], ours: str, baseline: str) -> tuple[Verdict, ...]:
    """What the paper says of its method beside its baseline in figure 2, where that was made."""
    made = [figure for figure in shown if "Adult" in figure.title]
    if not made:
        return (Verdict(claim="On Adult algorithm 4 is comparable to RGD.", answer="not tested", why="Adult was not given (--data)."),)

    def gained(figure: Figure, name: str) -> float:
        nothing = figure.curve("zero").last.mean
        return (nothing - figure.curve(name).last.mean) / (nothing - figure.curve(baseline).last.mean)

    return (
        judged(
            "On Adult algorithm 4 is comparable to RGD (at epsilon 1: nine tenths of what RGD gains on zero weights).",
            [(figure.title, gained(figure, ours) > 0.9) for figure in made],
            f"Shares of it: {', '.join(f'{gained(figure, ours):.2f}' for figure in made)}.",
        ),
    )
