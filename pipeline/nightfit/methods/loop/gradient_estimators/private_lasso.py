"""The steepest vertex for least squares on shrunken data (Hu et al. 2021, alg. 2, HTP-LASSO). Imports packages below."""

import math
from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import BoundedQuantity, GradientEstimator, Point
from nightfit.methods.loop.gradient_estimators.vertex import VertexEstimator
from nightfit.problem.losses import Estimand
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.l1_ball import L1Ball
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum, ShrunkenSum


@dataclass(frozen=True, kw_only=True, slots=True)
class ShrunkenVertex(VertexEstimator):
    """argmax over v = +-radius e_j of -<v, g> + noise, g = (1 / n) sum_i x_i (<x_i, w> - y_i), x shrunk to [-1, 1] by the public
    preprocessing and y to [-bound, bound].

    Their K is 1 for features and our bound for the target. With ||w||_1 <= radius a gradient's coordinate is at most
    |x_j| (max |x_k| ||w||_1 + |y|) <= radius + bound, so its clip there is active only for rounding and adds no bias.
    Corrected: epsilon_0 = sqrt(8 rho / steps) is 4.7 times the printed one at epsilon 1, delta 1e-5; the sensitivity
    16 radius K^2 / n, also in use, is too small for a radius above 3.

    Guarantee: that of Vertices with its bounding, which clips whether or not this bound holds.
    """

    name: ClassVar[str] = "private_lasso"
    private: ClassVar[bool] = True
    bounded: ClassVar[BoundedQuantity] = BoundedQuantity.TARGET
    bound: float
    penalty: Penalty

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ValueError(f"a target needs a positive finite bound, got {self.bound}")
        _ = self.radius  # raises if the penalty is not an l1 ball

    def sums(self, point: Point) -> GradientSum:
        if point.loss.estimand is not Estimand.MEAN:
            raise ValueError("private_lasso is for least squares: set model.loss to squared, or use frank_wolfe")
        return ShrunkenSum(
            loss=point.loss,
            bounding=CoordinateClip(bound=self.radius + self.bound),
            weights=point.weights,
            bits=point.bits,
            key=point.key,
            draw=point.draw,
            target=self.bound,
            rows=point.rows,
        )


EXAMPLES: tuple[GradientEstimator, ...] = (
    ShrunkenVertex(bound=1.0, penalty=L1Ball(radius=1.0)),
    ShrunkenVertex(bound=20.0, penalty=L1Ball(radius=5.0)),
)
