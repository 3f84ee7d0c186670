"""One step of iterative hard thresholding by peeling (Tao et al. 2022, alg. 4 and 5). Imports packages below."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, EstimatorBase, GradientEstimator, Point
from nightfit.privacy.calibration import gaussian_event, selection_event
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.sparsity import Sparsity
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.column_subset import ChosenColumns
from nightfit.queries.gradient_sums import Magnitudes
from nightfit.types import Answer, Array, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class HardThresholding(EstimatorBase):
    """w' = w - step_size g on the s features with the largest noisy |w'_j| and on the intercept, 0 elsewhere, where
    g_j = (1 / n) sum_i clip(g_ij, -bound, bound); a second query releases the kept w'_j with noise.

    Their B is our bound, eta_0 our step_size, s the penalty's nonzeros. Corrected: Gumbel noise on all features at once, which is
    peeling (Durfee, Rogers 2019), and Gaussian noise on the kept ones, in place of Laplace noise 3.4 times as large; the steps
    may all read every record (`batch: full`, less noise by sqrt(steps)) or disjoint parts (`batch: splits`, as printed).

    Guarantee: half of the step's rho pays for the choice, whose scores are integers (Magnitudes), half for the kept coordinates
    (ChosenColumns). Broken by test_a_step_costs_what_it_may_and_half_of_it_for_the_choice.
    """

    name: ClassVar[str] = "hard_thresholding"
    private: ClassVar[bool] = True
    answer: ClassVar[Answer] = Answer.WEIGHTS
    bound: float
    step_size: float
    features: int
    penalty: Penalty

    def __post_init__(self) -> None:
        CoordinateClip(bound=self.bound)
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise ValueError(f"step_size must be positive and finite, got {self.step_size}")
        if self.kept >= self.features:
            raise ValueError(
                f"hard_thresholding has nothing to choose: sparsity {self.kept} keeps all of {self.features} features; "
                "lower it, or use another estimator"
            )

    @property
    def kept(self) -> int:
        """s, the number of features that are kept."""
        if self.penalty.nonzeros is None:
            raise ValueError("hard_thresholding keeps a fixed number of coefficients: set model.penalty to {sparsity: that number}")
        return self.penalty.nonzeros

    def choice(self, point: Point) -> Magnitudes:
        """The query for the largest |w_j / (step_size / n) - sum_j|, in grid steps: |w'_j| up to a public factor."""
        sums = point.sum(CoordinateClip(bound=self.bound))
        with np.errstate(over="ignore"):
            offsets = point.weights[: self.features] * (sums.divisor(point.units) / (self.step_size * sums.grid))
        return Magnitudes(sums=sums, offsets=offsets)

    def values(self, point: Point, chosen: Integers) -> ChosenColumns:
        """The query for the gradient's sum on the chosen features and the intercept."""
        places = np.append(np.sort(chosen), np.arange(self.features, len(point.weights)))
        return ChosenColumns(query=point.sum(CoordinateClip(bound=self.bound)), places=places)

    def events(self, point: Point, label: str, allowance: Allowance) -> tuple[Event, ...]:
        any_features = np.arange(self.kept)
        return (
            selection_event(self.choice(point), f"{label}, features", point.adjacency, self.kept, allowance.rho / 2),
            gaussian_event(self.values(point, any_features), f"{label}, values", point.adjacency, allowance.multiplier * math.sqrt(2)),
        )

    def estimate(self, gate: Gate, point: Point, label: str) -> Array:
        values = self.values(point, gate.select(f"{label}, features", self.choice(point)))
        gradient = gate.ask(f"{label}, values", values) / values.divisor(point.units)
        weights = np.zeros_like(point.weights)
        weights[values.places] = point.weights[values.places] - self.step_size * gradient
        return weights

    def deviation(self, point: Point, allowance: Allowance) -> float:
        """Standard deviation of the noise in a kept weight."""
        values = self.values(point, np.arange(self.kept))
        sigma = allowance.multiplier * math.sqrt(2) * values.sensitivity(point.adjacency)
        return self.step_size * sigma * values.grid / values.divisor(point.units)


EXAMPLES: tuple[GradientEstimator, ...] = (
    HardThresholding(bound=1.0, step_size=0.5, features=3, penalty=Sparsity(nonzeros=2)),
    HardThresholding(bound=20.0, step_size=0.1, features=3, penalty=Sparsity(nonzeros=1)),
)
