"""The rows of many later draws, taken in one reading and kept as small blocks, from which each step is answered. Imports rooms below.

A step on a Poisson sample or on a disjoint part needs few rows, and finding them reads all. The plan says in advance which draws its
questions will make, so one reading takes the rows of as many of them as there is room for.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nightfit.numerics.prf import members
from nightfit.shards.merging import joined
from nightfit.types import WHOLE, Block, Draw, Part

MOST_DRAWS = 1024


@dataclass(frozen=True, slots=True)
class Ahead:
    """The draws of a plan's questions in their order, and the run's key, which decides who is in them."""

    key: bytes = field(repr=False)
    draws: tuple[Draw, ...]

    @property
    def disjoint(self) -> bool:
        """Whether there are several draws, of which every record is in one at most: together they are no more than the records."""
        parts = sorted({(draw.low, draw.high) if isinstance(draw, Part) else (0, 2**32) for draw in self.draws})
        return 1 < len(parts) <= MOST_DRAWS and all(high <= low for (_, high), (low, _) in itertools.pairwise(parts))

    def upcoming(self, draw: Draw, room: float) -> tuple[Draw, ...]:
        """This draw and the next ones, each once, as long as their fractions of the records add to no more than `room`."""
        if draw not in self.draws:
            return ()
        later = dict.fromkeys(self.draws[self.draws.index(draw) :])
        filled = itertools.accumulate(one.fraction for one in later)
        found = itertools.takewhile(lambda pair: pair[0] != WHOLE and pair[1] <= room, zip(later, filled, strict=True))
        return tuple(one for one, _ in itertools.islice(found, MOST_DRAWS))


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows of some chunks that some draws take."""

    numbers: tuple[int, ...]
    held: dict[Draw, Block]

    def blocks(self, draw: Draw) -> Iterator[Block]:
        yield self.held[draw]

    def __sizeof__(self) -> int:
        """What Dask judges a transfer by."""
        return sum(block.X.nbytes + block.y.nbytes + block.slots.nbytes for block in self.held.values())


def taken(numbers: Sequence[int], parts: Iterable[Block], wanted: Ahead) -> Drawn:
    """Every row of the parts, once for each wanted draw that takes it.

    Guarantee: a question finds its draw's rows among these exactly as it would among all rows, because who is drawn is a function of
    (key, draw, slot); so its integers are the same. Broken by test_steps_on_draws_read_the_rows_together_and_give_the_same_integers.
    """
    pieces: dict[Draw, list[Block]] = {draw: [] for draw in wanted.draws}
    for block in parts:
        for draw, chosen in zip(wanted.draws, members(wanted.key, wanted.draws, block.slots), strict=True):
            pieces[draw].append(block.select_units(chosen))
    return Drawn(tuple(numbers), {draw: joined(pieces.pop(draw)) for draw in wanted.draws})
