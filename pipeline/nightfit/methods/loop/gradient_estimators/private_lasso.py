"""The steepest vertex for least squares on shrunken data (Hu et al. 2021, alg. 2, HTP-LASSO). Imports rooms below."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import Point
from nightfit.methods.loop.gradient_estimators.vertex import VertexEstimator, check_ball
from nightfit.problem.losses import Estimand
from nightfit.problem.penalties.l1_ball import L1Ball
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum, ShrunkenSum


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivateLasso(VertexEstimator):
    """argmax over v = +-radius e_j of -<v, g> + noise, g = (1 / n) sum_i x_i (<x_i, w> - y_i), x shrunk to [-1, 1] by the public
    preprocessing and y to [-bound, bound].

    Their K is 1 for features and our bound for the target. With ||w||_1 <= radius a gradient's coordinate is at most
    |x_j| (max |x_k| ||w||_1 + |y|) <= radius + bound, so its clip there is never active but for rounding, and no bias comes from it.
    Corrected: epsilon_0 = sqrt(8 rho / steps) is 4.7 times the printed one at epsilon 1, delta 1e-5; a sensitivity of
    16 radius K^2 / n (in circulation) is too small for a radius above 3.

    Guarantee: that of Vertices with its bounding, which clamps whatever the proof says.
    """

    name: ClassVar[str] = "private_lasso"
    bounded: ClassVar[str] = "target"
    bound: float
    penalty: L1Ball

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a target needs a positive finite bound, got {self.bound}")
        check_ball("private_lasso", self.penalty)

    def sums(self, point: Point) -> GradientSum:
        if point.loss.estimand is not Estimand.MEAN:
            raise ValueError("private_lasso is least squares: set model.loss to squared, or use frank_wolfe")
        return ShrunkenSum(
            loss=point.loss,
            bounding=CoordinateClip(bound=self.penalty.radius + self.bound),
            weights=point.weights,
            bits=point.bits,
            key=point.key,
            draw=point.draw,
            target=self.bound,
        )


EXAMPLES = (PrivateLasso(bound=1.0, penalty=L1Ball(radius=1.0)), PrivateLasso(bound=20.0, penalty=L1Ball(radius=5.0)))
