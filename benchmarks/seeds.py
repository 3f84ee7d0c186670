"""Whether any seed blows up: worst over median error of 200 fits of small heavy-tailed data, which must stay below 5.

Columns of three sizes and an indicator, t(3) noise, 1,000 rows: so little that noise sets every bound. The error is that of predictions,
and for labels the mean loss.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks._fits import fitted
from nightfit.problem.losses import Loss
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.records.targets import Target

SEEDS = 200


def errors(epsilon: float, loss: Loss, seeds: int) -> Iterator[float]:
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1_000, 4)) * [1, 10, 0.1, 1]
        X[:, 3] = X[:, 3] > 0.5
        truth = X[:, 0] + X[:, 3]
        if loss.target is Target.LABELS:
            y = (rng.random(len(X)) < 1 / (1 + np.exp(-2 * truth))).astype(float)
            yield float(loss.value(2 * y - 1, fitted(X, y, loss, epsilon, seed).predict(X)).mean())
        else:
            fit = fitted(X, truth + rng.standard_t(3, len(X)), loss, epsilon, seed)
            yield float(np.sqrt(np.mean((fit.predict(X) - truth) ** 2)))


def ratios(seeds: int = SEEDS) -> dict[str, float]:
    found = {}
    losses: dict[str, Loss] = {"squared": Squared(), "huber": Huber(), "logistic": Logistic(), "hinge": Hinge()}
    for name, loss in losses.items():
        for epsilon in (0.25, 1.0, 4.0):
            all_errors = list(errors(epsilon, loss, seeds))
            found[f"{name}, epsilon {epsilon:g}, worst over median"] = max(all_errors) / float(np.median(all_errors))
    return found
