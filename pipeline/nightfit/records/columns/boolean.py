"""A yes or no. Imports its own package."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nightfit.records.columns import IMPUTED, Column, Feature, Missing, Numbers, Reading, check_missing, numeric
from nightfit.records.expressions import Expression, of
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Boolean:
    """1 for yes, 0 for no; a number that is neither 0 nor 1 is missing."""

    name: ClassVar[str] = "boolean"
    one_hot: ClassVar[bool] = False
    of: ClassVar[tuple[str, ...]] = ()
    missing: str = Missing.MEAN

    def __post_init__(self) -> None:
        check_missing(self.missing)

    @property
    def reading(self) -> Reading:
        return Numbers()

    @property
    def drops(self) -> bool:
        return self.missing == Missing.DROP

    def accepts(self, arrow_type: str) -> bool:
        return numeric(arrow_type)

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        absent = (Feature(name=f"{name} missing", indicator=True),) if self.missing == Missing.INDICATOR else ()
        return (Feature(name=name, indicator=True, imputed=self.missing in IMPUTED), *absent)

    def encode(self, values: Any, out: Array) -> None:
        out[:, 0] = np.where((values == 0.0) | (values == 1.0), values, np.nan)
        if self.missing == Missing.INDICATOR:
            out[:, 1] = np.isnan(out[:, 0])

    def expressions(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Expression, ...]:
        raw = of("number", name)
        value = of("when", of("either", of("eq", raw, 0), of("eq", raw, 1)), raw)
        return (value, of("missing", value)) if self.missing == Missing.INDICATOR else (value,)


EXAMPLES: tuple[Column, ...] = (Boolean(), Boolean(missing=Missing.INDICATOR), Boolean(missing=Missing.DROP))
