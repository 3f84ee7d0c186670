"""Confidence intervals of released coefficients that include the privacy noise. Imports numpy and types."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.types import Array

LEVELS = (0.9, 0.95)
INTERCEPT = "(intercept)"


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Confidence intervals of the coefficients and of the intercept, in the user's units: post-processing of paid answers.

    Parameters
    ----------
    estimate : Array
        Unshrunk estimates of the coefficients; the intercept, if there is one, is last. NaN, here and below, where only differences to
        other coefficients can be known, as of all levels of a category.
    deviation : Array
        Their standard deviations, from sampling the records and from the privacy noise.
    bias : Array
        Bounds on their biases.
    of : str
        What is estimated, in words.
    assumed : tuple of str
        The assumptions under which the intervals cover it.
    """

    estimate: Array
    deviation: Array
    bias: Array
    of: str
    assumed: tuple[str, ...]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which terms have an interval."""
        return ~np.isnan(self.deviation)

    def at(self, level: float) -> Array:
        """(low, high) of each term: estimate -+ (z deviation + bias), where z is the normal quantile of (1 + level) / 2."""
        if not 0 < level < 1:
            raise ValueError(f"a level lies between 0 and 1, got {level}")
        half = NormalDist().inv_cdf((1 + level) / 2) * self.deviation + self.bias
        return np.column_stack([self.estimate - half, self.estimate + half])

    def as_dict(self, features: Sequence[str]) -> dict[str, Any]:
        """The intervals at LEVELS as plain data, by the names of the terms."""
        names = [*features, INTERCEPT][: len(self.estimate)]
        ranges = {level: self.at(level).tolist() for level in LEVELS}
        terms = {
            name: {
                "estimate": float(self.estimate[k]),
                "deviation": float(self.deviation[k]),
                "bias": float(self.bias[k]),
                **{f"{level:.0%}": ranges[level][k] for level in LEVELS},
            }
            if self.known[k]
            else None
            for k, name in enumerate(names)
        }
        return {"of": self.of, "assumed": list(self.assumed), "terms": terms}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Intervals":
        """The intervals that `as_dict` stored."""
        columns = {
            key: np.array([np.nan if term is None else term[key] for term in stored["terms"].values()])
            for key in ("estimate", "deviation", "bias")
        }
        return cls(**columns, of=stored["of"], assumed=tuple(stored["assumed"]))
