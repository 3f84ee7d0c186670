"""Mean of gradients whose large coordinates are dropped (Tao et al. 2022, alg. 1; our bound is their B). Imports rooms below."""

from dataclasses import dataclass

from pipeline.bounding.threshold import Threshold
from pipeline.losses import Loss
from pipeline.query import GradientSum
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholded:
    """(1 / n) (sum_i g_ij 1(|g_ij| <= bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    bound: float

    def __post_init__(self) -> None:
        Threshold(bound=self.bound)

    def query(self, loss: Loss, weights: Array, bits: int, key: bytes) -> GradientSum:
        return GradientSum(loss=loss, bounding=Threshold(bound=self.bound), weights=weights, bits=bits)


EXAMPLES = (Thresholded(bound=1.0), Thresholded(bound=20.0))
