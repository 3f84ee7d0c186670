"""The protocols of queries: exact integer sums of bounded contributions, with their sensitivity. Imports numerics and types.

A query is a function of the records whose sensitivity is proved. It sees neither budget, cluster nor method. The proof is the
`Guarantee:` paragraph of the query's class; the table in `nightfit.queries` lists every query with the tests that break if the proof
is false.
"""

import functools
import math
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from nightfit.numerics.prf import Slots, members_of
from nightfit.records.coded_rows import StagedBlock
from nightfit.types import WHOLE, Adjacency, Array, Draw, Integers

SUM_BITS = 61
"""A sum of contributions stays below 2^61 steps: the noise, at most 2^57 a standard deviation, then fits in int64 with it."""

LEAST_BITS = 8
"""Coarsest grid: a contribution of 2^8 steps. Rounding it costs at most 0.2% of its bound; a coarser one would be visible."""

MOST_BITS_OF_A_SUM = 40
"""Finest grid. A rounding error of 2^-40 of the bound is below any noise, and 2^40 steps times a row's share are exact in float64."""

SMOOTHNESS_SLACK = 1e-12
"""Taken off the smoothness before a smooth bound is computed: more than the relative rounding error of its exponentials."""


B = TypeVar("B", bound=StagedBlock)


class Query(Protocol):
    """What every query has: integers of each chunk, which merge in any order and grouping."""

    @property
    def draw(self) -> Draw:
        """The records that take part: all, a disjoint part, or a Poisson sample."""

    @property
    def coordinates(self) -> int:
        """The length of the finished vector."""

    @property
    def reads_codes(self) -> bool:
        """Whether `chunk` takes rows of numbers and codes as well as dense ones."""

    def chunk(self, block: Any) -> Integers:
        """The integers of one block: of dense rows, or of what `reads_codes` says."""

    def merge(self, one: Integers, other: Integers) -> Integers:
        """The integers of two disjoint sets of records together."""


class SumQuery(Query, Protocol):
    """A sum of bounded contributions, to which Gaussian noise is added."""

    @property
    def grid(self) -> float:
        """The value of one step."""

    def sensitivity(self, adjacency: Adjacency) -> float:
        """The largest l2 distance, in steps, between the finished vectors of two neighbours, rounded up."""

    def divisor(self, units: int) -> float:
        """The public constant that turns the finished vector into a mean over `units`."""

    def finalise(self, total: Integers) -> Integers:
        """The vector that noise is added to, from the integers of all chunks."""


class SelectionQuery(Query, Protocol):
    """Scores of which the gate releases the indices of the largest, never the values."""

    def score_sensitivity(self, adjacency: Adjacency) -> float:
        """The largest change of any one score, in steps, between two neighbours."""

    def finalise(self, total: Integers) -> Integers:
        """The scores."""


class SmoothQuery(Query, Protocol):
    """Numbers whose noise follows the data, within a smooth bound of their local sensitivity."""

    @property
    def smoothness(self) -> float:
        """Between neighbours the bound changes by a factor of at most e^smoothness."""

    @property
    def grid(self) -> float:
        """The public step that the noisy numbers are rounded to."""

    def finalise(self, total: Integers) -> tuple[Array, Array]:
        """The numbers and, for each, the smooth bound: at least its distance to any neighbour's number, seen from either side."""


@runtime_checkable
class GroupedQuery(Query, Protocol):
    """A query on groups of records: a chunk must hold all records of every group that it holds any of, in any order."""

    @property
    def blocks(self) -> int:
        """The number of groups."""

    def block_of(self, slots: Slots) -> Integers:
        """Each slot's group, from 0: a function of slots and the run's key alone."""


class Summed:
    """Base of queries whose chunks' integers add."""

    reads_codes: ClassVar[bool] = False

    def merge(self, one: Integers, other: Integers) -> Integers:
        return one + other


class PlainSum(Summed):
    """Base of queries whose sum is itself the vector that noise is added to."""

    def finalise(self, total: Integers) -> Integers:
        return total


def chunk_of(query: Query, block: StagedBlock) -> Integers:
    """The query's integers of staged rows, which are made dense a piece at a time for a query that does not read codes.

    Guarantee: integers of any pieces merge to those of the whole, so they are those of the dense block. Broken by
    test_every_query_of_coded_rows_is_that_of_dense_ones.
    """
    if query.reads_codes:
        return query.chunk(block)
    return functools.reduce(query.merge, (query.chunk(piece) for _, piece in block.pieces()))


def drawn_of(block: B, key: bytes, draw: Draw) -> B:
    """The block with only the units that a draw selects.

    Parameters
    ----------
    block : Block or CodedBlock
        Rows of one chunk.
    key : bytes
        The run's key: who is drawn depends on it and on slots alone.
    draw : Part or Sample
        What is drawn.

    Returns
    -------
    Block or CodedBlock
        All rows of the selected units.
    """
    drawn: Any = block if draw == WHOLE else block.select_units(members_of(key, draw, block.slots))
    return cast(B, drawn)


def bits_for(rows: int, ceiling: int = MOST_BITS_OF_A_SUM) -> int:
    """The finest grid on which a sum over `rows` contributions cannot overflow: rows 2^bits < 2^61.

    Parameters
    ----------
    rows : int
        The largest number of contributions.
    ceiling : int
        The finest grid that is wanted.

    Returns
    -------
    int
        The exponent b of a contribution's bound, which is 2^b steps.

    Raises
    ------
    ValueError
        If fewer than 8 bits are left.

    Examples
    --------
    >>> bits_for(20_000)
    40
    >>> bits_for(2**40)
    20
    """
    bits = min(ceiling, SUM_BITS - max(1, rows).bit_length())
    if bits < LEAST_BITS:
        raise ValueError(f"{rows} rows leave fewer than {LEAST_BITS} bits for a contribution: split the data set")
    return bits


def root_up(number: float) -> float:
    """sqrt(number), rounded up: a sensitivity must never be rounded down."""
    return math.nextafter(math.sqrt(number), math.inf)


def sum_of_shares(shares: Array, present: npt.NDArray[np.bool_] | np.bool_, most: Integers) -> int:
    """The sum of round(shares_i most_i) over the rows that are present and whose share, in [-1, 1], is a number."""
    kept = np.where(present & ~np.isnan(shares), shares, 0.0)
    return int(np.rint(kept * most).astype(np.int64).sum())
