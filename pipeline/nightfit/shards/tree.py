"""When and how workers add the sums of a query to each other before one comes to the driver. Imports queries."""

from collections.abc import Callable, Sequence
from typing import Any

from nightfit.queries.base import Query

DRIVER_BYTES = 2**26  # of workers' sums that come to the driver at once: more are added on the workers first
FAN_IN = 8  # sums that one task adds: a worker holds so many, and 4,096 of them meet in four levels


def reduced_on_workers(query: Query, parts: int) -> bool:
    """Whether so many parts of a query's sums are added on the workers before any comes to the driver."""
    return parts > 1 and parts * query.coordinates * 8 > DRIVER_BYTES


def reduced(query: Query, parts: list[Any], add: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """The parts, or fewer of all their integers, added by a tree of tasks until the driver may hold what is left.

    Guarantee: integers merge in any order, so the answer does not depend on the tree. Broken by
    test_sums_that_are_added_on_the_workers_are_the_same_integers and
    test_sums_of_dask_arrays_are_added_by_a_tree_to_the_same_integers.

    Parameters
    ----------
    query : Query
        What was asked.
    parts : list
        A task, or the future of one, for each part.
    add : callable
        The task that adds some parts.
    """
    while reduced_on_workers(query, len(parts)):
        parts = [add(parts[first : first + FAN_IN]) for first in range(0, len(parts), FAN_IN)]
    return parts
