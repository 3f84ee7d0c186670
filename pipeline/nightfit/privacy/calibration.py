"""The one builder of events: from a query's sensitivity and a price to the scale of its noise. Imports events, queries and types."""

import math

from nightfit.privacy.events import GaussianEvent, SelectionEvent
from nightfit.queries.base import SelectionQuery, SumQuery
from nightfit.types import Adjacency, Sample

ROUND_UP = 1 + 1e-12  # more than the roundings of the products below, so that no scale of noise is rounded down


def gaussian_event(query: SumQuery, label: str, adjacency: Adjacency, multiplier: float) -> GaussianEvent:
    """Price a sum: Gaussian noise of sigma = multiplier sensitivities, hence mu = 1 / multiplier.

    Parameters
    ----------
    query : the sum of bounded contributions; its own sensitivity and draw enter the event.
    label : what the gate will be asked by.
    adjacency : which data sets are neighbours.
    multiplier : sigma in units of the sensitivity.
    """
    sensitivity = query.sensitivity(adjacency)
    return GaussianEvent(
        label=label,
        sensitivity=sensitivity,
        sigma=multiplier * sensitivity * ROUND_UP,
        coordinates=query.coordinates,
        adjacency=adjacency,
        draw=query.draw,
    )


def selection_event(choice: SelectionQuery, label: str, adjacency: Adjacency, chosen: int, rho: float) -> SelectionEvent:
    """Price the choice of the `chosen` largest scores at rho = chosen reach^2 / (2 scale^2), by Gumbel noise of that scale."""
    if isinstance(choice.draw, Sample):
        raise ValueError("a choice among scores has no accountant for Poisson samples: use batch full or splits")
    reach = choice.score_sensitivity(adjacency)
    return SelectionEvent(
        label=label,
        sensitivity=reach,
        scale=reach * math.sqrt(chosen / (2 * rho)) * ROUND_UP,
        chosen=chosen,
        coordinates=choice.coordinates,
        adjacency=adjacency,
        draw=choice.draw,
    )
