"""Mean of gradients clipped per coordinate (Kamath et al. 2021, app. B; their tau is our bound). Imports rooms below."""

from dataclasses import dataclass

from pipeline.bounding.coordinate_clip import CoordinateClip
from pipeline.gate import Gate
from pipeline.losses import Loss
from pipeline.query import GradientSum
from pipeline.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinate:
    """(1 / n) (sum_i clip(g_ij, -bound, bound) + noise).

    Guarantee: that of GradientSum with its bounding; the division by the public number of units costs nothing.
    """

    bound: float

    def __post_init__(self) -> None:
        CoordinateClip(bound=self.bound)

    def query(self, loss: Loss, weights: Array, bits: int, key: bytes) -> GradientSum:
        return GradientSum(loss=loss, bounding=CoordinateClip(bound=self.bound), weights=weights, bits=bits)

    def divisor(self, units: int) -> float:
        return units

    def estimate(self, gate: Gate, label: str, loss: Loss, weights: Array, units: int, bits: int) -> Array:
        return gate.ask(label, self.query(loss, weights, bits, gate.account.key)) / self.divisor(units)


EXAMPLES = (Coordinate(bound=1.0), Coordinate(bound=20.0))
