"""Mean of softly truncated gradients (Wang et al. 2020, Xie et al. 2023, alg. 4, unsmoothed; our bound is their s). Imports rooms below."""

from dataclasses import dataclass

from pipeline.bounding.phi import Phi
from pipeline.losses import Loss
from pipeline.query import GradientSum
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Soft:
    """(bound / n) (sum_i phi(g_ij / bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    bound: float

    def __post_init__(self) -> None:
        Phi(scale=self.bound)

    def query(self, loss: Loss, weights: Array, bits: int, key: bytes) -> GradientSum:
        return GradientSum(loss=loss, bounding=Phi(scale=self.bound), weights=weights, bits=bits)


EXAMPLES = (Soft(bound=1.0), Soft(bound=20.0))
