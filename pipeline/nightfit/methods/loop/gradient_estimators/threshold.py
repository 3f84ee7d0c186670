"""Mean of gradients whose large coordinates are dropped (Tao et al. 2022, alg. 1; their B is our bound). Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.threshold import Threshold
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholded(GaussianEstimator):
    """(1 / n) (sum_i g_ij 1(|g_ij| <= bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    name: ClassVar[str] = "threshold"
    private: ClassVar[bool] = True
    bound: float

    def __post_init__(self) -> None:
        Threshold(bound=self.bound)

    def query(self, point: Point) -> GradientSum:
        return point.sum(Threshold(bound=self.bound))


EXAMPLES: tuple[GradientEstimator, ...] = (Thresholded(bound=1.0), Thresholded(bound=20.0))
