"""A category with publicly declared levels. Imports its own package."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nightfit.records.columns import NULL, Column, Feature, Levels, Missing, Reading, coded
from nightfit.records.expressions import Expression, of
from nightfit.types import Array

OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class Category:
    """One indicator for each level, and one for `other`: any other value. A missing one is the level `missing`, by default `other`; with
    `missing: indicator` it has an indicator of its own, and with `missing: drop` the whole record adds nothing.

    Levels are public: what an export happens to hold is not asked. With a `reference`, that level has no indicator, and the others'
    coefficients are differences to it; without one, shrinkage makes the coefficients of all levels comparable.

    Guarantee: a record is 1 in at most one feature, so a category of any number of levels adds a row of norm one at most. Broken by
    test_a_record_has_one_level_at_most.
    """

    name: ClassVar[str] = "category"
    one_hot: ClassVar[bool] = True
    of: ClassVar[tuple[str, ...]] = ()
    levels: tuple[str, ...]
    reference: str | None = None
    missing: str = OTHER

    def __post_init__(self) -> None:
        if not self.levels:
            raise ValueError("a category needs at least one level")
        twice = next((level for level, times in Counter(self.levels).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"the level {twice!r} is listed twice: a category has each level once")
        if OTHER in self.levels:
            raise ValueError(f"{OTHER!r} is what every undeclared value becomes: remove it from the levels")
        for name, level in (("reference", self.reference), ("missing", self.missing)):
            policies = (Missing.INDICATOR, Missing.DROP) if name == "missing" else ()
            if level is not None and level not in (*self.levels, OTHER, *policies):
                known = ", ".join((*self.levels[:20], *(["..."] if len(self.levels) > 20 else []), OTHER, *policies))
                raise ValueError(f"{name} {level!r} is not one of {known}")

    @property
    def reading(self) -> Reading:
        return Levels(self.levels)

    @property
    def drops(self) -> bool:
        return self.missing == Missing.DROP and Missing.DROP not in self.levels

    @property
    def marks(self) -> bool:
        """Whether a missing value has an indicator of its own."""
        return self.missing == Missing.INDICATOR and Missing.INDICATOR not in self.levels

    @property
    def shown(self) -> tuple[str, ...]:
        """The levels that have an indicator."""
        return tuple(level for level in (*self.levels, OTHER) if level != self.reference)

    def accepts(self, arrow_type: str) -> bool:
        return coded(arrow_type)

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        absent = (Feature(name=f"{name} missing", indicator=True),) if self.marks else ()
        return (*(Feature(name=f"{name}={level}", indicator=True) for level in self.shown), *absent)

    def encode(self, values: Any, out: Array) -> None:
        every = (*self.levels, OTHER)
        place = np.full(len(every) + 1, -1)
        for column, level in enumerate(self.shown):
            place[every.index(level)] = column
        if self.marks:
            place[NULL] = len(self.shown)
        elif not self.drops:
            place[NULL] = place[every.index(self.missing)]
        columns = place[values]
        out[:] = 0.0
        rows = np.flatnonzero(columns >= 0)
        out[rows, columns[rows]] = 1.0
        if self.drops:
            out[values == NULL] = np.nan

    def expressions(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Expression, ...]:
        made = []
        for level in self.shown:
            is_level = of("other", name, *self.levels) if level == OTHER else of("level", name, level)
            made.append(is_level if self.drops else of("coalesce", is_level, level == self.missing))
        return (*made, of("missing", of("level", name, self.levels[0]))) if self.marks else tuple(made)


EXAMPLES: tuple[Column, ...] = (
    Category(levels=("F", "M", "X")),
    Category(levels=("a",), reference="a"),
    Category(levels=("low", "high"), reference=OTHER, missing="low"),
    Category(levels=("a", "b"), missing=Missing.INDICATOR),
    Category(levels=("a", "b"), missing=Missing.DROP),
)
