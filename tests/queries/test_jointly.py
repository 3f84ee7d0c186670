"""Queries of several models in one reading: each has the integers that it has alone."""

import pickle
from typing import Any

import numpy as np
import pytest

from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import GroupedQuery
from nightfit.queries.histograms import Histogram
from nightfit.queries.jointly import OfModel, jointly
from nightfit.queries.magnitudes import RESIDUAL_GRID, Residual
from nightfit.queries.one_target import OneTarget, of_model, target_of
from nightfit.queries.parts import Division, of_part
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.whitened_gradients import WhitenedGradient
from nightfit.types import WHOLE, Block, Part

KEY = b"0123456789abcdef"
FIT, HELD_OUT = (Division(part=part, key=KEY) for part in (Part(0, 3 * 2**30), Part(3 * 2**30, 2**32)))


class Signs(Squared):
    """A loss whose slope is a number even where the target is none."""

    def slope(self, y: Any, z: Any) -> Any:
        return np.where(z > y, 1.0, -1.0)


LOSSES = (Squared(), Logistic(), Signs())


def block(rows: int = 3000) -> Block:
    """Rows of three models, each without a third of the targets; some rows are null, and one value is not a number."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(rows, 3))
    y = rng.normal(size=(rows, 3))
    y[:, 1] = np.sign(y[:, 1])
    y[rng.random((rows, 3)) < 1 / 3] = np.nan
    X[::50], y[::50] = 0.0, np.where(np.isnan(y[::50]), np.nan, 0.0)
    X[7, 1] = np.nan
    return Block(X, y, rng.integers(0, 2**63, rows).astype(np.uint64))


def gradient(number: int, *, bits: int = 40, present: tuple[int, ...] = ()) -> WhitenedGradient:
    rng = np.random.default_rng(1)
    rows = Rows(centre=np.array([0.1, 0.0, -0.2]), scale=np.array([1.0, 2.0, 0.5]), reach=np.full(3, 8.0))
    rotation = Rotation.of(rng.normal(size=(3, 3)))
    weights = np.random.default_rng(number).normal(size=3)
    return WhitenedGradient(
        rows=rows, rotation=rotation, loss=LOSSES[number], weights=weights, clip=1.0 + number, cap=1.5, bits=bits, present=present
    )


def queries() -> list[OfModel]:
    residual = Histogram(measure=Residual(rows=gradient(0).rows, loss=Squared(), weights=np.ones(3)), log_grid=RESIDUAL_GRID, bits=30)
    return [
        *(OfModel(query=of_part(gradient(number), FIT), place=number) for number in range(3)),
        OfModel(query=of_part(gradient(0), HELD_OUT), place=0),
        OfModel(query=of_part(residual, FIT), place=2),
        OfModel(query=gradient(1, bits=30), place=1),
        OfModel(query=gradient(2, bits=30, present=(1,)), place=2),
        OfModel(query=gradient(0, bits=30), place=0),
        OfModel(query=gradient(2, bits=38), place=2),
    ]


@pytest.mark.unit
def test_queries_that_are_asked_jointly_have_the_integers_that_they_have_alone() -> None:
    rows, asked = block(), queries()
    alone = [OneTarget(query=one.query, place=one.place).chunk(rows) for one in asked]
    together = jointly(asked)
    for found, wanted in zip(together.chunk(rows), alone, strict=True):
        assert found.tolist() == wanted.tolist()
        assert any(wanted)
    halves = [Block(rows.X[half], rows.y[half], rows.slots[half]) for half in (slice(0, 900), slice(900, None))]
    merged = together.merge(*map(together.chunk, halves))
    assert [found.tolist() for found in merged] == [wanted.tolist() for wanted in alone]
    assert together.coordinates == sum(one.query.coordinates for one in asked)


def test_rows_of_persons_are_those_of_each_model() -> None:
    rows = block()
    persons = Block(rows.X, rows.y, np.arange(1000, dtype=np.uint64).repeat(3), np.arange(0, 3001, 3))
    alone = [OneTarget(query=one.query, place=one.place).chunk(persons) for one in queries()]
    assert [found.tolist() for found in jointly(queries()).chunk(persons)] == [wanted.tolist() for wanted in alone]


def test_a_message_carries_what_queries_share_once() -> None:
    def wide(number: int) -> OfModel:
        rows = Rows(centre=np.zeros(300), scale=np.ones(300), reach=np.full(300, 8.0))
        rotation = Rotation.of(np.eye(300))
        one = WhitenedGradient(rows=rows, rotation=rotation, loss=Squared(), weights=np.ones(300), clip=1.0, cap=1.0, bits=30)
        return OfModel(query=of_part(one, FIT), place=number)

    message = len(pickle.dumps(jointly([wide(number) for number in range(5)])))
    assert message < 1.1 * len(pickle.dumps(wide(0))) + 5 * 20_000


def test_a_query_that_needs_no_target_shares_no_work_that_asks_for_one() -> None:
    rows = block()
    asked = [OfModel(query=gradient(0), place=None), OfModel(query=gradient(0), place=0)]
    alone = [OneTarget(query=one.query, place=one.place).chunk(rows).tolist() for one in asked]
    assert [found.tolist() for found in jointly(asked).chunk(rows)] == alone
    with pytest.raises(ValueError, match="there is none to choose"):
        target_of(None, rows)


@pytest.mark.unit
def test_groups_of_one_model_s_rows_are_whole() -> None:
    class Grouped:
        draw, coordinates, blocks, reads_codes = WHOLE, 1, 4, False

        def block_of(self, slots: Any) -> Any:
            return slots % 4

        def chunk(self, rows: Block) -> Any:
            return np.array([len(np.unique(self.block_of(rows.slots)))])

        def merge(self, one: Any, other: Any) -> Any:
            return one + other

    asked = of_model(Grouped(), 1)
    assert isinstance(asked, GroupedQuery)
    assert (asked.blocks, asked.block_of(np.arange(3)).tolist()) == (4, [0, 1, 2])
    assert not isinstance(of_model(gradient(0), 1), GroupedQuery)
