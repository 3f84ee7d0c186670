"""Adult of the UCI repository, where its Parquet is given: test errors of logistic fits (Wang et al. 2020, figure 2). Imports fits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nightfit.shards.synthetic import Synthetic
from nightfit_flows.reproduce import prestige
from nightfit_flows.reproduce.experiment import Curve, Figure, Point, Scale, Show
from nightfit_flows.reproduce.fits import Named, Setting, fitted, planned

TRAIN, TEST = 28_000, 2_000
EPSILONS = (0.1, 0.5, 1.0)


def figure(data: Path, methods: Sequence[Named], scale: Scale, show: Show) -> Figure:
    """Share of wrong test rows over epsilon."""
    held = prestige.parquet(data / "adult.parquet")
    X, y = np.vstack([held.train.X, held.test.X])[:, :-1], np.concatenate([held.train.y, held.test.y])
    order = np.random.default_rng(0).permutation(len(y))[: TRAIN + TEST]
    train, test = order[:TRAIN], order[TRAIN:]
    shape = Synthetic(rows=TRAIN, columns=X.shape[1], shards=1, task="logistic", seed=0)
    curves = []
    for named in methods:
        points = []
        for epsilon in EPSILONS:
            show(f"Adult, {named.name}, epsilon {epsilon:g}")
            setting, errors = Setting(rows=shape, epsilon=epsilon, model={"loss": "logistic", "penalty": {"l2": 1e-4}}), []
            for seed in range(scale.of(5, 1)):
                outcome = fitted(setting, named, X[train], (y[train] > 0).astype(float), seed)
                known = outcome.preprocessing or planned(setting, named).specification.preprocessing
                slopes, intercept = known.in_original_units(outcome.weights)
                errors.append(float(np.mean(np.where(X[test] @ slopes + intercept >= 0, 1.0, -1.0) != y[test])))
            points.append(Point.of(epsilon, errors))
        curves.append(Curve(name=named.name, kind=named.kind, points=tuple(points)))
    rarer = min(float(np.mean(y[test] > 0)), float(np.mean(y[test] < 0)))
    curves.append(Curve(name="zero", kind="zero", points=tuple(Point(x=epsilon, mean=rarer, deviation=0.0) for epsilon in EPSILONS)))
    return Figure(
        title="Adult: wrong labels over epsilon", over="epsilon", error="share of wrong test rows", curves=tuple(curves), logarithmic=False
    )
