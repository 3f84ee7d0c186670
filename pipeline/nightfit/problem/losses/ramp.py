"""The ramp loss, a hinge that stops rising. Imports numerics, links and targets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from numba.extending import register_jitable

from nightfit.numerics.compiled import compiled_ufunc
from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.losses import Estimand, Loss, Pointwise
from nightfit.records.targets import Target


@compiled_ufunc
def _value(y: float, z: float, cut: float) -> float:
    """min(max(1 - y z, 0), 1 - cut)."""
    return min(max(1.0 - y * z, 0.0), 1.0 - cut)


@register_jitable
def _slope(y: float, z: float, cut: float) -> float:
    """-y where cut < y z < 1, else 0: at both kinks the slope nearest zero."""
    return -y if cut < y * z < 1.0 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ramp(Pointwise):
    """max(1 - y z, 0) - max(cut - y z, 0) for y = -1 or +1: the hinge down to a margin of cut, constant below it.

    Collobert et al. (2006), eq. 6; Han et al. (2018), sec. 5, whose s* in [-2, 0] is our cut. A record on the wrong side by more
    than the cut has no say.
    """

    name: ClassVar[str] = "ramp"
    value_of: ClassVar[Callable[..., Any]] = staticmethod(_value)
    slope_of: ClassVar[Callable[..., Any]] = staticmethod(_slope)
    cut: float = -1.0
    target: ClassVar[Target] = Target.LABELS
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = None
    convex: ClassVar[bool] = False
    smoothness: ClassVar[float] = math.inf
    lipschitz: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not -2.0 <= self.cut <= 0.0:
            raise ValueError(f"ramp: cut must be from -2 to 0, got {self.cut!r}; -1 is usual")


EXAMPLES: tuple[Loss, ...] = (Ramp(), Ramp(cut=0.0), Ramp(cut=-2.0))
