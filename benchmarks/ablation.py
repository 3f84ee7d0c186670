"""What each part of the automatic method is worth: it is switched off, and the loss of accuracy on generated data is told.

`python -m benchmarks ablation` prints, for each family of data and epsilon, the score of the whole method (R2; for labels 2 AUC - 1;
for the Huber loss the share of the mean absolute error that is explained) and what is lost without a part. No real data are read.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score

from benchmarks._fits import fitted
from benchmarks._generated import Family, families
from nightfit.methods.auto.tuning import Tuning
from nightfit.problem.losses import Estimand
from nightfit.records.targets import Target
from nightfit.types import Array

EPSILONS = (0.25, 1.0)
SEEDS = 3
WHOLE = "whole"
PARTS = {
    "shrinkage": Tuning(shrinks=False),
    "whitening": Tuning(whitens=False),
    "chosen cap (median instead)": Tuning(cap_quantile=0.5),
    "centring": Tuning(means=0.0, spreads=0.0),
    "the target's mean": Tuning(least_target=0.0, most_target=0.0),
    "shares that follow n": Tuning(most_target=0.01, most_calibration=0.08, most_residuals=0.1),
    "ridge's prior": Tuning(ridge=False),
    "slopes of many sizes": Tuning(mixture=False),
    "the calibration": Tuning(calibrates=False),
    "the clamp of hidden columns": Tuning(reach_if_hidden=8.0),
    "the second look at hidden scales": Tuning(hidden_scales=0.0),
    "the comparison of clamps": Tuning(compares=False),
}


def scored(family: Family, y: Array, predicted: Array) -> float:
    if family.loss.target is Target.LABELS:
        return float(2 * roc_auc_score(y, predicted) - 1)
    if family.loss.estimand is Estimand.MEDIAN:
        return float(1 - mean_absolute_error(y, predicted) / np.abs(y - np.median(y)).mean())
    return float(r2_score(y, predicted))


def on_family(family: Family, epsilon: float, seeds: int) -> dict[str, float]:
    """The mean score over seeds of the whole and of the method without each part."""
    scores: dict[str, list[float]] = {name: [] for name in (WHOLE, *PARTS)}
    for seed in range(seeds):
        X, y, test, target = family.split(seed)
        for name, tuning in {WHOLE: Tuning(), **PARTS}.items():
            scores[name].append(scored(family, target, fitted(X, y, family.loss, epsilon, seed, tuning=tuning).predict(test)))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def content(seeds: int = SEEDS) -> dict[str, Any]:
    rows = [{"family": f.name, "epsilon": e, "scores": on_family(f, e, seeds)} for f in families() for e in EPSILONS]
    return {"seeds": seeds, "rows": rows}


def lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"Scores of the whole, and what they lose without a part; means of {found['seeds']} seeds."
    for number, name in enumerate(PARTS, 1):
        yield f"  ({number}) {name}"
    yield f"{'family':24} epsilon   whole " + " ".join(f"{'(' + str(number) + ')':>7}" for number in range(1, len(PARTS) + 1))
    for row in found["rows"]:
        scores = row["scores"]
        lost = " ".join(f"{scores[WHOLE] - scores[name]:7.3f}" for name in PARTS)
        yield f"{row['family']:24} {row['epsilon']:7g} {scores[WHOLE]:7.3f} {lost}"
    means = [np.mean([row["scores"][WHOLE] - row["scores"][name] for row in found["rows"]]) for name in PARTS]
    yield f"{'mean':24} {'':7} {'':7} " + " ".join(f"{mean:7.3f}" for mean in means)
