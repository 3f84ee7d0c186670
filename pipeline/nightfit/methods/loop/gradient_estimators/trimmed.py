"""Trimmed mean with noise of its smooth sensitivity (Wang et al. 2020, alg. 2 and 3; Bun, Steinke 2019). Imports packages below."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, EstimatorBase, GradientEstimator, Point
from nightfit.privacy.events import Event, SmoothEvent
from nightfit.privacy.gate import Gate
from nightfit.queries.trimmed_gradients import TrimmedGradients
from nightfit.types import Adjacency, Answer, Array, Part

LAPLACE, ARSINH = "laplace_log_normal", "arsinh_normal"
RANGE_RATIO = 100  # assumed ratio of the bound to the range of the middle values; only accuracy depends on it
MAX_TRIMMED = 0.25  # of the records, at each end: half of them are always averaged
MAX_STORED = 2**21  # trimmed numbers at each end, over all columns: 16 MB of a worker's memory
MIN_SMOOTHNESS = 1e-9  # far above the slack that doubles need
ROUND_DOWN = 1 - 1e-10  # of epsilon, so that rounding cannot exceed the step's rho


@dataclass(frozen=True, kw_only=True, slots=True)
class Trimming:
    """How many values are trimmed at each end, and the noise: S / shift times noise of the family with `spread`, for a smooth S."""

    trimmed: int
    smoothness: float
    shift: float
    spread: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trimmed(EstimatorBase):
    """In each coordinate, the mean of clip(g_ij, -bound, bound) without the m smallest and the m largest, plus noise in proportion to the
    smooth bound S.

    Corrected: S is the smallest smooth bound, where the printed one is not smooth; a step costs rho = d epsilon0^2 / 2 at most, by the
    Laplace-log-normal theorem (or the arsinh-normal one) instead of epsilon0^2 / 16 and epsilon0 / 4. m comes from public facts
    (`trimming`); the paper prints a constant, with which S is the whole range.

    Guarantee: that of TrimmedGradients and of SmoothEvent; a unit that changes its part pays for both parts. Poisson samples have no
    accountant here, and add_remove is refused because what is trimmed is a share of a public number of units.
    """

    name: ClassVar[str] = "trimmed"
    private: ClassVar[bool] = True
    answer: ClassVar[Answer] = Answer.GRADIENT
    bound: float
    noise: str = LAPLACE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a trimmed mean needs a positive finite bound, got {self.bound}")
        if self.noise not in (LAPLACE, ARSINH):
            raise ValueError(f"noise must be {LAPLACE} or {ARSINH}, got {self.noise!r}")

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        trimming, draw = self.trimming(point, allowance), _part(point)
        return (
            SmoothEvent(
                label=label,
                family=self.noise,
                smoothness=trimming.smoothness,
                shift=trimming.shift,
                spread=trimming.spread,
                coordinates=len(point.weights),
                adjacency=point.adjacency,
                draw=draw,
            ),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        event = gate.account.events.get(label)
        if not isinstance(event, SmoothEvent):
            raise ValueError(f"nothing was reserved for the trimmed mean {label!r}")
        query = TrimmedGradients(
            loss=point.loss,
            bound=self.bound,
            weights=point.weights,
            bits=point.bits,
            trimmed=trimmed_at(event.smoothness, point.expected_units, len(point.weights)),
            expected=point.expected_units,
            smoothness=event.smoothness,
            key=point.key,
            draw=_part(point),
            rows=point.rows,
        )
        return gate.smooth_release(label, query)

    def deviation(self, point: Point, allowance: Allowance) -> float:
        return math.nan

    def trimming(self, point: Point, allowance: Allowance) -> Trimming:
        """epsilon0 = sqrt(2 rho / d) of a coordinate, shared between smoothness and shift."""
        if point.adjacency is Adjacency.ADD_REMOVE:
            raise ValueError(
                "a trimmed mean drops a fixed number of a fixed number of records, and under add_remove the number of records is not "
                "public: use replace_one or zero_out, or another estimator"
            )
        columns = len(point.weights)
        return _best_trimming(self.noise, math.sqrt(2 * allowance.rho / columns) * ROUND_DOWN, point.expected_units, columns)

    def explain(self, point: Point, allowance: Allowance) -> list[str]:
        trimming = self.trimming(point, allowance)
        if trimming.trimmed == 0:
            return [
                "Warning: nothing is trimmed, because epsilon is too small for each coordinate of each step to profit from it; "
                "the estimator `coordinate` computes the same with less noise."
            ]
        noise = deviation_of(self.noise, trimming.spread) / trimming.shift
        return [
            f"The {trimming.trimmed:,} smallest and the {trimming.trimmed:,} largest of about {point.expected_units:,} values are dropped "
            f"in each coordinate; {self.noise.replace('_', ' ')} noise of {noise:.3g} smooth sensitivities (which change by a factor of at "
            f"most e^{trimming.smoothness:.3g} between neighbours), computed in doubles and rounded to a public grid."
        ]


def trimmed_at(smoothness: float, records: int, columns: int) -> int:
    """m = ln(RANGE_RATIO) / smoothness: a value at the edge of the range, m changed records away, then counts no more than a middle that is
    RANGE_RATIO times narrower than the bound (e^(-m smoothness) = 1 / RANGE_RATIO). At most a quarter of the records, at most what a
    worker can store for all columns, and 0 where that would not even halve the range.
    """
    most = min(int(MAX_TRIMMED * records), MAX_STORED // columns - 1)
    return min(math.ceil(math.log(RANGE_RATIO) / smoothness), most) if most * smoothness >= math.log(2) else 0


def deviation_of(family: str, spread: float) -> float:
    """Standard deviation of the noise: of Laplace(1) e^(spread N), sqrt(2) e^(spread^2); of sinh(N), sqrt((e^2 - 1) / 2)."""
    return math.sqrt(2) * math.exp(spread**2) if family == LAPLACE else math.sqrt(math.expm1(2.0) / 2)


@cache
def _best_trimming(family: str, epsilon: float, records: int, columns: int) -> Trimming:
    """The smoothness, of 200 candidates, that gives the least noise if the middle is RANGE_RATIO times narrower than the bound:
    deviation / shift, times the larger of 1 / RANGE_RATIO and e^(-smoothness (m + 1)), over the fraction that is left.
    """
    candidates = [trimming_at(family, epsilon, float(share), records, columns) for share in np.geomspace(1e-2, 0.5, 200)]
    usable = [trimming for trimming in candidates if trimming.smoothness >= MIN_SMOOTHNESS]
    if not usable:
        raise ValueError(f"epsilon {epsilon:.3g} for a coordinate of a step is too small for a trimmed mean: use fewer steps or columns")
    return min(
        usable,
        key=lambda trimming: (
            deviation_of(family, trimming.spread)
            / trimming.shift
            * max(1 / RANGE_RATIO, math.exp(-trimming.smoothness * (trimming.trimmed + 1)))
            / (1 - 2 * trimming.trimmed / records)
        ),
    )


def trimming_at(family: str, epsilon: float, share: float, records: int, columns: int) -> Trimming:
    """The trimming if `share` of epsilon pays for changes of the scale and the rest for the shift, by SmoothEvent's formulas.

    laplace_log_normal: smoothness = share spread epsilon, shift = (1 - share) epsilon e^(-1.5 spread^2); of all spreads with the same
    smoothness the one that minimises deviation / shift has 5 spread^2 = share / (1 - share) (at smoothness epsilon / 10: spread .31
    and shift .5865 epsilon). arsinh_normal: sqrt(t (t + 3)) = share epsilon, shift = (6 / 7) (1 - share) epsilon.
    """
    if family == LAPLACE:
        spread = math.sqrt(share / (1 - share) / 5)
        smoothness, shift = share * spread * epsilon, (1 - share) * epsilon * math.exp(-1.5 * spread**2)
    else:
        square = (share * epsilon) ** 2
        spread, smoothness = 1.0, square / (1.5 + math.sqrt(2.25 + square))
        shift = 6 / 7 * (1 - share) * epsilon
    return Trimming(trimmed=trimmed_at(smoothness, records, columns), smoothness=smoothness, shift=shift, spread=spread)


def _part(point: Point) -> Part:
    if not isinstance(point.draw, Part):
        raise ValueError("a trimmed mean has no accountant for Poisson samples: use batch full or splits")
    return point.draw


EXAMPLES: tuple[GradientEstimator, ...] = (Trimmed(bound=1.0), Trimmed(bound=20.0, noise=ARSINH))
