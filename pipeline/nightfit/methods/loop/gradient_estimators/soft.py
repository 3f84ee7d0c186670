"""Mean of softly truncated gradients (Wang et al. 2020, Xie et al. 2023, alg. 4, unsmoothed; their s is our bound). Imports queries."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.phi import Phi
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class Soft(GaussianEstimator):
    """(bound / n) (sum_i phi(g_ij / bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    name: ClassVar[str] = "soft"
    private: ClassVar[bool] = True
    bound: float

    def __post_init__(self) -> None:
        Phi(scale=self.bound)

    def query(self, point: Point) -> GradientSum:
        return point.sum(Phi(scale=self.bound))


EXAMPLES: tuple[GradientEstimator, ...] = (Soft(bound=1.0), Soft(bound=20.0))
