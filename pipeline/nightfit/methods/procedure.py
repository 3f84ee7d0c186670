"""The protocol that every engine follows, and what it returns. Imports privacy, records and packages below."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nightfit.methods.intervals import Intervals
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What may be shown after a step: public or released numbers only."""

    step: int
    steps: int
    moved: float
    noise: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Fitted weights and the iterates on the way to them: post-processing of paid answers.

    `preprocessing` is what the weights speak of, where the procedure paid for bounds that were not public; `intervals` are for its
    coefficients, where the procedure knows how uncertain they are.
    """

    weights: Array
    path: list[Array]
    preprocessing: Preprocessing | None = None
    intervals: Intervals | None = None


class Procedure(Protocol):
    """What asks a plan's questions. Everything but the answers is decided when it is made, from public facts."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Every question that `run` asks, whatever the answers are."""

    @property
    def passes(self) -> int:
        """How often it reads the records."""

    @property
    def private(self) -> bool:
        """Whether its releases may claim privacy."""

    def describe(self) -> dict[str, Any]:
        """What identifies it, as plain data."""

    def explain(self) -> list[str]:
        """What is asked and with what noise, in words."""

    def coefficient_noise(self) -> float | None:
        """Largest standard deviation that the noise gives a scaled coefficient; None if the data decide it."""

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        """Ask every question, in order; answers that are stored already are used again."""
