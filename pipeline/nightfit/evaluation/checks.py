"""What the checks of columns and the drift of predictions say. Imports estimates and queries."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nightfit.evaluation.estimates import Estimate, unknown
from nightfit.queries.checks import KINDS, CheckCounts, CheckKind
from nightfit.types import Array

NAMES = {CheckKind.MISSING: "missing_values", CheckKind.UNKNOWN: "unknown_levels", CheckKind.AT_BOUNDS: "values_at_bounds"}
"""Of the share over all columns; the share of one column is stored below the kind's own name."""

EDGES = 3.0
"""Standard deviations of noise of all counts together that a histogram of predictions must exceed, or it says nothing."""


def shares_of(query: CheckCounts, answer: Array, deviation: float) -> dict[str, Any]:
    """Of complete held-out rows the share for which each check holds, as plain data; everything where noise hides how many there are.

    a / n for noisy counts a and n: noise (s_a^2 + p^2 s_n^2) / n^2, and p (1 - p) / n of sampling, which bounds that of a mean of shares.
    """
    found: dict[str, Any] = {}
    weights = query.weights
    counts, noise = answer / weights, deviation / weights
    n = float(counts[0])
    known = n > EDGES * noise[0]

    def share(place: int) -> dict[str, float]:
        if not known:
            return unknown(0.0, 1.0, 0.5)
        p = float(counts[place]) / n
        inside = min(max(p, 0.0), 1.0)
        return Estimate(p, (noise[place] ** 2 + (p * noise[0]) ** 2) / n**2 + inside * (1 - inside) / n).interval(0.0, 1.0)

    for place, kind in enumerate(KINDS, start=1):
        columns = {check.column: 1 + len(KINDS) + number for number, check in enumerate(query.single) if check.kind is kind}
        if columns:
            found[NAMES[kind]] = share(place)
            found[str(kind)] = {name: share(at) for name, at in columns.items()}
    return found


def drift(before: Mapping[str, Any], now: Array, deviation: float) -> dict[str, float]:
    """The chance that the earlier model gives a unit of tonight a higher prediction than one of its own night; one half is no drift.

    Over bins, ties counting one half: sum_b now_b (below_b + before_b / 2) / (N M). Its derivatives in the counts are those of an area
    under a ROC curve; both histograms are samples with noise of their own.
    """
    then, noise = np.array(before["counts"], dtype=np.float64), float(before["deviation"])
    N, M = float(then.sum()), float(now.sum())
    if min(N / max(noise, 1e-300), M / max(deviation, 1e-300)) <= EDGES * math.sqrt(len(now)):
        return unknown(0.0, 1.0, 0.5)
    below, above = (np.cumsum(then) - then / 2) / N, (np.cumsum(now[::-1])[::-1] - now / 2) / M
    value = float(now @ below) / M
    of_now = (np.maximum(now, 0.0) + deviation**2) @ ((below - value) / M) ** 2
    of_then = (np.maximum(then, 0.0) + noise**2) @ ((above - value) / N) ** 2
    return Estimate(value, float(of_now + of_then)).interval(0.0, 1.0)
