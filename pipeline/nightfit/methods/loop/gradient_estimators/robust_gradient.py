"""The robust gradient of Holland, Ikeda (2019), without privacy: the baseline of Wang et al. 2020. Imports packages below."""

from dataclasses import dataclass
from typing import ClassVar

from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.queries.boundings.psi import Psi
from nightfit.queries.gradient_sums import GradientSum


@dataclass(frozen=True, kw_only=True, slots=True)
class RobustGradient(GaussianEstimator):
    """(bound / n) sum_i psi(g_ij / bound), with no noise.

    Guarantee: none. A fit with it is refused unless the configuration sets `unsafe: {noise: none}`, and its release is stamped
    private: false. Broken by test_the_baseline_never_claims_privacy.
    """

    name: ClassVar[str] = "robust_gradient"
    private: ClassVar[bool] = False
    bound: float

    def __post_init__(self) -> None:
        Psi(scale=self.bound)

    def query(self, point: Point) -> GradientSum:
        return point.sum(Psi(scale=self.bound))


EXAMPLES: tuple[GradientEstimator, ...] = (RobustGradient(bound=1.0),)
