"""Queries of one part of a data set, which a key that outlives the run divides. Imports around, prf and below."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from nightfit.numerics.prf import members_of
from nightfit.queries.around import Around, AroundGroups
from nightfit.queries.base import GroupedQuery
from nightfit.records.coded_rows import StagedBlock
from nightfit.types import WHOLE, Draw, Integers, Part, Sample

Q = TypeVar("Q")


@dataclass(frozen=True, kw_only=True, slots=True)
class Division:
    """The units that a query may see: those whose keyed hash lies in `part`.

    Parameters
    ----------
    part : Part
        Parts that do not overlap share no unit under one key.
    key : bytes
        Of the data set, for its life: a unit stays in its part, whatever the run.
    """

    part: Part
    key: bytes = field(repr=False)

    def select(self, block: StagedBlock) -> StagedBlock:
        """The block with the units of the part only.

        Raises
        ------
        ValueError
            If the rows have no slots: who they are cannot be told, and nobody may be taken for a member.
        """
        if len(block.slots) != len(block):
            raise ValueError("a part is a function of slots, and these rows have none")
        held = members_of(self.key, self.part, block.slots)
        return block if held.all() else block.select_units(held)


def draw_within(part: Part, draw: Draw) -> Part:
    """The interval of a draw inside a part: everybody is the part itself, and [low, high) is the same share of it.

    A unit of the part has one place in every further division, so intervals that did not overlap do not overlap here, and none
    overlaps another part.

    Raises
    ------
    ValueError
        For a Poisson sample, which is no interval.
    """
    if isinstance(draw, Sample):
        raise ValueError("a Poisson sample of a part has no accountant here: use batch full or splits, or `evaluate: none`")
    if draw == WHOLE:
        return part
    width = part.high - part.low
    return Part(part.low + width * draw.low // 2**32, part.low + width * draw.high // 2**32)


@dataclass(frozen=True, kw_only=True)
class OfPart(Around):
    """Any query, of the units of one part.

    Guarantee: units outside of the part add nothing, whatever they say. A unit that is replaced inside it moves the query as it does
    everywhere, and one that leaves or joins the part moves it like one that comes or goes, so the sensitivities are those of the query
    inside. Broken by test_units_outside_of_the_part_change_nothing and
    test_a_unit_that_changes_its_part_moves_both_queries_like_one_that_comes_or_goes.

    Parameters
    ----------
    query
        The query of any kind that is asked of the part.
    division
        Which part.
    """

    division: Division

    @property
    def draw(self) -> Draw:
        return draw_within(self.division.part, self.query.draw)

    def chunk(self, block: StagedBlock) -> Integers:
        answer: Integers = self.query.chunk(self.division.select(block))
        return answer


@dataclass(frozen=True, kw_only=True)
class GroupedOfPart(OfPart, AroundGroups):
    """A query on groups of records, of the units of one part.

    Guarantee: that of OfPart; a unit's group is that of the query inside. Broken by test_units_outside_of_the_part_change_nothing.
    """


def of_part(query: Q, division: Division | None) -> Q:
    """The query of the part; the query itself where nothing is divided."""
    if division is None:
        return query
    made: Any = (GroupedOfPart if isinstance(query, GroupedQuery) else OfPart)(query=query, division=division)
    return made


def inside_of(query: Any) -> tuple[Division | None, Any]:
    """What `of_part` was given: the division, None where nothing is divided, and the query inside."""
    return (query.division, query.query) if isinstance(query, OfPart) else (None, query)
