"""Mean of gradients scaled back to an l2 ball (Xie et al. 2023, alg. 1; their C is our bound). Imports rooms below."""

from dataclasses import dataclass

from pipeline.bounding.l2_clip import L2Clip
from pipeline.losses import Loss
from pipeline.query import GradientSum
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Clipped:
    """(1 / n) (sum_i g_i min(1, bound / ||g_i||) + noise).

    Guarantee: that of GradientSum with its bounding.
    """

    bound: float

    def __post_init__(self) -> None:
        L2Clip(bound=self.bound)

    def query(self, loss: Loss, weights: Array, bits: int, key: bytes) -> GradientSum:
        return GradientSum(loss=loss, bounding=L2Clip(bound=self.bound), weights=weights, bits=bits)


EXAMPLES = (Clipped(bound=1.0), Clipped(bound=20.0))
