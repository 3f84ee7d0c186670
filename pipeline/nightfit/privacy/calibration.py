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
    query
        The sum of bounded contributions; its own sensitivities, of a neighbour and of a unit that comes or goes, and its draw enter the
        event.
    label
        By which the gate will be asked.
    adjacency
        Which data sets are neighbours.
    multiplier
        sigma in units of the sensitivity.
    """
    sensitivity = query.sensitivity(adjacency)
    return GaussianEvent(
        label=label,
        sensitivity=sensitivity,
        sigma=multiplier * sensitivity * ROUND_UP,
        coordinates=query.coordinates,
        adjacency=adjacency,
        draw=query.draw,
        removal=query.sensitivity(Adjacency.ADD_REMOVE),
    )


def selection_event(query: SelectionQuery, label: str, adjacency: Adjacency, chosen: int, rho: float) -> SelectionEvent:
    """Price a selection: Gumbel noise of the scale with rho = chosen sensitivity^2 / (2 scale^2).

    Parameters
    ----------
    query
        The scores; their sensitivities and draw enter the event.
    label
        By which the gate will be asked.
    adjacency
        Which data sets are neighbours.
    chosen
        How many of the largest scores are selected.
    rho
        The price.

    Raises
    ------
    ValueError
        If the query reads a Poisson sample.
    """
    if isinstance(query.draw, Sample):
        raise ValueError("a selection has no accountant for Poisson samples: use batch full or splits")
    sensitivity = query.score_sensitivity(adjacency)
    return SelectionEvent(
        label=label,
        sensitivity=sensitivity,
        scale=sensitivity * math.sqrt(chosen / (2 * rho)) * ROUND_UP,
        chosen=chosen,
        coordinates=query.coordinates,
        adjacency=adjacency,
        draw=query.draw,
        removal=query.score_sensitivity(Adjacency.ADD_REMOVE),
    )
