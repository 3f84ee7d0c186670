"""Trimmed mean with noise of its smooth sensitivity (Wang et al. 2020, alg. 2 and 3; Bun, Steinke 2019). Imports rooms below."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.privacy.events import Event, SmoothEvent
from nightfit.privacy.gate import Gate
from nightfit.queries.trimmed_gradients import TrimmedGradients
from nightfit.types import Adjacency, Answer, Array, Part

LAPLACE, ARSINH = "laplace_log_normal", "arsinh_normal"
NARROWER = 100
MOST_TRIMMED = 0.25
MOST_KEPT = 2**21
SMOOTHEST = 1e-9  # far above the slack that doubles need
ROUND_DOWN = 1 - 1e-10


@dataclass(frozen=True, kw_only=True, slots=True)
class Trimming:
    """What is trimmed and the noise that goes with it: S / shift times noise of the family, with `spread`, for a smooth S."""

    trimmed: int
    smoothness: float
    shift: float
    spread: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trimmed:
    """In each coordinate, the mean of what is left of clip(g_ij, -bound, bound) without the m smallest and the m largest, plus noise
    in proportion to the smooth bound S.

    Corrected: S is the smallest smooth bound, where the printed one is not smooth; a step costs rho = d epsilon0^2 / 2 at most, by the
    Laplace-log-normal theorem (or the arsinh-normal one) instead of epsilon0^2 / 16 and epsilon0 / 4. m comes from public facts
    (`trimming`): printed, it is a constant, with which S is the whole range.

    Guarantee: that of TrimmedGradients and of SmoothEvent. n must be the same for neighbours, so add_remove is refused, and Poisson
    samples too.
    """

    name: ClassVar[str] = "trimmed"
    answer: ClassVar[Answer] = Answer.GRADIENT
    bound: float
    noise: str = LAPLACE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a trimmed mean needs a positive finite bound, got {self.bound}")
        if self.noise not in (LAPLACE, ARSINH):
            raise ValueError(f"noise must be {LAPLACE} or {ARSINH}, got {self.noise!r}")

    def events(self, point: Point, label: str, allowed: Allowance) -> tuple[Event, ...]:
        made, draw = self.trimming(point, allowed), _part(point)
        return (
            SmoothEvent(
                label=label,
                family=self.noise,
                smoothness=made.smoothness,
                shift=made.shift,
                spread=made.spread,
                coordinates=len(point.weights),
                adjacency=point.adjacency,
                draw=draw,
            ),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        event = gate.account.events.get(label)
        if not isinstance(event, SmoothEvent):
            raise ValueError(f"nothing was reserved for the trimmed mean {label!r}")
        question = TrimmedGradients(
            loss=point.loss,
            bound=self.bound,
            weights=point.weights,
            bits=point.bits,
            trimmed=trimmed_at(event.smoothness, drawn(point), len(point.weights)),
            smoothness=event.smoothness,
            key=point.key,
            draw=_part(point),
        )
        return gate.smooth_release(label, question)

    def deviation(self, point: Point, allowed: Allowance) -> float:
        return math.nan

    def trimming(self, point: Point, allowed: Allowance) -> Trimming:
        """epsilon0 = sqrt(2 rho / d) of a coordinate, shared between smoothness and shift."""
        if point.adjacency is Adjacency.ADD_REMOVE:
            raise ValueError(
                "a trimmed mean leaves out a fixed number of a fixed number of records, and under add_remove that number is not public: "
                "use replace_one or zero_out, or another mean"
            )
        columns = len(point.weights)
        return _shared(self.noise, math.sqrt(2 * allowed.rho / columns) * ROUND_DOWN, drawn(point), columns)

    def explain(self, point: Point, allowed: Allowance) -> list[str]:
        made = self.trimming(point, allowed)
        if made.trimmed == 0:
            return [
                "Warning: nothing is trimmed, because so little epsilon for a coordinate of a step would not make the noise smaller; "
                "the mean `coordinate` does the same with less noise."
            ]
        return [
            f"The {made.trimmed:,} smallest and the {made.trimmed:,} largest of about {drawn(point):,} values are left out in each "
            f"coordinate; {self.noise.replace('_', ' ')} noise of {deviation_of(self.noise, made.spread) / made.shift:.3g} smooth "
            f"sensitivities (which change by a factor of at most e^{made.smoothness:.3g} between neighbours), made of doubles and rounded "
            "to a public grid."
        ]


def drawn(point: Point) -> int:
    """The expected number of records of the draw."""
    return max(1, round(point.units * point.draw.fraction))


def trimmed_at(smoothness: float, records: int, columns: int) -> int:
    """m = ln(NARROWER) / smoothness: then a value at the edge of the range, m changed records away, counts no more than a middle that
    is NARROWER times narrower than the bound (e^(-m smoothness) = 1 / NARROWER). At most a quarter of the records, no more than fits
    in a worker's memory for all columns, and 0 where so few would not even halve the range.
    """
    most = min(int(MOST_TRIMMED * records), MOST_KEPT // columns - 1)
    return min(math.ceil(math.log(NARROWER) / smoothness), most) if most * smoothness >= math.log(2) else 0


def deviation_of(family: str, spread: float) -> float:
    """Standard deviation of the noise: of Laplace(1) e^(spread N), sqrt(2) e^(spread^2); of sinh(N), sqrt((e^2 - 1) / 2)."""
    return math.sqrt(2) * math.exp(spread**2) if family == LAPLACE else math.sqrt(math.expm1(2.0) / 2)


@cache
def _shared(family: str, epsilon: float, records: int, columns: int) -> Trimming:
    """The smoothness, of a few hundred, that gives the least noise if the middle is NARROWER times narrower than the bound:
    deviation / shift, times the larger of 1 / NARROWER and e^(-smoothness (m + 1)), over the fraction that is left.
    """
    every = [split_of(family, epsilon, float(share), records, columns) for share in np.geomspace(1e-2, 0.5, 200)]
    usable = [made for made in every if made.smoothness >= SMOOTHEST]
    if not usable:
        raise ValueError(f"epsilon {epsilon:.3g} for a coordinate of a step is too little for a trimmed mean: fewer steps or columns")
    return min(
        usable,
        key=lambda made: (
            deviation_of(family, made.spread)
            / made.shift
            * max(1 / NARROWER, math.exp(-made.smoothness * (made.trimmed + 1)))
            / (1 - 2 * made.trimmed / records)
        ),
    )


def split_of(family: str, epsilon: float, share: float, records: int, columns: int) -> Trimming:
    """`share` of epsilon pays for the scale's changes, the rest for the shift, by the formulas of SmoothEvent solved for them.

    laplace_log_normal: smoothness = share spread epsilon, shift = (1 - share) epsilon e^(-1.5 spread^2); of all spreads with the same
    smoothness the one that minimises deviation / shift has 5 spread^2 = share / (1 - share) (at smoothness epsilon / 10: spread .31
    and shift .5865 epsilon). arsinh_normal: sqrt(t (t + 3)) = share epsilon, shift = (6 / 7) (1 - share) epsilon.
    """
    if family == LAPLACE:
        spread = math.sqrt(share / (1 - share) / 5)
        smoothness, shift = share * spread * epsilon, (1 - share) * epsilon * math.exp(-1.5 * spread**2)
    else:
        paid = (share * epsilon) ** 2
        spread, smoothness = 1.0, paid / (1.5 + math.sqrt(2.25 + paid))
        shift = 6 / 7 * (1 - share) * epsilon
    return Trimming(trimmed=trimmed_at(smoothness, records, columns), smoothness=smoothness, shift=shift, spread=spread)


def _part(point: Point) -> Part:
    if not isinstance(point.draw, Part):
        raise ValueError("a trimmed mean has no accountant for Poisson samples: use batch full or splits")
    return point.draw


EXAMPLES = (Trimmed(bound=1.0), Trimmed(bound=20.0, noise=ARSINH))
