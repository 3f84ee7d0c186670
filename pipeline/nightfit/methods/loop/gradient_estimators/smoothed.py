"""Mean of smoothly truncated gradients (Wang et al. 2020, alg. 4; Xie et al. 2023, alg. 4; their s is our bound). Imports queries."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.psi import Psi
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class Smoothed(GaussianEstimator):
    """(bound / n) (sum_i psi(g_ij / bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    name: ClassVar[str] = "smoothed"
    private: ClassVar[bool] = True
    bound: float
    smoothing: float = 3.0

    def __post_init__(self) -> None:
        Psi(scale=self.bound, smoothing=self.smoothing)

    def query(self, point: Point) -> GradientSum:
        return point.sum(Psi(scale=self.bound, smoothing=self.smoothing))


EXAMPLES: tuple[GradientEstimator, ...] = (Smoothed(bound=1.0), Smoothed(bound=20.0, smoothing=10.0))
