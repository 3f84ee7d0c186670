"""Which paid checks of the data changed from one release to the next by more than their intervals. Imports metrics."""

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from nightfit.release.metrics import Evaluation, Range

FALSE_ALARMS = 0.05  # of all pairs of nights between which nothing changed, the share that names a check
OF_THE_MODEL = ("mean prediction", "prediction", "score")  # first words of checks that compare two fits, and not two nights of data
DRIFT = "drift of predictions"  # first words: the chance that the earlier model predicts more tonight than on its own night, and where
NO_DRIFT = Range(0.5, 0.5, 0.5)  # there is none
POORER = 0.05
"""The least change of a share that is called poorer: of very many units a smaller one is seen, and is news of the world as often as of
the export."""
FALLING_IS_WORSE, RISING_IS_WORSE = ("complete",), ("missing", "unknown", "values at bounds")
"""First words of the checks of what an export holds. Others tell of the outcome, which may change while the export is sound."""


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

    @property
    def suspect(self) -> bool:
        """Whether it says that the export is poorer than before, by at least POORER."""
        if abs(self.after.value - self.before.value) < POORER:
            return False
        if self.name.startswith(FALLING_IS_WORSE):
            return self.after.value < self.before.value
        return self.name.startswith(RISING_IS_WORSE) and self.after.value > self.before.value

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "suspect": self.suspect, "before": asdict(self.before), "after": asdict(self.after)}

    def words(self) -> str:
        """complete 0.95 (0.93 to 0.97) to 0.26 (0.24 to 0.29)."""
        return f"{self.name} {self.before.words()} to {self.after.words()}"


def shifted(before: Evaluation | None, after: Evaluation | None) -> tuple[Shift, ...]:
    """The checks that changed beyond their intervals: |b - a| > z sqrt(2) sd, with sd the larger of the two.

    A standard deviation is the longer half of an interval, divided by the normal quantile of its level: the shorter half may be cut at the
    end of a share. z is the normal quantile of 1 - FALSE_ALARMS / (2 d), so that all d checks together are named falsely in at most that
    share of nights (Bonferroni).
    """
    if before is None or after is None:
        return ()
    new = after.checks()
    old = {**before.checks(), **{name: NO_DRIFT for name in new if name.startswith(DRIFT)}}
    common = [name for name in new if name in old and not name.startswith(OF_THE_MODEL)]
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * max(1, len(common))))
    return tuple(
        Shift(name=name, before=old[name], after=new[name])
        for name in common
        if abs(new[name].value - old[name].value)
        > z * math.sqrt(2) * max(_deviation(old[name], before.level), _deviation(new[name], after.level))
    )


def _deviation(of: Range, level: float) -> float:
    return max(of.high - of.value, of.value - of.low) / NormalDist().inv_cdf((1 + level) / 2)
