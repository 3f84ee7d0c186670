"""The group lasso, which keeps or drops whole groups of coefficients. Imports numpy and types."""

import math
from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar

import numpy as np

from nightfit.problem.penalties import Penalty
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupLasso:
    """weight sum_k ||w_k|| over groups k of coefficients.

    Yuan and Lin (2006), eq. 2.1, with K_k = I: no factor for a group's size, so that groups of one make the lasso. `groups` is a
    group number for each column, such as [0, 0, 1], or the columns of each group, such as [[0, 1], [2]]; both become the first.
    """

    name: ClassVar[str] = "group_lasso"
    weight: float
    groups: tuple[int, ...]
    scalar_field: ClassVar[str | None] = None
    convex: ClassVar[bool] = True
    ridge: ClassVar[float | None] = None
    ball_norm: ClassVar[int | None] = None
    radius: ClassVar[float | None] = None
    nonzeros: ClassVar[int | None] = None
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight < math.inf:
            raise ValueError(f"group_lasso: weight must be finite and at least 0, got {self.weight!r}")
        object.__setattr__(self, "groups", _numbers(self.groups))

    @property
    def columns(self) -> int:
        """The number of coefficients it is made for."""
        return len(self.groups)

    def diameter(self, features: int) -> float | None:
        return None

    def value(self, w: Array) -> float:
        """weight sum_k ||w_k||."""
        return self.weight * float(self._norms(w).sum())

    def prox(self, w: Array, step: float) -> Array:
        """w_k max(1 - step weight / ||w_k||, 0) for each group k, the block soft threshold."""
        norms, threshold = self._norms(w), step * self.weight
        if threshold == 0.0:
            return w.copy()
        shrinkage = 1.0 - threshold / np.maximum(norms, threshold)
        return w * shrinkage[list(self.groups)]

    def _norms(self, w: Array) -> Array:
        if len(w) != self.columns:
            raise ValueError(f"group_lasso: groups must name the group of each of the {len(w)} columns, got {self.columns}")
        return np.sqrt(np.bincount(self.groups, weights=w * w))


def _numbers(groups: Any) -> tuple[int, ...]:
    """A group number for each column, counted from 0 in the order of the columns, so that equal groupings are equal."""
    try:
        entries = list(groups)
        if any(isinstance(entry, (list, tuple)) for entry in entries):
            owner = [(index(column), number) for number, entry in enumerate(entries) for column in entry]
            if sorted(column for column, _ in owner) != list(range(len(owner))):
                raise TypeError
            entries = [number for _, number in sorted(owner)]
        labels = [index(entry) for entry in entries]
        if not labels:
            raise TypeError
    except TypeError:
        raise ValueError(
            f"group_lasso: groups must be finite whole numbers, one for each column as in [0, 0, 1], "
            f"or lists that hold each column once as in [[0, 1], [2]], got {groups!r}"
        ) from None
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(label, len(seen)) for label in labels)


EXAMPLES: tuple[Penalty, ...] = (
    GroupLasso(weight=0.0, groups=(0, 1)),
    GroupLasso(weight=0.1, groups=(0, 0, 1)),
    GroupLasso(weight=2.0, groups=(0, 1, 0, 2, 1)),
)
