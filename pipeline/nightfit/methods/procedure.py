"""The protocol that every engine follows, and what it returns. Imports privacy, records and packages below."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nightfit.methods.intervals import Intervals
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What a progress display may show after a step: public or released numbers only.

    Parameters
    ----------
    step, steps : int
        Steps done, and steps in all.
    moved : float
        Norm of the change of the weights.
    noise : float
        Standard deviation of the noise in each coordinate of the step's answer; NaN if it depends on the data.
    """

    step: int
    steps: int
    moved: float
    noise: float


@dataclass(frozen=True, slots=True)
class PaidShare:
    """A share as a paid answer told it, and the standard deviation of its noise."""

    share: float
    deviation: float

    def as_dict(self) -> dict[str, float]:
        return {"share": self.share, "deviation": self.deviation}


class UsedShare(PaidShare):
    """The share of units with a record that counts.

    A record counts where its target can be read and no column that drops is missing. The share is of the units that are public, so it is
    above one where more came than were stated.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Fitted weights and the iterates that led to them: post-processing of paid answers.

    Parameters
    ----------
    weights : Array
        Fitted weights, in scaled units; a matrix with a column for each class where there are several.
    path : list of Array
        The iterates, the start first.
    preprocessing : Preprocessing, optional
        The bounds that the weights refer to, if the procedure paid for bounds that were not public.
    intervals : Intervals, optional
        Confidence intervals of the coefficients, if the procedure can compute them.
    class_intervals : tuple of Intervals
        Of each class, where there are several and the procedure can compute them.
    loss : Loss, optional
        The loss that the weights minimise, if the procedure paid for a range of means that was not public.
    used : UsedShare, optional
        How many units counted, if the procedure paid for it.
    labels : tuple of PaidShare
        The share of records with label 1 among those that count, or with each of several classes, if the procedure paid for it.
    """

    weights: Array
    path: list[Array]
    preprocessing: Preprocessing | None = None
    intervals: Intervals | None = None
    class_intervals: tuple[Intervals, ...] = ()
    loss: Loss | None = None
    used: UsedShare | None = None
    labels: tuple[PaidShare, ...] = ()


class ExpectedNoise(Protocol):
    """The noise of a fit's predictions in the `unit`, as public facts tell it: no bound on the error, which has a bias beside it."""

    @property
    def error(self) -> float: ...

    @property
    def unit(self) -> str: ...

    @property
    def large(self) -> bool:
        """Whether noise hides all but strong effects."""

    @property
    def lost(self) -> float:
        """The share of variance below which the signal of a feature is hidden by the noise."""


class Procedure(Protocol):
    """An engine with all its choices made: everything but the answers is fixed, from public facts, when it is built."""

    @property
    def engine(self) -> str:
        """The name of the engine: `auto`, `loop` or `local`."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Every query that `run` asks, whatever the answers are."""

    @property
    def passes(self) -> int:
        """The number of times that `run` reads the records."""

    @property
    def private(self) -> bool:
        """Whether its releases may claim privacy."""

    @property
    def prediction(self) -> ExpectedNoise | None:
        """The error to expect, from public facts; None if the method cannot predict it."""

    def describe(self) -> dict[str, Any]:
        """The facts that identify it, as plain data."""

    def explain(self) -> list[str]:
        """Sentences that say which queries are asked, with what noise."""

    def coefficient_noise(self) -> float | None:
        """Largest standard deviation of the noise in a scaled coefficient; None if it depends on the data."""

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        """Ask every query, in order; answers that are stored already are used again."""
