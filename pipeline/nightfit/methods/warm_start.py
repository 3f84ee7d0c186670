"""The previous release of the same model, at which a refit may start at no cost. Imports preprocessing and types."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Previous:
    """The model that run `run` released, in the user's units; without a run there is no release yet, and the refit starts at zero.

    Guarantee: a release is post-processing of answers that the same ledger was paid for, so starting from it costs nothing. The
    run and its numbers are part of the plan's digest: a resumed refit starts where it started before. Broken by
    test_a_refit_starts_only_from_a_release_that_its_ledger_paid_for.
    """

    run: str | None = None
    coef: tuple[float, ...] = ()
    intercept: float = 0.0

    def scaled(self, shape: Preprocessing) -> Array:
        """The weights of scaled columns that predict what this model predicts, inside the bounds."""
        weights = np.zeros(shape.columns)
        if self.run is None:
            return weights
        coef, centre = np.array(self.coef), np.array(shape.centre)
        weights[: len(coef)] = coef * np.array(shape.scale) / shape.target_scale
        if shape.intercept:
            weights[-1] = (self.intercept + coef @ centre - shape.target_centre) / shape.target_scale
        return weights

    def only(self, chosen: tuple[int, ...]) -> "Previous":
        """The same model with some of its features only."""
        return self if self.run is None else replace(self, coef=tuple(self.coef[j] for j in chosen))

    def as_dict(self) -> dict[str, Any]:
        """The run and a digest of the numbers, as plans store them."""
        numbers = np.array([*self.coef, self.intercept]).tobytes()
        return {"run": self.run, "model": None if self.run is None else hashlib.sha256(numbers).hexdigest()}

    def explain(self) -> str:
        """The sentence about the start that a plan prints."""
        if self.run is None:
            return "Start: at zero, because there is no earlier private release of this model that its ledger paid for."
        return f"Start: at the model that run {self.run} released; it was paid for, so this costs nothing."
