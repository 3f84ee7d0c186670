"""Coordinate median of the means of hashed groups (Tao et al. 2022, alg. 3; Xie et al. 2023, alg. 3). Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum, Groups


@dataclass(frozen=True, kw_only=True, slots=True)
class MedianOfMeans(GaussianEstimator):
    """The median over groups of (groups / n) sum_{i in group} clip(g_ij, -bound, bound), plus noise.

    Tao et al.: their m is our groups, their tau our bound. Corrected: a group sums its own records, not all; groups come from a
    keyed hash, never from positions; their number is even, which halves the sensitivity of the median (the mean of the two middle
    ones); the divisor n / groups is a constant.

    Guarantee: that of GradientSum with groups.
    """

    name: ClassVar[str] = "median_of_means"
    private: ClassVar[bool] = True
    bound: float
    groups: int = 16

    def __post_init__(self) -> None:
        CoordinateClip(bound=self.bound)
        Groups(count=self.groups)

    def query(self, point: Point) -> GradientSum:
        return point.sum(CoordinateClip(bound=self.bound), Groups(count=self.groups))


EXAMPLES: tuple[GradientEstimator, ...] = (MedianOfMeans(bound=1.0), MedianOfMeans(bound=20.0, groups=4))
