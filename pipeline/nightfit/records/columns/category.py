"""A category with publicly declared levels. Imports its own package."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nightfit.records.columns import NULL, Column, Feature, Levels, Reading, textual
from nightfit.types import Array

OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One indicator for each level, and one for `other`: any other value. A missing one is the level `missing`, by default `other`.

    Levels are public: what an export happens to hold is not asked. With a `reference`, that level has no indicator, and the others'
    coefficients are differences to it; without one, shrinkage makes the coefficients of all levels comparable.

    Guarantee: a record is 1 in at most one feature, so a category of any number of levels adds a row of norm one at most. Broken by
    test_a_record_has_one_level_at_most.
    """

    kind: ClassVar[str] = "category"
    of: ClassVar[tuple[str, ...]] = ()
    drops: ClassVar[bool] = False
    levels: tuple[str, ...]
    reference: str | None = None
    missing: str = OTHER

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise ValueError("a category needs at least one level, and each once")
        if OTHER in self.levels:
            raise ValueError(f"{OTHER!r} is what every undeclared value becomes: remove it from the levels")
        for name, level in (("reference", self.reference), ("missing", self.missing)):
            if level is not None and level not in (*self.levels, OTHER):
                raise ValueError(f"{name} {level!r} is not one of the levels {', '.join(self.levels[:20])} or {OTHER}")

    @property
    def reading(self) -> Reading:
        return Levels(self.levels)

    @property
    def shown(self) -> tuple[str, ...]:
        """The levels that have an indicator."""
        return tuple(level for level in (*self.levels, OTHER) if level != self.reference)

    def accepts(self, arrow_type: str) -> bool:
        return textual(arrow_type)

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        return tuple(Feature(name=f"{name}={level}", indicator=True) for level in self.shown)

    def encode(self, values: Any, out: Array) -> None:
        every = (*self.levels, OTHER)
        place = np.full(len(every) + 1, -1)
        for column, level in enumerate(self.shown):
            place[every.index(level)] = column
        place[NULL] = place[every.index(self.missing)]
        columns = place[values]
        out[:] = 0.0
        rows = np.flatnonzero(columns >= 0)
        out[rows, columns[rows]] = 1.0


EXAMPLES: tuple[Column, ...] = (
    Category(levels=("F", "M", "X")),
    Category(levels=("a",), reference="a"),
    Category(levels=("low", "high"), reference=OTHER, missing="low"),
)
