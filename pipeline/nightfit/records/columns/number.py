"""A number: clamped to its public bounds, transformed, bent at public knots. Imports its own package."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nightfit.records.columns import IMPUTED, Column, Feature, Missing, Numbers, Reading, check_missing, numeric, textual
from nightfit.records.expressions import Expression, clipped, of
from nightfit.types import Array

TRANSFORMS = {
    "none": lambda x: x,
    "log1p": lambda x: np.log1p(np.where(x >= 0, x, np.nan)),
    "log": lambda x: np.log(np.where(x > 0, x, np.nan)),
    "sqrt": lambda x: np.sqrt(np.where(x >= 0, x, np.nan)),
}
EXPRESSED = {
    "none": lambda x: x,
    "log1p": lambda x: of("log1p", of("when", of("le", 0, x), x)),
    "log": lambda x: of("log", of("when", of("lt", 0, x), x)),
    "sqrt": lambda x: of("sqrt", of("when", of("le", 0, x), x)),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """transform(clip(x, *bounds)), and (that - transform(knot))+ for each knot; a value outside of a transform's domain is missing, and
    so is text that is no number.

    Bounds are public facts and clamps only: they set neither centre nor scale. Knots are in the column's own units: the fitted line
    bends there. `missing` is a policy, or the number that a missing value counts as.
    """

    name: ClassVar[str] = "number"
    one_hot: ClassVar[bool] = False
    of: ClassVar[tuple[str, ...]] = ()
    bounds: tuple[float, float] | None = None
    transform: str = "none"
    missing: str | float = Missing.MEAN
    knots: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise ValueError(f"{self.transform!r} is not one of the transforms {', '.join(TRANSFORMS)}")
        if self.bounds is not None and not (all(map(math.isfinite, self.bounds)) and self.bounds[0] < self.bounds[1]):
            raise ValueError(f"bounds must be finite with low < high, got {list(self.bounds)}")
        if self.bounds is not None and not all(math.isfinite(end) for end in self._transformed(self.bounds)):
            raise ValueError(f"bounds {list(self.bounds)} lie outside of what {self.transform} is defined for")
        bends = self._transformed(self.knots)
        if not all(map(math.isfinite, bends)) or any(a >= b for a, b in itertools.pairwise(bends)):
            where = "" if self.transform == "none" else f", where {self.transform} is defined"
            raise ValueError(f"knots must rise{where}: write them from the lowest to the highest, got {list(self.knots)}")
        if isinstance(self.missing, str):
            check_missing(self.missing)
        elif not math.isfinite(self._value(np.float64(self.missing))):
            raise ValueError(f"what a missing value counts as must be finite, and {self.transform} defined for it; got {self.missing}")

    @property
    def reading(self) -> Reading:
        return Numbers()

    @property
    def drops(self) -> bool:
        return self.missing == Missing.DROP

    def accepts(self, arrow_type: str) -> bool:
        return numeric(arrow_type) or textual(arrow_type)

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        low, high = (None, None) if self.bounds is None else self._transformed(self.bounds)
        gap = self.missing in IMPUTED
        bends = (Feature(name=f"{name} > {knot:g}", low=0.0, high=None if high is None else max(high - bend, 0.0) or None, imputed=gap)
                 for knot, bend in zip(self.knots, self._transformed(self.knots), strict=True))  # fmt: skip
        absent = (Feature(name=f"{name} missing", indicator=True),) if self.missing == Missing.INDICATOR else ()
        return (Feature(name=name, low=low, high=high, imputed=gap), *bends, *absent)

    def encode(self, values: Any, out: Array) -> None:
        with np.errstate(all="ignore"):
            x = self._value(np.where(np.isfinite(values), values, np.nan))
            if not isinstance(self.missing, str):
                x = np.where(np.isnan(x), self._value(np.float64(self.missing)), x)
        out[:, 0] = x
        for place, bend in enumerate(self._transformed(self.knots), start=1):
            out[:, place] = np.maximum(x - bend, 0.0)
        if self.missing == Missing.INDICATOR:
            out[:, -1] = np.isnan(x)

    def expressions(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Expression, ...]:
        raw = of("number", name)
        known = EXPRESSED[self.transform](raw if self.bounds is None else clipped(raw, *self.bounds))
        x = known if isinstance(self.missing, str) else of("coalesce", known, float(self._value(np.float64(self.missing))))
        bends = (of("max", x - bend, 0) for bend in self._transformed(self.knots))
        return (x, *bends, of("missing", x)) if self.missing == Missing.INDICATOR else (x, *bends)

    def _value(self, values: Any) -> Any:
        """transform(clip(x, *bounds)); NaN outside of what it is defined for."""
        with np.errstate(all="ignore"):
            return TRANSFORMS[self.transform](values if self.bounds is None else np.clip(values, *self.bounds))

    def _transformed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        with np.errstate(all="ignore"):
            return tuple(float(TRANSFORMS[self.transform](np.float64(value))) for value in values)


EXAMPLES: tuple[Column, ...] = (
    Number(),
    Number(bounds=(0.0, 110.0)),
    Number(transform="log1p", missing=Missing.INDICATOR),
    Number(bounds=(10.0, 60.0), knots=(18.0, 25.0, 30.0, 40.0), missing=22.0),
    Number(missing=Missing.DROP),
)
