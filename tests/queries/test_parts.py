"""Queries of one part: what the others say changes nothing, and a unit that changes its part pays as declared."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nightfit.numerics.prf import groups_of, members_of
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import GroupedQuery
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.parts import Division, GroupedOfPart, OfPart, draw_within, of_part
from nightfit.types import WHOLE, Adjacency, Block, Part, Sample, parts_of, runs_of

KEY = b"0123456789abcdef"
FIT, REST = Part(0, 3_435_973_837), Part(3_435_973_837, 2**32)
QUERY = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.array([0.5, -0.25]), bits=30)


class Medians:
    """A grouped query of sums: one number for each of four groups."""

    draw, coordinates, smoothness, grid, blocks, reads_codes = WHOLE, 4, 0.1, 1.0, 4, False

    def block_of(self, slots):
        return groups_of(KEY[::-1], 4, slots)

    def chunk(self, block):
        return np.bincount(self.block_of(block.slots), np.rint(1000 * block.y), 4).astype(np.int64)

    def merge(self, one, other):
        return one + other

    def finalise(self, total):
        return total.astype(float), np.ones(4)


def rows(seed=0, count=400, person=False):
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-1, 1, (count, 2)), rng.normal(size=count)
    slots = np.sort(rng.integers(0, 2**63, count // 4)).astype(np.uint64).repeat(4) if person else np.arange(count, dtype=np.uint64)
    return Block(X, y, slots, runs_of(slots) if person else None)


@pytest.mark.parametrize("person", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("query", [QUERY, Medians()], ids=["sum", "grouped"])
def test_units_outside_of_the_part_change_nothing(query, person):
    block = rows(person=person)
    inside = members_of(KEY, FIT, block.slots)
    assert 0.7 < inside.mean() < 0.9
    other = replace(block, X=np.where(inside[:, None], block.X, 7.0), y=np.where(inside, block.y, np.nan))
    asked = of_part(query, Division(part=FIT, key=KEY))
    assert asked.chunk(block).tolist() == asked.chunk(other).tolist() != query.chunk(block).tolist()
    alone = block.select_units(inside)
    assert asked.chunk(block).tolist() == query.chunk(alone).tolist()
    assert asked.draw == FIT
    rest = of_part(query, Division(part=REST, key=KEY))
    assert (asked.chunk(block) + rest.chunk(block)).tolist() == query.chunk(block).tolist()


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_unit_that_changes_its_part_moves_both_queries_like_one_that_comes_or_goes(adjacency):
    asked = [of_part(QUERY, Division(part=part, key=KEY)) for part in (FIT, REST)]
    slots = np.arange(1000, dtype=np.uint64)
    here, there = (slots[members_of(KEY, part, slots)][0] for part in (FIT, REST))
    blocks = [Block(np.ones((1, 2)), np.array([y]), np.array([slot], dtype=np.uint64)) for y, slot in ((9.0, here), (-9.0, there))]
    for query in asked:
        moved = np.abs(query.chunk(blocks[0]) - query.chunk(blocks[1])).astype(float)
        assert np.sqrt((moved**2).sum()) <= query.sensitivity(Adjacency.ADD_REMOVE)
        assert np.sqrt((moved**2).sum()) >= 0.999 * query.sensitivity(Adjacency.ADD_REMOVE)
        assert query.sensitivity(adjacency) == QUERY.sensitivity(adjacency)


def test_a_draw_of_a_part_is_the_same_share_of_it_and_no_two_overlap():
    assert draw_within(FIT, WHOLE) == FIT
    made = [draw_within(FIT, part) for part in parts_of(7)]
    assert (made[0].low, made[-1].high) == (FIT.low, FIT.high)
    assert all(one.high == other.low for one, other in itertools.pairwise(made))
    with pytest.raises(ValueError, match="no accountant"):
        draw_within(FIT, Sample(0.1, 0))


def test_rows_whose_owners_are_unknown_belong_to_no_part():
    block = rows()
    with pytest.raises(ValueError, match="have none"):
        of_part(QUERY, Division(part=FIT, key=KEY)).chunk(replace(block, slots=np.empty(0, dtype=np.uint64)))


def test_a_query_on_groups_stays_one():
    assert isinstance(of_part(Medians(), Division(part=FIT, key=KEY)), GroupedQuery)
    assert type(of_part(QUERY, Division(part=FIT, key=KEY))) is OfPart
    assert not isinstance(of_part(QUERY, Division(part=FIT, key=KEY)), GroupedQuery)
    assert issubclass(GroupedOfPart, OfPart)
    assert of_part(QUERY, None) is QUERY
    assert "0123456789" not in repr(Division(part=FIT, key=KEY))
