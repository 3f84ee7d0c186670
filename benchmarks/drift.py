"""Whether last night's model helps tonight's: errors of nightly refits that start at zero and at the night before's, at equal budget.

y = x . w_t + e on fresh records every night, 10 normal features and t(3) noise; w_t takes a small random step every night (drift),
stays (still), or is drawn anew in the middle of the nights (jump), or becomes -w (reversal). The error is ||w - w_t|| of the
coefficients, a mean over nights and seeds from the second night on; for a jump or a reversal, that of the night after it alone.
Ratios: starting at the previous over starting at zero; below 1 it helps. Seeded noise: for measuring only.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks._fits import fitted
from nightfit.methods.warm_start import Previous
from nightfit.problem.losses import Loss
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.records.targets import Target
from nightfit.types import Array

ROWS, COLUMNS, NIGHTS, SEEDS = 5_000, 10, 8, 6
KINDS = {"still": 0.0, "slow drift": 0.02, "drift": 0.1, "jump": 0.0, "reversal": 0.0}


def truths(kind: str, rng: np.random.Generator, columns: int) -> Array:
    """Coefficients of each night, of norm near one."""
    w = rng.normal(size=columns) / np.sqrt(columns)
    steps = rng.normal(size=(NIGHTS, columns)) / np.sqrt(columns) * KINDS[kind]
    path = w + np.cumsum(steps, axis=0)
    if kind == "jump":
        path[NIGHTS // 2 :] = rng.normal(size=columns) / np.sqrt(columns)
    if kind == "reversal":
        path[NIGHTS // 2 :] *= -1
    return path


def nights(kind: str, loss: Loss, epsilon: float, seed: int, *, warm: bool, rows: int = ROWS) -> list[float]:
    """The error of each night's coefficients."""
    rng = np.random.default_rng([seed, 1])
    start, errors = None, []
    for night, w in enumerate(truths(kind, rng, COLUMNS)):
        X = rng.normal(size=(rows, COLUMNS))
        margin = X @ w + 0.5
        y = (rng.logistic(size=rows) < 2 * margin).astype(float) if loss.target is Target.LABELS else margin + rng.standard_t(3, rows)
        fit = fitted(X, y, loss, epsilon, 1_000 * seed + night, start=start)
        coef, intercept = fit.preprocessing.in_original_units(fit.outcome.weights)
        start = Previous(run=f"night {night}", coef=tuple(coef), intercept=intercept) if warm else None
        errors.append(float(np.linalg.norm(coef / (2 if loss.target is Target.LABELS else 1) - w)))
    return errors


def compared(kind: str, loss: Loss, epsilon: float, seeds: int = SEEDS) -> float:
    """Mean error with the previous model over that without: of the nights after the first, or of the jump's night."""
    counted = slice(NIGHTS // 2, NIGHTS // 2 + 1) if kind in ("jump", "reversal") else slice(1, None)
    both = [np.mean([nights(kind, loss, epsilon, seed, warm=warm)[counted] for seed in range(seeds)]) for warm in (True, False)]
    return float(both[0] / both[1])


def every() -> Iterator[tuple[str, float]]:
    for loss in (Squared(), Huber(), Logistic()):
        for epsilon in (0.5, 1.0, 2.0):
            for kind in KINDS:
                yield f"{type(loss).__name__.lower()}, epsilon {epsilon:g}, {kind}", compared(kind, loss, epsilon)


def ratios() -> dict[str, float]:
    return dict(every())
