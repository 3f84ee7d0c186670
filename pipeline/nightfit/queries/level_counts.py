"""How many units have each level of a column, where the levels themselves are secret. Imports base, numerics and types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nightfit.queries.base import root_up
from nightfit.types import WHOLE, Adjacency, Draw, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelCounts:
    """For each level of a column the number of units that have it, one count being 2^bits steps.

    The vector has a coordinate for every text that there is, all but a few of them zero. So its length is public and its support is not:
    the gate adds noise to the levels that occur and tells those above a threshold (ALGORITHMS 18.4).

    Guarantee: a unit counts once in each of at most `per_unit` levels, so it alone is at most sqrt(per_unit) counts from zero. Two such
    vectors have no negative entry, so their squared distance is at most 2 per_unit: the sensitivity is
    sqrt(contributions_changed per_unit) counts, and two neighbours differ in at most 2 per_unit coordinates. Broken by
    test_a_neighbour_moves_the_counts_of_levels_by_at_most_the_sensitivity.

    Parameters
    ----------
    column : str
        Whose levels are counted.
    per_unit : int
        In how many levels a unit counts at most: 1 of a record.
    most : int
        How many levels are told at most.
    bits : int
        One count is 2^bits steps.
    """

    column: str
    per_unit: int
    most: int
    bits: int
    draw: Draw = WHOLE

    @property
    def coordinates(self) -> int:
        """In which two neighbours may differ: what noise on a lattice costs does not grow with coordinates that are the same in both."""
        return 2 * self.per_unit

    @property
    def contribution(self) -> int:
        """What a unit adds to a level, in steps."""
        return 2**self.bits

    def sensitivity(self, adjacency: Adjacency) -> float:
        return root_up(adjacency.contributions_changed * self.per_unit) * self.contribution

    def steps(self, counts: Mapping[str, int]) -> tuple[tuple[str, ...], Integers]:
        """The levels that occur, sorted, so that nothing tells in which order they were found; and their counts in steps."""
        levels = tuple(sorted(counts))
        return levels, np.array([counts[level] for level in levels], dtype=np.int64) * self.contribution


def largest_above(levels: Sequence[str], noisy: Integers, threshold: int, most: int) -> tuple[str, ...]:
    """The levels above the threshold, at most `most` of the largest, sorted by name: post-processing of noisy counts."""
    above = np.flatnonzero(noisy > threshold)
    kept = above[np.argsort(-noisy[above], kind="stable")[:most]]
    return tuple(sorted(levels[place] for place in kept))


def packed(levels: Sequence[str]) -> Integers:
    """Levels as integers, as an answer is stored: how many bytes each has in UTF-8, then these."""
    coded = [level.encode() for level in levels]
    return np.array([number for text in coded for number in (len(text), *text)], dtype=np.int64)


def unpacked(stored: Integers) -> tuple[str, ...]:
    """The levels that `packed` stored."""
    found, at = [], 0
    while at < len(stored):
        stop = at + 1 + int(stored[at])
        found.append(bytes(stored[at + 1 : stop].astype(np.uint8)).decode())
        at = stop
    return tuple(found)
