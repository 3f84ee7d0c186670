"""Bounds, steps and step sizes that the papers' theorems choose from public numbers, one file per paper. Imports accounting, types.

Privacy does not depend on this package: the plan's noise makes any public bound and any number of steps private. A theorem promises
accuracy under its assumptions, and `TheorySchedule.notes` names those that fail.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from nightfit.types import Adjacency

MOST_STEPS = 1000  # of a schedule: theorems hide constants, and their formulas may ask for millions


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """E |g_j|^order <= bound for every coordinate j of a record's gradient, at all weights: assumed, never computed from data."""

    order: float
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.order) and self.order > 1):
            raise ValueError(f"the order of a moment must be above 1, got {self.order}: otherwise the mean cannot be estimated privately")
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"the bound of a moment must be positive and finite, got {self.bound}")

    @property
    def scale(self) -> float:
        """kappa = bound^(1 / order): the scale of a coordinate, which also bounds its mean (Jensen)."""
        return float(self.bound ** (1 / self.order))

    @property
    def second(self) -> float:
        """v with E g_j^2 <= v, which follows from the moment if its order is at least 2 (Lyapunov)."""
        return self.scale**2

    def norm(self, columns: int) -> float:
        """G with E ||g||^order <= G^order: d^max(1/2, 1/order) kappa (power means above 2, subadditivity below)."""
        return float(columns ** max(0.5, 1 / self.order)) * self.scale


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """The public numbers that theorems use.

    `mu` is that of the whole budget (Gaussian privacy; rho = mu^2 / 2); `diameter` that of the set of weights; `smoothness` and
    `strong_convexity` those of the mean loss with its penalty; `failure` the probability with which a promise may fail. A theorem
    keeps what the user fixed (`steps`, `batch`, `groups`).
    """

    units: int
    columns: int
    epsilon: float
    delta: float
    mu: float
    moment: Moment
    diameter: float
    smoothness: float
    strong_convexity: float = 0.0
    failure: float = 0.05
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    steps: int | None = None
    batch: str | int | None = None
    groups: int | None = None
    sparsity: int | None = None

    def __post_init__(self) -> None:
        for name in ("units", "columns", "epsilon", "delta", "mu", "diameter", "smoothness"):
            if not getattr(self, name) > 0:
                raise ValueError(f"a theorem needs a positive {name}, got {getattr(self, name)}")
        if not 0 < self.failure < 1:
            raise ValueError(f"failure must be a probability between 0 and 1, got {self.failure}")

    @property
    def rho(self) -> float:
        """mu^2 / 2."""
        return self.mu**2 / 2

    @property
    def curvature(self) -> float:
        """b, the smoothness; for a loss with a kink, that of the squared loss on the same features."""
        return self.smoothness if math.isfinite(self.smoothness) else float(self.columns)

    @property
    def radius(self) -> float:
        """R with ||E g|| <= R: sqrt(d) kappa, because |E g_j| <= kappa."""
        return math.sqrt(self.columns) * self.moment.scale

    @property
    def strongly_convex(self) -> bool:
        return self.strong_convexity > 0

    def records_per_step(self, steps: int) -> float:
        """The number of records that each of so many steps reads: all, or a disjoint part."""
        return self.units / steps if self.batch == "splits" else float(self.units)

    def multiplier(self, steps: int) -> float:
        """Noise of each of so many steps, in sensitivities: sqrt(steps) / mu, and 1 / mu on disjoint parts."""
        return (1.0 if self.batch == "splits" else math.sqrt(steps)) / self.mu


@dataclass(frozen=True, kw_only=True, slots=True)
class TheorySchedule:
    """What a theorem chooses; None where it chooses nothing. `notes` say which of its conditions fail.

    `step_factor` is the step size in 1 / b, where the theorem states it so: it serves where b, the smoothness, is paid for later.
    """

    theorem: str
    bound: float | None = None
    steps: int | None = None
    step_size: float | None = None
    step_factor: float | None = None
    averaged: int | None = None
    groups: int | None = None
    batch: str | int | None = None
    smoothing: float | None = None
    blocks: int | None = None
    notes: tuple[str, ...] = ()

    def choices(self) -> dict[str, Any]:
        """The settings that it chooses, by name."""
        return {
            name: value for name, value in asdict(self).items() if name not in ("theorem", "notes", "step_factor") and value is not None
        }


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes on the conditions that fail, in the order in which they were checked."""

    texts: list[str] = field(default_factory=list)

    def unless(self, holds: bool, text: str) -> None:
        """Add a note unless a condition holds."""
        if not holds and text not in self.texts:
            self.texts.append(text)

    def steps(self, problem: Problem, formula: float) -> int:
        """The user's number of steps, or ceil(formula) between 1 and MOST_STEPS."""
        if problem.steps is not None:
            return problem.steps
        self.unless(formula >= 1, f"the theorem's number of steps is {formula:.3g}, below one: one is used")
        self.unless(formula <= MOST_STEPS, f"the theorem's number of steps is {formula:,.0f}: {MOST_STEPS:,} are used")
        return math.ceil(min(max(formula, 1.0), MOST_STEPS))

    def smooth(self, problem: Problem) -> None:
        """Add a note unless the loss is smooth."""
        self.unless(
            math.isfinite(problem.smoothness),
            "the theorem needs a smooth loss, and this one has a kink: the curvature of a squared loss is used",
        )

    def second_moment(self, problem: Problem) -> float:
        """v, with a note if the assumed moment does not bound it."""
        self.unless(
            problem.moment.order >= 2,
            f"the theorem needs a second moment, and only one of order {problem.moment.order:g} is assumed: "
            "bound^(2 / order) is used in its place, which does not bound it",
        )
        return problem.moment.second

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def linear_steps(problem: Problem, error: float, notes: Notes) -> int:
    """T = ln(a b D / ((a + b) G)) / ln(1 / kappa), kappa = 1 - a b / (a + b)^2, to be as close as the gradients' error G allows.

    Kamath et al. (2021), thm 3.2 and 4.8; Tao et al. (2022), thm 7. Corrected: as printed both logarithms may be negative, and
    T <= 0 where G is large.
    """
    a, b = problem.strong_convexity, problem.curvature
    ratio = a * b * problem.diameter / ((a + b) * error)
    rate = -math.log1p(-a * b / (a + b) ** 2)
    notes.unless(ratio > 1, f"the gradients' error {error:.3g} exceeds that of the start: the theorem asks for no step at all")
    return notes.steps(problem, math.log(ratio) / rate if ratio > 1 else 1.0)
