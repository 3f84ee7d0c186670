"""Mean of smoothly truncated gradients (Wang et al. 2020, alg. 4; Xie et al. 2023, alg. 4; our bound is their s). Imports rooms below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, Point
from nightfit.queries.boundings.psi import Psi
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class Smoothed(GaussianEstimator):
    """(bound / n) (sum_i psi(g_ij / bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    name: ClassVar[str] = "smoothed"
    bound: float
    smoothing: float = 3.0

    def __post_init__(self) -> None:
        Psi(scale=self.bound, smoothing=self.smoothing)

    def query(self, point: Point) -> GradientSum:
        return point.sum(Psi(scale=self.bound, smoothing=self.smoothing))


EXAMPLES = (Smoothed(bound=1.0), Smoothed(bound=20.0, smoothing=10.0))
