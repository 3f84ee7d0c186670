"""Take the rows of many later draws in one reading and keep them as small blocks, from which each step is answered. Imports packages below.

A step on a Poisson sample or on a disjoint part needs few rows, and finding them reads all. The plan says in advance which draws its
queries will make, so one reading takes the rows of as many of them as there is room for.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nightfit.numerics.prf import members
from nightfit.records.coded_rows import StagedBlock
from nightfit.shards.grouping import concatenate
from nightfit.types import WHOLE, Draw, Part

MOST_DRAWS = 1024  # in one reading: each is a block of its own on every worker


@dataclass(frozen=True, slots=True)
class UpcomingDraws:
    """The draws of a plan's queries in their order, and the run's key, which decides who is in them."""

    key: bytes = field(repr=False)
    draws: tuple[Draw, ...]

    @property
    def disjoint(self) -> bool:
        """Whether there are several draws and no record is in two of them: together they have no more rows than the data."""
        parts = sorted({(draw.low, draw.high) if isinstance(draw, Part) else (0, 2**32) for draw in self.draws})
        return 1 < len(parts) <= MOST_DRAWS and all(high <= low for (_, high), (low, _) in itertools.pairwise(parts))

    def starting_with(self, draw: Draw, room: float) -> tuple[Draw, ...]:
        """This draw and the next ones, each once, as long as their fractions of the records add up to at most `room`."""
        if draw not in self.draws:
            return ()
        later = dict.fromkeys(self.draws[self.draws.index(draw) :])
        filled = itertools.accumulate(one.fraction for one in later)
        found = itertools.takewhile(lambda pair: pair[0] != WHOLE and pair[1] <= room, zip(later, filled, strict=True))
        return tuple(one for one, _ in itertools.islice(found, MOST_DRAWS))


@dataclass(frozen=True, slots=True)
class PrefetchedRows:
    """The rows of some chunks that some draws take, by draw. `numbers` are the chunks' numbers."""

    numbers: tuple[int, ...]
    by_draw: dict[Draw, StagedBlock]

    def blocks(self, draw: Draw) -> Iterator[StagedBlock]:
        """The rows of one draw."""
        yield self.by_draw[draw]

    def __sizeof__(self) -> int:
        """Bytes of the rows, by which Dask judges a transfer."""
        return sum(int(array.nbytes) for block in self.by_draw.values() for array in block.arrays)


def prefetch(numbers: Sequence[int], blocks: Iterable[StagedBlock], wanted: UpcomingDraws) -> PrefetchedRows:
    """Every row of the blocks, once for each wanted draw that takes it.

    Guarantee: a query finds its draw's rows among these exactly as it would among all rows, because who is drawn is a function of
    (key, draw, slot); so its integers are the same. Broken by test_steps_on_draws_read_the_rows_together_and_give_the_same_integers.
    """
    pieces: dict[Draw, list[StagedBlock]] = {draw: [] for draw in wanted.draws}
    for block in blocks:
        for draw, chosen in zip(wanted.draws, members(wanted.key, wanted.draws, block.slots), strict=True):
            pieces[draw].append(block.select_units(chosen))
    return PrefetchedRows(tuple(numbers), {draw: concatenate(pieces.pop(draw)) for draw in wanted.draws})
