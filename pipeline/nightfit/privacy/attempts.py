"""Attempts at a whole fit, of which a search tells the best: what they cost, and how they are scored without a word. Imports accounting,
events and reading.
"""

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nightfit.privacy.accounting import UNIT, Currency, cost
from nightfit.privacy.events import Event, RepeatedEvent
from nightfit.privacy.reading import Watched

if TYPE_CHECKING:
    from nightfit.privacy.gate import Gate


class Attempt(Protocol):
    """A whole fit and its score, asked through the gate that it is given."""

    @property
    def events(self) -> tuple[Event, ...]:
        """Every query of it, whatever the answers are."""

    def score(self, gate: "Gate") -> float:
        """Ask them all and return a number made of the answers: the smaller the better, infinite where the fit fails."""


def scored(attempt: Attempt, gate: "Gate") -> float:
    """An attempt's score; infinity if it fails in any way, without a word.

    What an attempt makes of its noisy answers is not released unless it wins, so neither may an exception or a warning be. A failure to
    read the records is no function of the answers: it ends the search, which begins anew under the same charge.
    """
    watched = Watched(gate.records)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            score = attempt.score(replace(gate, records=watched))
    except Exception:
        if watched.failure is not None:
            raise watched.failure from None
        return math.inf
    return math.inf if math.isnan(score) else score


def exceeds(attempt: Attempt, event: RepeatedEvent) -> bool:
    """Whether an attempt costs more than the event says, concerns other neighbours, or costs more than a rho."""
    if any(query.sampled or query.adjacency != event.adjacency for query in attempt.events):
        return True
    spent = cost(attempt.events, Currency.ZCDP)
    return spent.amount * UNIT > event.attempt_rho or spent.mass > 0
