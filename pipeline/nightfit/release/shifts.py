"""Whether the outcome changed from one release to the next by more than its intervals, as paid checks say. Imports metrics."""

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from nightfit.release.metrics import Evaluation, Range

FALSE_ALARMS = 0.05  # of all pairs of nights between which nothing changed, the share that names a check
OF_THE_OUTCOME = ("share of", "mean target")
"""First words of the checks that tell of the outcome. What an export lacks is told by `Evaluation.faults`; a mean prediction is that of
another fit every night."""
DRIFT, NO_DRIFT = "drift of predictions", Range(0.5, 0.5, 0.5)  # the chance that the earlier model predicts more tonight than on its night


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """A check that changed.

    Parameters
    ----------
    name
        Of the check, for people.
    before, after
        What was paid for, each with its interval.
    """

    name: str
    before: Range
    after: Range

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "before": asdict(self.before), "after": asdict(self.after)}

    def words(self) -> str:
        """share of positives 0.15 (0.13 to 0.17) to 0.26 (0.24 to 0.29)."""
        return f"{self.name} {self.before.words()} to {self.after.words()}"


def shifted(before: Evaluation | None, after: Evaluation | None) -> tuple[Shift, ...]:
    """The checks of the outcome that changed beyond their intervals: |b - a| > z sqrt(2) sd, with sd the larger of the two.

    A standard deviation is the longer half of an interval, divided by the normal quantile of its level: the shorter half may be cut at the
    end of a share. z is the normal quantile of 1 - FALSE_ALARMS / (2 d), so that all d checks together are named falsely in at most that
    share of nights (Bonferroni).
    """
    if before is None or after is None:
        return ()
    old, new = {**before.checks(), DRIFT: NO_DRIFT}, after.checks()
    common = [name for name in new if name in old and name.startswith((*OF_THE_OUTCOME, DRIFT))]
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * max(1, len(common))))
    return tuple(
        Shift(name=name, before=old[name], after=new[name])
        for name in common
        if abs(new[name].value - old[name].value)
        > z * math.sqrt(2) * max(_deviation(old[name], before.level), _deviation(new[name], after.level))
    )


def _deviation(of: Range, level: float) -> float:
    return max(of.high - of.value, of.value - of.low) / NormalDist().inv_cdf((1 + level) / 2)
