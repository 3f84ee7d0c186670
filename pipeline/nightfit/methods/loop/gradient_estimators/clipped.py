"""Mean of gradients clipped to an l2 ball (Xie et al. 2023, alg. 1; their C is our bound). Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import BoundedQuantity, GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class Clipped(GaussianEstimator):
    """(1 / n) (sum_i g_i min(1, bound / ||g_i||) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    name: ClassVar[str] = "clipped"
    private: ClassVar[bool] = True
    bounded: ClassVar[BoundedQuantity] = BoundedQuantity.NORM
    bound: float

    def __post_init__(self) -> None:
        L2Clip(bound=self.bound)

    def query(self, point: Point) -> GradientSum:
        return point.sum(L2Clip(bound=self.bound))


EXAMPLES: tuple[GradientEstimator, ...] = (Clipped(bound=1.0), Clipped(bound=20.0))
