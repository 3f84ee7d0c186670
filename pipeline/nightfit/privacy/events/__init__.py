"""Events: what a query costs, as frozen data. One file per mechanism; its docstring is its mathematical meaning.

Contents
--------
base
    What all events share: their stored form, and that they have a price in zCDP and nowhere else unless they say so.
gaussian
    `GaussianEvent`: discrete Gaussian noise on an integer vector, of everybody, a part or a Poisson sample.
thresholded
    `ThresholdedEvent`: names of levels whose noisy counts exceed a threshold.
selection
    `SelectionEvent`: the largest scores after Gumbel noise.
smooth
    `SmoothEvent` and `SmoothGaussianEvent`: noise scaled by a smooth sensitivity.
local_reports
    `PureEvent`: reports that their owners randomised.
repeated
    `RepeatedEvent`: the best of a random number of attempts.

An event is never re-meant: its stored form is read by later versions. Imports nightfit.types and the accounting below it.
"""

from typing import Any

from nightfit.privacy.accounting.event import Event
from nightfit.privacy.events.gaussian import GaussianEvent
from nightfit.privacy.events.local_reports import PureEvent
from nightfit.privacy.events.repeated import RepeatedEvent
from nightfit.privacy.events.selection import SelectionEvent
from nightfit.privacy.events.smooth import SmoothEvent, SmoothGaussianEvent
from nightfit.privacy.events.thresholded import ThresholdedEvent
from nightfit.types import WHOLE, Adjacency, Draw, Part, Sample

__all__ = [
    "Event",
    "GaussianEvent",
    "PureEvent",
    "RepeatedEvent",
    "SelectionEvent",
    "SmoothEvent",
    "SmoothGaussianEvent",
    "ThresholdedEvent",
    "event_from_dict",
]

MECHANISMS: dict[str, Any] = {
    kind.mechanism: kind
    for kind in (GaussianEvent, ThresholdedEvent, SelectionEvent, SmoothEvent, SmoothGaussianEvent, PureEvent, RepeatedEvent)
}


def event_from_dict(stored: dict[str, Any]) -> Event:
    """Read an event's stored form.

    Parameters
    ----------
    stored
        What `Event.as_dict` returned.

    Raises
    ------
    ValueError
        If the mechanism is unknown, or a field is not allowed.
    """
    if stored.get("mechanism") not in MECHANISMS:
        raise ValueError(f"unknown mechanism {stored.get('mechanism')!r}: a newer nightfit may know it")
    fields = {name: value for name, value in stored.items() if name not in ("mechanism", "draw")}
    event: Event = MECHANISMS[stored["mechanism"]](
        **{**fields, "adjacency": Adjacency(fields["adjacency"]), "draw": _draw_from_dict(stored.get("draw"))}
    )
    return event


def _draw_from_dict(stored: dict[str, Any] | None) -> Draw:
    if stored is None:
        return WHOLE
    return Sample(**stored) if "rate" in stored else Part(**stored)
