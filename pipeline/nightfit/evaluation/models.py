"""What is judged: a fit, and the earlier release that it is compared with. Imports methods and below."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nightfit.evaluation.estimates import unknown
from nightfit.problem.links import Link
from nightfit.problem.losses import Loss
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

HIDDEN = unknown(-1.0, 1.0, 0.0)


Stored = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """An earlier release, as far as it is compared.

    Parameters
    ----------
    run : str
        Of the release.
    weights : tuple of float, or of tuples
        Of columns bounded by `preprocessing`; of several classes a tuple for each column.
    preprocessing, link
        How it predicts.
    scores : mapping, optional
        Where its predictions lay then: low, high, counts and the standard deviation of their noise.
    """

    run: str
    weights: tuple[float, ...] | tuple[tuple[float, ...], ...]
    preprocessing: Preprocessing
    link: Link
    scores: Stored | None = field(default=None, hash=False)

    def digest(self) -> str:
        """SHA-256 of what is compared."""
        stored = {"weights": self.weights, "preprocessing": self.preprocessing.as_dict(), "link": self.link.name}
        told = {} if self.scores is None else {"scores": dict(self.scores)}
        return hashlib.sha256(json.dumps({**stored, **told}, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What is judged: weights of columns bounded by `preprocessing`, None where that is the blocks', and the loss with the range that the
    fit paid for, None where there is none.
    """

    weights: Array
    preprocessing: Preprocessing | None
    loss: Loss | None


def compared(run: str, main: str, now: dict[str, float], change: dict[str, float] | None) -> dict[str, Any]:
    """The comparison with an earlier release: better or worse where the change's interval says so."""
    change = change or HIDDEN
    better = True if change["low"] > 0 else False if change["high"] < 0 else None
    halves = [math.hypot(now["value"] - now[end], change["value"] - change[end]) for end in ("low", "high")]
    value = now["value"] - change["value"]
    before = {"value": value, "low": value - halves[0], "high": value + halves[1]}
    return {"run": run, "metrics": {main: before}, "change": change, "better": better}
