"""Where a refit starts: at an earlier release of the same model, which costs nothing. Imports preprocessing and types."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Previous:
    """The model that run `run` released, in the users' units; with no run there was none yet, and the refit starts at zero.

    Guarantee: a release is post-processing of answers that the same ledger was paid for, so what is made from it costs no more. The
    run and its numbers are part of the plan's digest: a resumed refit starts where it started. Broken by
    test_a_refit_starts_only_from_a_release_that_its_ledger_paid_for.
    """

    run: str | None = None
    coef: tuple[float, ...] = ()
    intercept: float = 0.0

    def scaled(self, shape: Preprocessing) -> Array:
        """Weights of a block's columns whose predictions are this model's, inside the bounds."""
        weights = np.zeros(shape.columns)
        if self.run is None:
            return weights
        coef, centre = np.array(self.coef), np.array(shape.centre)
        weights[: len(coef)] = coef * np.array(shape.scale) / shape.target_scale
        if shape.intercept:
            weights[-1] = (self.intercept + coef @ centre - shape.target_centre) / shape.target_scale
        return weights

    def only(self, chosen: tuple[int, ...]) -> "Previous":
        """Of some of the features."""
        return self if self.run is None else replace(self, coef=tuple(self.coef[j] for j in chosen))

    def as_dict(self) -> dict[str, Any]:
        """What identifies it in a plan."""
        numbers = np.array([*self.coef, self.intercept]).tobytes()
        return {"run": self.run, "model": None if self.run is None else hashlib.sha256(numbers).hexdigest()}

    def said(self) -> str:
        return (
            "Start: at zero, because there is no earlier private release of this model that its ledger paid for."
            if self.run is None
            else f"Start: at the model that run {self.run} released; it was paid for, so this costs nothing."
        )
