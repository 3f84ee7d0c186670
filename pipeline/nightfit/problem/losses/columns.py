"""Not a loss to fit by, but what makes a gradient of the columns themselves: their mean is one step. Imports links and targets."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nightfit.problem.links import Link
from nightfit.problem.links.identity import Identity
from nightfit.problem.losses import Estimand, Formula
from nightfit.records.targets import Target
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """-z: its gradient is -x at any weights, so one step of size 1 from zero is the mean of the columns."""

    name: ClassVar[str] = "columns"
    target: ClassVar[Target] = Target.REAL
    scalable: ClassVar[bool] = False
    link: ClassVar[Link] = Identity()
    estimand: ClassVar[Estimand | None] = Estimand.COLUMN_MEANS
    convex: ClassVar[bool] = True
    smoothness: ClassVar[float] = 0.0
    lipschitz: ClassVar[float] = 1.0

    def value(self, y: Array, z: Array) -> Array:
        return -z

    def slope(self, y: Array, z: Array) -> Array:
        return np.full(len(z), -1.0)

    def formula(self) -> Formula | None:
        return None
