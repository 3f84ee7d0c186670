"""What a method may ask about columns, rows and targets before its first step, and what it learns. Imports privacy, queries and below.

The queries are those of `auto`; the planning hands them to the loop, so that neither engine imports the other.
"""

from typing import Any, Protocol

from nightfit.methods.procedure import PaidShare, UsedShare
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.queries.rows import Rows
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


class FoundScales(Protocol):
    """Scales, curvature and sizes of residuals: post-processing of paid answers."""

    @property
    def rows(self) -> Rows:
        """Centre, scale and clamp of every column, and the level of the target."""

    @property
    def curvature(self) -> float:
        """The largest eigenvalue of the second moment of scaled rows, or what was stated in its place."""

    @property
    def norm(self) -> float:
        """A usual norm of a scaled row: most are shorter."""

    @property
    def used(self) -> UsedShare | None:
        """How many units counted, if it was asked."""

    @property
    def labels(self) -> tuple[PaidShare, ...]:
        """The share of label 1, if it was asked."""

    @property
    def start(self) -> Array:
        """Weights of scaled rows at which a fit may start: zero but for the intercept."""

    def clip(self, place: int, weights: Array, noise: float) -> float:
        """Where to clip residuals at these weights, by the histogram of this number; as before where there is none.

        `noise` is the standard deviation that a clip of one gives a prediction in each direction; NaN if it depends on the data.
        """

    def released(self, weights: Array) -> Array:
        """The weights of the release's columns from those of scaled rows."""

    def scaled(self, weights: Array) -> Array:
        """The weights of scaled rows from those of the columns that the plan knows."""

    def preprocessing(self) -> Preprocessing:
        """The preprocessing with the paid clamps, which the released weights refer to."""


class ScaleQueries(Protocol):
    """Queries that are fixed in advance, and asked before a method's first step or between its steps."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Every query, whatever the answers are."""

    @property
    def histograms(self) -> int:
        """The number of histograms of residuals that `FoundScales.clip` may ask for."""

    @property
    def spent(self) -> float:
        """The share of mu^2 that they cost together."""

    def describe(self) -> dict[str, Any]:
        """The facts that identify them, as plain data."""

    def explain(self) -> list[str]:
        """Sentences that say what is asked."""

    def find(self, gate: Gate) -> FoundScales:
        """Ask all but the histograms of residuals."""
