"""Sums of gradients of scaled rows: bounded like those of any rows, in whole numbers where a norm is clipped."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nightfit.queries.boundings
from nightfit.numerics.prf import slots_of
from nightfit.plugins import members
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.l2_clip import FACTOR_BITS, L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.rows import RESOLUTION, Rows
from nightfit.records.coded_rows import Layout
from nightfit.types import Adjacency, Array, Block

BOUNDINGS = [b for examples in members(nightfit.queries.boundings).values() for b in examples]
every_bounding = pytest.mark.parametrize("bounding", [pytest.param(b, id=repr(b)) for b in BOUNDINGS])
EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 1.0, -3.0]
values = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES), st.floats())


def block(X: Array, y: Array) -> Block:
    return Block(np.ascontiguousarray(X), np.asarray(y), slots_of("file", 0, len(y)))


def scales(columns: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(centre=rng.normal(size=columns), scale=rng.uniform(0.1, 2, columns), reach=rng.uniform(1, 16, columns), level=0.3)


def query(bounding: Bounding, rows: Rows | None, weights: Array, bits: int = 36) -> GradientSum:
    return GradientSum(loss=Squared(), bounding=bounding, weights=weights, bits=bits, rows=rows)


def total(asked: GradientSum, records: Block) -> list[int]:
    return [int(step) for step in asked.finalise(asked.chunk(records))]


def squared_norm(steps: list[int]) -> int:
    return sum(step**2 for step in steps)


@pytest.mark.parametrize("columns", [1, 4, 400])
@pytest.mark.parametrize("bound", [1e-3, 1.0, 700.0])
def test_a_whole_contribution_stays_within_its_declared_norm(columns: int, bound: float) -> None:
    """And comes as close to it as a factor of so many steps can."""
    rng, rows = np.random.default_rng(columns), scales(columns)
    least = math.ceil(RESOLUTION + math.log2(columns) / 2 + FACTOR_BITS)
    for bits in (least, 40, 48):
        asked = query(L2Clip(bound=bound), rows, rng.normal(size=columns), bits)
        for X in (rng.normal(size=(1, columns)), rng.standard_cauchy((1, columns)) * 1e9, np.full((1, columns), -1e-300)):
            found = squared_norm(total(asked, block(X, np.array([1e12]))))
            assert found <= 4**bits
            assert found >= 4**bits * (1 - 32 / 2**FACTOR_BITS)  # a scale is 16 of a coordinate's steps at most


@every_bounding
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_neighbour_moves_a_query_of_scaled_rows_by_at_most_its_sensitivity(bounding: Bounding, data: st.DataObject) -> None:
    columns, bits = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([10, 30, 40]))
    raw = np.array(data.draw(st.lists(st.lists(values, min_size=columns + 1, max_size=columns + 1), min_size=4, max_size=4)))
    asked = query(bounding, scales(columns, data.draw(st.integers(0, 9))), np.full(columns, 0.5), bits)
    before, replaced, zeroed = raw[:3], raw[[3, 1, 2]], raw[:3].copy()
    zeroed[0] = 0.0
    old = total(asked, block(before[:, 1:], before[:, 0]))
    for adjacency, rows in ((Adjacency.REPLACE_ONE, replaced), (Adjacency.ZERO_OUT, zeroed), (Adjacency.ADD_REMOVE, raw[1:3])):
        new = total(asked, block(rows[:, 1:], rows[:, 0]))
        assert squared_norm([a - b for a, b in zip(old, new, strict=True)]) <= asked.sensitivity(adjacency) ** 2
    assert total(asked, block(zeroed[:, 1:], zeroed[:, 0])) == total(asked, block(raw[1:3, 1:], raw[1:3, 0]))


@every_bounding
def test_a_query_of_scaled_rows_is_the_query_of_a_scaled_record(bounding: Bounding) -> None:
    """Where norms are clipped, up to the roundings of a row and of its factor, which are one in 2^16 and half of a norm in steps."""
    rng, columns, bits = np.random.default_rng(1), 5, 40
    records, rows = block(rng.normal(size=(60, columns)), rng.normal(size=60)), scales(columns)
    scaled, weights = rows.scaled(records), rng.normal(size=columns) / 4
    found, expected = (
        np.array(total(query(bounding, *of), one)) for of, one in ((((rows, weights, bits)), records), ((None, weights, bits), scaled))
    )
    formulas = bounding.formulas(columns, bits)
    if formulas is None or formulas.whole is None:
        assert found.tolist() == expected.tolist()
        return
    norms = np.linalg.norm(scaled.X, axis=1)
    rounding = 2**RESOLUTION * norms.sum() / 2 + len(norms) * 2.0 ** (bits - RESOLUTION) * columns * (1 + norms.max())
    assert 0 < np.linalg.norm(found - expected) <= rounding


def test_a_grid_too_coarse_for_whole_factors_keeps_the_old_contribution() -> None:
    clip = L2Clip(bound=1.0)
    assert clip.formulas(4, RESOLUTION + 1 + FACTOR_BITS).whole is not None
    assert clip.formulas(4, RESOLUTION + FACTOR_BITS).whole is None


def test_codes_without_numbers_and_rows_without_levels_are_those_of_dense_rows() -> None:
    layout, rng = Layout(7, ((0, 3), (3, 4))), np.random.default_rng(2)
    X = np.zeros((50, 7))
    X[np.arange(50), rng.integers(0, 3, 50)] = 1.0
    X[np.arange(50), 3 + rng.integers(0, 4, 50)] = 1.0
    X[::7] = 0.0
    X[3::7, :3] = 0.0
    rows = replace(scales(7), centre=np.full(7, 0.25), scale=np.full(7, 0.5))
    asked, dense = query(L2Clip(bound=0.5), rows, rng.integers(-9, 9, 7) / 64), block(X, rng.integers(-4, 4, 50) / 4)
    assert total(asked, layout.coded(dense)) == total(asked, dense)  # type: ignore[arg-type]
    assert squared_norm(total(asked, dense)) > 0


def test_who_owns_one_row_of_many_is_a_person_in_every_block() -> None:
    """Which contribution is made depends on the unit, never on how many rows persons have: theirs would change with a neighbour's."""
    rng, columns = np.random.default_rng(3), 3
    asked = query(L2Clip(bound=1.0), scales(columns), np.ones(columns))
    alone = block(rng.normal(size=(4, columns)), rng.normal(size=4))
    single = replace(alone, starts=np.arange(5))
    double = replace(alone, slots=alone.slots[[0, 1, 2, 2]], starts=np.array([0, 1, 2, 4]))
    first = replace(alone, X=alone.X[:2], y=alone.y[:2], slots=alone.slots[:2], starts=np.arange(3))
    others = [np.array(total(asked, one)) - np.array(total(asked, rest)) for one, rest in (
        (single, replace(single, X=single.X[2:], y=single.y[2:], slots=single.slots[2:], starts=np.arange(3))),
        (double, replace(double, X=double.X[2:], y=double.y[2:], slots=double.slots[2:], starts=np.array([0, 2]))),
    )]  # fmt: skip
    assert others[0].tolist() == others[1].tolist() == total(asked, first)
