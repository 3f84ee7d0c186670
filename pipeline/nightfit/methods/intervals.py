"""Ranges for released numbers that count the privacy noise in. Imports numpy and types."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from nightfit.types import Array

LEVELS = (0.9, 0.95)
INTERCEPT = "(intercept)"


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """For each coefficient, and the intercept behind them if there is one, in the user's units: an unshrunk estimate, its standard
    deviation (drawing the records, and the noise that privacy added) and how far a bias may move it.

    `of` says in words what the estimate estimates, `assumed` under what. Post-processing of paid answers: free.
    """

    estimate: Array
    deviation: Array
    bias: Array
    of: str
    assumed: tuple[str, ...]

    def at(self, level: float) -> Array:
        """(low, high) of each: estimate -+ (z deviation + bias), z the normal quantile of (1 + level) / 2."""
        if not 0 < level < 1:
            raise ValueError(f"a level lies between 0 and 1, got {level}")
        half = NormalDist().inv_cdf((1 + level) / 2) * self.deviation + self.bias
        return np.column_stack([self.estimate - half, self.estimate + half])

    def as_dict(self, features: Sequence[str]) -> dict[str, Any]:
        """As plain data, by the terms' names."""
        names = [*features, INTERCEPT][: len(self.estimate)]
        ranges = {level: self.at(level).tolist() for level in LEVELS}
        terms = {
            name: {
                "estimate": float(self.estimate[k]),
                "deviation": float(self.deviation[k]),
                "bias": float(self.bias[k]),
                **{f"{level:.0%}": ranges[level][k] for level in LEVELS},
            }
            for k, name in enumerate(names)
        }
        return {"of": self.of, "assumed": list(self.assumed), "terms": terms}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Intervals":
        columns = {key: np.array([term[key] for term in stored["terms"].values()]) for key in ("estimate", "deviation", "bias")}
        return cls(**columns, of=stored["of"], assumed=tuple(stored["assumed"]))
