"""The smoothed quantile (pinball) loss. Imports numerics, links and targets."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.losses import Estimand, Loss, Pointwise
from nightfit.records.targets import Target


@compiled_ufunc
def _value(y: float, z: float, quantile: float, width: float) -> float:
    """(u + width)_+^2 / (4 width) - quantile u up to u = width, (1 - quantile) u beyond, with u = z - y."""
    u = z - y
    if u >= width:
        return (1.0 - quantile) * u
    over = max(u + width, 0.0)
    return over * over / (4.0 * width) - quantile * u


@register_jitable
def _slope(y: float, z: float, quantile: float, width: float) -> float:
    """clip(1/2 + (z - y) / (2 width), 0, 1) - quantile."""
    return min(max(0.5 + (z - y) / (2.0 * width), 0.0), 1.0) - quantile


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantile(Pointwise):
    """quantile (y - z)_+ + (1 - quantile) (z - y)_+, smoothed: the value below which the share `quantile` of targets lies.

    Koenker, Bassett (1978). The slope jumps at y = z, and steps need a curvature: targets are spread over [y - width, y + width], which
    keeps the loss convex and the quantile right where the density is level over that interval (Fernandes, Guerre, Horta 2021, convolution
    with a uniform kernel). `width` is in units of the scaled target. Beyond it the slope is -quantile or 1 - quantile, however far off a
    target is.
    """

    name: ClassVar[str] = "quantile"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    quantile: float = 0.5
    width: float = 0.1
    target: ClassVar[Target] = Target.REAL
    scalable: ClassVar[bool] = True
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.QUANTILE
    convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.01 <= self.quantile <= 0.99:
            raise ValueError(f"quantile: quantile must be from 0.01 to 0.99, got {self.quantile!r}; 0.5 is the median")
        if not 0.0 < self.width < math.inf:
            raise ValueError(f"quantile: width must be finite and above 0, got {self.width!r}; a tenth of a residual is usual")

    @property
    def smoothness(self) -> float:
        return 1.0 / (2.0 * self.width)

    @property
    def lipschitz(self) -> float:
        return max(self.quantile, 1.0 - self.quantile)

    def smoothed(self, width: float) -> "Quantile":
        """The loss with another width."""
        return replace(self, width=width)


EXAMPLES: tuple[Loss, ...] = (Quantile(), Quantile(quantile=0.9, width=1.0))
