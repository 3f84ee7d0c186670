"""Whether a query is the one that was reserved: its place in the plan, its sensitivity and its threshold. Imports events and queries."""

from collections.abc import Callable

from nightfit.privacy.account import Account, GateError
from nightfit.privacy.events import Event, GaussianEvent, SelectionEvent, ThresholdedEvent
from nightfit.queries.base import Query
from nightfit.queries.level_counts import LevelCounts
from nightfit.types import Adjacency


def reserved(account: Account, label: str, query: Query | LevelCounts) -> Event:
    """The event of this label; a GateError if the query has another length, or concerns other records."""
    event = account.events.get(label)
    if event is None:
        raise GateError(f"the query {label!r} is not in the plan")
    if query.coordinates != event.coordinates:
        raise GateError(f"the query {label!r} has {query.coordinates} coordinates, the plan reserved for {event.coordinates}")
    if query.draw != event.draw:
        raise GateError(f"the query {label!r} concerns other records than the plan reserved for")
    return event


def reserved_discovery(account: Account, label: str, query: LevelCounts) -> ThresholdedEvent:
    """The event of this label; a GateError if the query is more sensitive, or counts or tells levels in another way."""
    event = reserved(account, label, query)
    if (
        not isinstance(event, ThresholdedEvent)
        or exceeds_declared(query.sensitivity, event)
        or (query.contribution, query.most) != (event.contribution, event.most)
    ):
        raise GateError(f"the query {label!r} is more sensitive than the plan reserved for, or of another kind")
    return event


def exceeds_declared(sensitivity: Callable[[Adjacency], float], event: GaussianEvent | SelectionEvent | ThresholdedEvent) -> bool:
    """Whether a neighbour, or a unit that comes or goes, moves a query farther than its event declares."""
    return not (sensitivity(event.adjacency) <= event.sensitivity and sensitivity(Adjacency.ADD_REMOVE) <= event.removal_sensitivity)
