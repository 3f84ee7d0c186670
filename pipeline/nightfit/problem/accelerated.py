"""Accelerated proximal gradient descent, the one place of it (Nesterov 1983; Beck, Teboulle 2009). Imports numerics and penalties."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.problem.penalties import Penalty
from nightfit.types import Array


def nesterov(steps: int) -> float:
    """k / (k + 3): the share of the last move that is added after k steps since the start or a restart."""
    return steps / (steps + 3)


@cache
def fista(steps: int) -> float:
    """(t_k - 1) / t_{k + 1} with t_0 = 1 and t_{k + 1} = (1 + sqrt(1 + 4 t_k^2)) / 2 (Beck, Teboulle 2009, eq. 4.2)."""
    t = _t(steps)
    return (t - 1) / _following(t)


@cache
def _t(steps: int) -> float:
    t = 1.0
    for _ in range(steps):
        t = _following(t)
    return t


def _following(t: float) -> float:
    return (1 + math.sqrt(1 + 4 * t**2)) / 2


def minimise(
    gradient: Callable[[Array], Array],
    penalty: Penalty,
    features: int,
    start: Array,
    step: float,
    *,
    iterations: int,
    momentum: Callable[[int], float],
    tolerance: float | None = None,
) -> Array:
    """Minimise a smooth function plus penalty(w[:features]), restarted where momentum points uphill (O'Donoghue, Candes 2015, sec. 3.2).

    Parameters
    ----------
    gradient : of the smooth function.
    step : one over its smoothness.
    iterations : how many steps are made at most.
    momentum : `nesterov` or `fista`.
    tolerance : stop when no coordinate moves by more, relative to the largest coordinate or one; never if None.
    """
    iterate, ahead, since = start, start, 0
    for _ in range(iterations):
        moved = ahead - step * gradient(ahead)
        moved[:features] = penalty.prox(moved[:features], step)
        since = 0 if _uphill(ahead, moved, iterate) else since
        ahead = moved + momentum(since) * (moved - iterate)
        settled = tolerance is not None and np.abs(moved - iterate).max() <= tolerance * max(1.0, np.abs(moved).max())
        iterate, since = moved, since + 1
        if settled:
            break
    return iterate


@compiled
def _uphill(ahead, moved, iterate):  # type: ignore[no-untyped-def]
    """(ahead - moved).(moved - iterate) > 0, added one after the other: the same on every machine."""
    total = 0.0
    for j in range(len(moved)):
        total += (ahead[j] - moved[j]) * (moved[j] - iterate[j])
    return total > 0
