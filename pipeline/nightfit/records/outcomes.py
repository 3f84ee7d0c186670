"""From the raw values of a target to the numbers that a loss sees: labels, transforms and exposures. Imports columns and targets.

A target is read by public facts alone. A value that none of them covers is missing: it is NaN here and never an error.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.records.columns import NULL, Codes
from nightfit.records.columns.number import TRANSFORMS
from nightfit.records.expressions import Expression, clipped, of
from nightfit.records.targets import Pair, Target
from nightfit.types import Array

UNTRANSFORMED = "none"
INVERSES: dict[str, Callable[[Array], Array]] = {
    UNTRANSFORMED: lambda values: values,
    "log1p": np.expm1,
    "log": np.exp,
    "sqrt": lambda values: np.square(np.maximum(values, 0.0)),
}
LARGEST_EXPONENT = 709.0  # exp of it is about the largest float64
ANY_EXPOSURE: Pair = (2.0**-30, 2.0**30)  # above zero, and finite beside any count


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How the column of a target is read.

    Parameters
    ----------
    labels : tuple of str
        Declared labels; a record's number is the place of its label, and any other value is missing. Empty for a column of numbers.
    rest : bool
        The one declared label is 1, and any other value that is not null is 0.
    transform : str
        Of the numbers: `none`, `log1p`, `log` or `sqrt`. A number that it is not defined for is missing.
    exposure : str or None
        A column of exposures: the number is the target for one unit of exposure.
    exposures : (low, high)
        Public range to which exposures are clamped; one that is missing or not above zero makes the record's target missing.

    Guarantee: a record's number is a function of that record alone and of public facts. Broken by
    test_an_outcome_is_read_the_same_whatever_the_others_are.
    """

    labels: tuple[str, ...] = ()
    rest: bool = False
    transform: str = UNTRANSFORMED
    exposure: str | None = None
    exposures: Pair = ANY_EXPOSURE

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("a label of the target is declared twice: each class has one")
        if self.labels and (len(self.labels) == 1) != self.rest:
            raise ValueError("a target has one label, against any other value, or at least two of which each is a class")
        if self.transform not in TRANSFORMS:
            raise ValueError(f"{self.transform!r} is not one of the transforms {', '.join(TRANSFORMS)}")
        low, high = self.exposures
        if not 0 < low < high < math.inf:
            raise ValueError(f"the range of exposures must be two finite numbers, 0 < low < high, got {[low, high]}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read beside the target's own."""
        return () if self.exposure is None else (self.exposure,)

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of all classes, where each is declared."""
        return () if self.rest else self.labels

    def domain(self, target: Target) -> Target:
        """Where the numbers lie that a target of this domain is read as: counts per exposure are no whole numbers."""
        return Target.NON_NEGATIVE if self.exposure is not None and target is Target.COUNTS else target

    def of_codes(self, codes: Codes) -> Array:
        """The number of each label, from its place among the labels (or their number, or NULL)."""
        if self.rest:
            return np.where(codes == NULL, math.nan, np.where(codes == 0, 1.0, 0.0))
        known = (codes >= 0) & (codes < len(self.labels))
        return np.where(known, codes.astype(np.float64), math.nan)

    def per_exposure(self, target: Target, raw: Array, exposures: Array) -> Array:
        """y / clip(e, low, high); NaN where y is not in the domain of the target or e is not above zero."""
        with np.errstate(all="ignore"):
            usable = target.holds(raw) & np.isfinite(exposures) & (exposures > 0)
            return np.where(usable, raw / np.clip(exposures, *self.exposures), math.nan)

    def transformed(self, raw: Array) -> Array:
        """transform(y), NaN where it is not defined."""
        with np.errstate(all="ignore"):
            values: Array = TRANSFORMS[self.transform](raw)
        return values

    def restored(self, values: Array) -> Array:
        """The inverse of `transformed`: from a median of transformed targets to the median of targets."""
        with np.errstate(over="ignore"):
            found: Array = INVERSES[self.transform](values)
        return found

    def restored_expression(self, value: Expression) -> Expression:
        """What `restored` computes, as a formula for other systems."""
        above = of("max", value, 0)
        grown = of("exp", clipped(value, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        return {UNTRANSFORMED: value, "log1p": grown - 1.0, "log": grown, "sqrt": above * above}[self.transform]

    def as_dict(self) -> dict[str, Any]:
        """What is not as usual, as releases store it beside the target's name."""
        return (
            ({"labels": list(self.labels), "rest": self.rest} if self.labels else {})
            | ({"transform": self.transform, "predicted": "median"} if self.transform != UNTRANSFORMED else {})
            | ({"exposure": {"column": self.exposure, "clamp": list(self.exposures)}} if self.exposure is not None else {})
        )

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Outcome":
        """What `as_dict` described."""
        exposure = stored.get("exposure")
        return cls(
            labels=tuple(stored.get("labels", ())),
            rest=stored.get("rest", False),
            transform=stored.get("transform", UNTRANSFORMED),
            **({} if exposure is None else {"exposure": exposure["column"], "exposures": tuple(exposure["clamp"])}),
        )


AS_IT_IS = Outcome()
"""A column of numbers, or of labels 0 and 1."""
