"""Accounts that the gate writes to: a reserved run of a ledger, or the memory of one attempt. Imports events and nightfit.types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nightfit.privacy.events import Event
from nightfit.types import Integers, NightfitError


class GateError(NightfitError):
    """A query that was not reserved as it is asked: refused before anything is read."""


class Account(Protocol):
    """A reserved run: its queries, its secret, and the answers so far."""

    @property
    def key(self) -> bytes:
        """Keys the draws of groups, parts and samples."""

    @property
    def secret(self) -> bytes:
        """Keys the reports of local protocols; its first half is `key`."""

    @property
    def events(self) -> dict[str, Event]:
        """What was reserved, by label."""

    def asked(self, event: Event) -> Integers | None:
        """Record that the query is about to be asked; return the stored answer if there is one."""

    def answered(self, event: Event, answer: Integers) -> None:
        """Store the noisy answer; only then may anyone see it."""


@dataclass(frozen=True, kw_only=True)
class InMemoryAccount:
    """The account of one attempt: its answers are kept if the attempt wins, and forgotten if not.

    Parameters
    ----------
    events
        The attempt's queries, by label.
    secret
        Fresh random bytes of this attempt.
    answers
        The answers so far, by label.
    open
        Whether new queries may be asked; False for the stored answers of a winner.
    """

    events: dict[str, Event]
    secret: bytes = field(repr=False)
    answers: dict[str, Integers] = field(default_factory=dict, repr=False)
    open: bool = True

    @property
    def key(self) -> bytes:
        return self.secret[:16]

    def asked(self, event: Event) -> Integers | None:
        if not self.open and event.label not in self.answers:
            raise GateError(f"the stored attempt has no answer to {event.label!r}")
        return self.answers.get(event.label)

    def answered(self, event: Event, answer: Integers) -> None:
        self.answers[event.label] = answer


def by_label(events: Sequence[Event]) -> dict[str, Event]:
    """Events by their labels."""
    return {event.label: event for event in events}


def pack(index: int, events: Sequence[Event], answers: Mapping[str, Integers]) -> Integers:
    """An attempt as one vector: its index, then each answer after its length, in the order of `events`."""
    given = [answers.get(event.label, ()) for event in events]
    return np.concatenate([[index], *([len(answer), *answer] for answer in given)]).astype(np.int64)


def unpack(events: Sequence[Event], packed: Integers) -> dict[str, Integers]:
    """The answers that `pack` put after the index, by label; a query that was not answered has none."""
    answers, at = {}, 1
    for event in events:
        if packed[at]:
            answers[event.label] = packed[at + 1 : at + 1 + packed[at]]
        at += 1 + int(packed[at])
    return answers
