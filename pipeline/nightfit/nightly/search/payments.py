"""The two ways to pay for a search: charge every fit, or release only the best of a random number of fits. Imports privacy.

*All charged*: every setting is fitted and scored; all answers are charged and may be released. *Repetition*: settings are drawn at random,
fitted and scored a random number of times, and only the best is released (Liu, Talwar 2019; Papernot, Steinke 2022).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from nightfit.methods.procedure import Outcome, Progress
from nightfit.nightly.search.settings import Setting
from nightfit.privacy.accounting import UNIT, Currency, CurrencyError, cost
from nightfit.privacy.events import Event, RepeatedEvent
from nightfit.privacy.gate import Account, Gate
from nightfit.types import Integers

SEARCH = "search"
Settings = tuple[Setting, ...]
Show = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The index of the best setting, its fit, and the scores that may be released, by index."""

    index: int
    outcome: Outcome
    scores: dict[int, float]


class Payment(Protocol):
    """How a search is paid for."""

    name: ClassVar[str]

    def events(self, settings: Settings) -> tuple[Event, ...]:
        """Every event of the search, whatever the answers are."""

    def passes(self, settings: Settings) -> int:
        """How often the records are read, on average."""

    def search(self, settings: Settings, gate: Gate, show: Show) -> Found:
        """Fit and score settings, and return the best."""

    def explain(self, settings: Settings) -> str:
        """What is done and what is released, in words."""


@dataclass(frozen=True)
class AllCharged:
    """Every setting is fitted and scored under labels of its own; all answers are charged, stored and may be released.

    Guarantee: the cost is that of all queries together (accounting.cost), in whatever order and however they depend on each other;
    all settings draw parts from one key, so a record is in the same parts in all of them. Broken by
    test_a_search_that_charges_all_costs_what_its_questions_add_to.
    """

    name: ClassVar[str] = "all"

    def events(self, settings: Settings) -> tuple[Event, ...]:
        return tuple(event for index, setting in enumerate(settings) for event in relabelled(index, setting.events).values())

    def passes(self, settings: Settings) -> int:
        return len(self.events(settings))

    def search(self, settings: Settings, gate: Gate, show: Show) -> Found:
        outcomes, scores = [], {}
        for index, setting in enumerate(settings):
            account = SettingAccount(
                account=gate.account,
                events={event.label: event for event in setting.events},
                reserved=relabelled(index, setting.events),
            )
            outcome, scores[index] = setting.fit(replace(gate, account=account))
            outcomes.append(outcome)
            show(Progress(step=index + 1, steps=len(settings), moved=float(np.linalg.norm(outcome.weights)), noise=math.nan))
        best = min(scores, key=lambda index: scores[index])
        return Found(index=best, outcome=outcomes[best], scores=scores)

    def explain(self, settings: Settings) -> str:
        return "All are fitted and charged; all scores and the best fit are released."


@dataclass(frozen=True)
class Repetition:
    """The best of a geometric number of fits, each of a setting drawn at random: one event of the ledger. See `Gate.repeat`."""

    mean: int
    name: ClassVar[str] = "repetition"

    def events(self, settings: Settings) -> tuple[Event, ...]:
        costs = [cost(setting.events, Currency.ZCDP) for setting in settings]
        if any(spent.mass for spent in costs):
            raise CurrencyError("an approximate query has no place in a repetition: only its rho is known to repeat")
        dearest = float(max(spent.amount for spent in costs) * UNIT)
        return (
            RepeatedEvent(
                label=SEARCH,
                attempt_rho=math.nextafter(dearest, math.inf),
                mean=self.mean,
                coordinates=1 + max(sum(1 + event.coordinates for event in setting.events) for setting in settings),
                adjacency=settings[0].scored.adjacency,
            ),
        )

    def passes(self, settings: Settings) -> int:
        return self.mean * max(len(setting.events) for setting in settings)

    def probability_tried(self, settings: int) -> float:
        """Probability that one of `settings` settings is tried at all: mean / (mean + settings - 1).

        With m settings, one is left out k times in a row with probability (1 - 1/m)^k, and E (1 - 1/m)^K of a geometric K of this mean
        is (m - 1) / (mean + m - 1).
        """
        return self.mean / (self.mean + settings - 1)

    def search(self, settings: Settings, gate: Gate, show: Show) -> Found:
        index, stored = gate.repeat(SEARCH, settings)
        outcome, score = settings[index].fit(stored)
        return Found(index=index, outcome=outcome, scores={index: score})

    def explain(self, settings: Settings) -> str:
        return (
            f"Settings are drawn at random and fitted, {self.mean} times on average; each is tried with a probability of "
            f"{self.probability_tried(len(settings)):.2g}. "
            "Only the best fit is released: not how many there were, nor anything of the others."
        )


@dataclass(frozen=True, kw_only=True)
class SettingAccount:
    """The account of one setting inside a search that charges all: its events have labels of their own there."""

    account: Account
    events: dict[str, Event]
    reserved: dict[str, Event]

    @property
    def key(self) -> bytes:
        return self.account.key

    @property
    def secret(self) -> bytes:
        return self.account.secret

    def asked(self, event: Event) -> Integers | None:
        return self.account.asked(self.reserved[event.label])

    def answered(self, event: Event, answer: Integers) -> None:
        self.account.answered(self.reserved[event.label], answer)


def relabelled(index: int, events: tuple[Event, ...]) -> dict[str, Event]:
    """The events of a setting as the whole search reserves them, by their labels in the setting."""
    return {event.label: _with_label(event, f"setting {index + 1}: {event.label}") for event in events}


def _with_label(event: Event, label: str) -> Event:
    renamed: Event = replace(event, label=label)  # type: ignore[type-var]
    return renamed
