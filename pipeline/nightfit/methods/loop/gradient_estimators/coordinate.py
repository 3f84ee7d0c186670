"""Mean of gradients clipped per coordinate (Kamath et al. 2021, app. B; their tau is our bound). Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinate(GaussianEstimator):
    """(1 / n) (sum_i clip(g_ij, -bound, bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    name: ClassVar[str] = "coordinate"
    private: ClassVar[bool] = True
    bound: float

    def __post_init__(self) -> None:
        CoordinateClip(bound=self.bound)

    def query(self, point: Point) -> GradientSum:
        return point.sum(CoordinateClip(bound=self.bound))


EXAMPLES: tuple[GradientEstimator, ...] = (Coordinate(bound=1.0), Coordinate(bound=20.0))
