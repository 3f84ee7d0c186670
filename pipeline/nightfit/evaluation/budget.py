"""Which queries an evaluation asks, and what share of its budget each has. Imports judging."""

import math
from collections.abc import Sequence

from nightfit.evaluation.judging import Judge

SIZES, ERRORS, RANGE, SCORES, CHANGE, PREDICTIONS, GROUPS, DRIFT, CHECKS = (
    f"evaluation: {of}" for of in ("sizes", "errors", "range", "scores", "change", "predictions", "groups", "drift", "checks")
)

SIZES_SHARE, RANGE_SHARE = 0.15, 0.1
"""Of the budget, for where numbers are clipped and which scores there are. Asked apart: a range that is read from the very answer whose
sums it bounds would choose what noise made large, and intervals would hold too rarely."""

CHANGE_SHARE = 0.3
"""Of the rest, for the comparison with an earlier model: a change is small, but so is its own spread."""

CALIBRATION_SHARE, PREDICTIONS_SHARE, DRIFT_SHARE, CHECKS_SHARE, GROUPS_SHARE = 0.15, 0.05, 0.05, 0.06, 0.3
"""Of the whole, before the metrics: predictions with the mean target of each bin, predictions alone, the earlier model's predictions,
checks of columns, and the metrics of each group, whose noise is that of all units for fewer of them."""

SIZES_WEIGHTS = {2: (0.6, 0.4), 3: (0.45, 0.25, 0.3)}
"""Squared weights of losses, targets and the change among the sizes."""

ERROR_WEIGHTS = (0.55, 0.25, 0.2)
"""Squared weights of losses, losses of the constant and predictions within a tenth: most for the loss, whose noise is that of the main
metric."""


def shares_of(judge: Judge, *, compared: bool, grouped: bool, checked: bool, drifts: bool) -> dict[str, float]:
    """Of every query's mu^2, in the order in which they are asked.

    Parameters
    ----------
    judge : Judge
        By what the fit is judged.
    compared : bool
        Whether with an earlier model.
    grouped : bool
        Whether for each group too.
    checked : bool
        Whether columns are checked, and predictions are kept for the next night to be compared with.
    drifts : bool
        Whether the earlier model's predictions are compared with those of its own night.
    """
    extra: dict[str, float] = {}
    if not (judge.labels or judge.classes) and (checked or judge.of_log_means):
        extra[PREDICTIONS] = CALIBRATION_SHARE if judge.of_log_means else PREDICTIONS_SHARE
    extra |= {GROUPS: GROUPS_SHARE} if grouped else {}
    extra |= {DRIFT: DRIFT_SHARE} if drifts else {}
    extra |= {CHECKS: CHECKS_SHARE} if checked else {}
    rest = 1 - math.fsum(extra.values())
    return {label: share * rest for label, share in _metrics(judge, compared).items()} | extra


def _metrics(judge: Judge, compared: bool) -> dict[str, float]:
    """Of the queries of the metrics alone."""
    if not (judge.labels or judge.classes):
        return {SIZES: SIZES_SHARE, ERRORS: 1 - SIZES_SHARE}
    change = CHANGE_SHARE * (1 - RANGE_SHARE) if compared else 0.0
    against = {SIZES: change * SIZES_SHARE, CHANGE: change * (1 - SIZES_SHARE)} if compared else {}
    return {RANGE: RANGE_SHARE, SCORES: 1 - RANGE_SHARE - change, **against}


def error_weights(compared: bool) -> tuple[float, ...]:
    """Of the axes of an error histogram."""
    change = [CHANGE_SHARE] if compared else []
    return roots([share * (1 - sum(change)) for share in ERROR_WEIGHTS] + change)


def roots(shares: Sequence[float]) -> tuple[float, ...]:
    """Weights whose squares are these shares, or a little less."""
    return tuple(math.sqrt(share) * (1 - 1e-12) for share in shares)
