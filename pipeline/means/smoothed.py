"""Mean of smoothly truncated gradients (Wang et al. 2020, alg. 4; Xie et al. 2023, alg. 4; our bound is their s). Imports rooms below."""

from dataclasses import dataclass

from pipeline.bounding.psi import Psi
from pipeline.losses import Loss
from pipeline.query import GradientSum
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Smoothed:
    """(bound / n) (sum_i psi(g_ij / bound) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    bound: float

    def __post_init__(self) -> None:
        Psi(scale=self.bound)

    def query(self, loss: Loss, weights: Array, bits: int, key: bytes) -> GradientSum:
        return GradientSum(loss=loss, bounding=Psi(scale=self.bound), weights=weights, bits=bits)


EXAMPLES = (Smoothed(bound=1.0), Smoothed(bound=20.0))
