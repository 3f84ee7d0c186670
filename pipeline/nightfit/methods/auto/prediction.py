"""How accurate a fit will be, from public facts alone. Imports questions.

The error is the root mean square, over rows, of the difference between the released model's predictions and those of the best linear
model: in sizes of a residual (its median absolute value over 0.6745, which of a normal one is its deviation), or for labels in
log-odds.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.problem.losses import Estimand

CLIP = 6.0
CLIP_OF_MEDIANS = 2.0
SPREAD_OF_LABELS = 0.15
LOW, HIGH = 0.55, 1.75
USEFUL = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The range in which 8 of 10 errors fall (`python -m benchmarks predicted`), from what noise and drawing the records add."""

    noise: float
    sampling: float
    unit: str

    @property
    def error(self) -> float:
        return math.hypot(self.noise, self.sampling)

    @property
    def low(self) -> float:
        return LOW * self.error

    @property
    def high(self) -> float:
        return HIGH * self.error

    @property
    def useful(self) -> bool:
        return self.error <= USEFUL

    @property
    def lost(self) -> float:
        """The share of variance that features must explain to be seen: a signal of the error's size, e^2 / (1 + e^2)."""
        return self.error**2 / (1 + self.error**2)

    def said(self) -> str:
        return (
            f"Expected error: {self.low:.2g} to {self.high:.2g} {self.unit} (root mean square of predictions about those of the best "
            f"linear model; 8 of 10 fits), of which noise for privacy is {self.noise / self.error:.0%}. "
            f"Features that explain less than {self.lost:.2%} of the variance will not be seen."
        )


def predicted(asked: QueryPlan) -> Prediction:
    """Every averaged gradient has noise of known deviation for a clip of c and rows of norm sqrt(d); d coordinates of it, over the slope
    of the loss, are the noise of predictions. Drawing other records adds d / n, over that slope for labels.
    """
    d, n = asked.columns, asked.units
    clip, slope = CLIP_OF_MEDIANS if asked.loss.estimand is Estimand.MEDIAN else CLIP, 1.0
    if asked.labels:
        clip, slope = asked.clip_of_labels, SPREAD_OF_LABELS
    paid = sum(asked.multiplier(f"gradient {step + 1}") ** -2 for step in range(asked.burned, asked.steps))
    noise = math.sqrt(d / paid) * asked.adjacency.contributions_changed * clip * math.sqrt(d) / n / slope
    unit = "in log-odds" if asked.labels else "sizes of a residual"
    return Prediction(noise=noise, sampling=math.sqrt(d / (n * slope)), unit=unit)


def remedies(asked: QueryPlan) -> Iterator[str]:
    """What would make a fit useful, each by itself: more rows, fewer columns, a larger epsilon."""
    shape = asked.preprocessing
    rows = _least(lambda factor: replace(asked, units=int(asked.units * factor), largest_units=int(asked.largest_units * factor)))
    if rows is not None:
        yield f"more than {math.ceil(asked.units * rows):,} rows"
    for columns in range(len(shape.features) - 1, 0, -1):
        fewer = {part: getattr(shape, part)[:columns] for part in ("features", "centre", "scale", "reach")}
        if predicted(replace(asked, preprocessing=replace(shape, **fewer))).useful:
            yield f"at most {columns} columns"
            break
    epsilon = _least(lambda factor: replace(asked, mu_squared=asked.mu_squared * factor**2))
    if epsilon is not None:
        yield f"an epsilon about {epsilon:.2g} times as large"


def _least(changed: Callable[[float], QueryPlan], most: float = 1e4) -> float | None:
    """The least factor, to a hundredth of it, that makes a useful fit; None if `most` does not."""
    low, high = 1.0, most
    if not predicted(changed(high)).useful:
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if predicted(changed(middle)).useful else (middle, high)
    return high
