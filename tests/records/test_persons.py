"""Persons as units: whatever the rows of one person are, wherever they lie, they move an answer by one bounded contribution."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from distributed import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nightfit.queries.boundings
from nightfit.methods.auto.calibration import calibration_cap
from nightfit.numerics.prf import Buckets, groups_of, members_of
from nightfit.plugins import members
from nightfit.problem.losses import Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.l2 import L2
from nightfit.queries.base import SumQuery
from nightfit.queries.block_minimisers import BlockMinimisers
from nightfit.queries.boundings import Bounding
from nightfit.queries.boundings.ball import Ball
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.calibration import Calibration
from nightfit.queries.class_residuals import MeanClassResidual
from nightfit.queries.column_subset import ChosenColumns
from nightfit.queries.gradient_sums import GradientSum, Groups, Magnitudes, Vertices
from nightfit.queries.histograms import BucketCounts, Histogram
from nightfit.queries.inside_means import InsideMean
from nightfit.queries.magnitudes import ColumnMagnitudes, ColumnSpreads, LogGrid, Norm, Residual, SignedResidual
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import SecondMoment, matrix_of
from nightfit.queries.trimmed_gradients import TrimmedGradients
from nightfit.queries.whitened_gradients import GradientAndMoment, MeanResidual, WhitenedGradient
from nightfit.records.persons import UNUSABLE, PersonRows, as_block, group_by_person, range_index
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards import placement
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.types import WHOLE, Adjacency, Array, Block, Integers, Part, Sample

Write = Callable[..., Path]
Person = tuple[int, Array, Array]  # slot, raw features (rows x features), raw targets

BOUNDINGS = [b for examples in members(nightfit.queries.boundings).values() for b in examples]
every_bounding = pytest.mark.parametrize("bounding", [pytest.param(b, id=repr(b)) for b in BOUNDINGS])
EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.7e-162, -0.0, 0.0, 1.0, -1.0, 2.0]
values = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES), st.floats())
LOSSES = (Squared(), Huber(), Logistic(), Hinge(), Columns())
KEY = bytes(range(16))
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


def shape_of(features: int, *, most: int = 4, **said: Any) -> Preprocessing:
    usual = {"intercept": False, "unit": "patient", "rows_per_unit": most}
    return Preprocessing(
        features=tuple(f"x{j}" for j in range(features)), target="y", centre=(0.0,) * features, scale=(1.0,) * features, **{**usual, **said}
    )


def loose_of(shape: Preprocessing, everyone: Sequence[Person]) -> PersonRows:
    """All rows of these persons, mixed as rows in files are."""
    raw = np.concatenate([X for _, X, _ in everyone])
    target = np.concatenate([y for _, _, y in everyone])
    slots = np.concatenate([np.full(len(y), slot, dtype=np.uint64) for slot, _, y in everyone])
    order = np.random.default_rng(len(raw)).permutation(len(raw))
    return shape.person_rows(raw[order], target[order], slots[order])


def block_of(shape: Preprocessing, everyone: Sequence[Person]) -> Block:
    return as_block(group_by_person([loose_of(shape, everyone)], shape.rows_per_unit))


def exact(query: Any, block: Block) -> list[int]:
    return [int(value) for value in np.ravel(query.finalise(query.chunk(block)))]


def squared_distance(a: list[int], b: list[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


@st.composite
def a_person(draw: st.DrawFn, slot: int, features: int) -> Person:
    """Up to six rows of anything; some are one extreme value throughout, some are the same row many times."""
    rows = draw(st.integers(1, 6))
    one = st.one_of(st.lists(values, min_size=features, max_size=features), st.sampled_from(EDGES).map(lambda v: [v] * features))
    raw = np.array(draw(st.lists(one, min_size=rows, max_size=rows)))
    target = np.array(draw(st.lists(values, min_size=rows, max_size=rows)))
    if draw(st.booleans()):
        raw, target = np.repeat(raw, 5, axis=0), np.repeat(target, 5)
    return slot, raw, target


@st.composite
def neighbours(draw: st.DrawFn, features: int) -> tuple[list[Person], dict[Adjacency, list[Person]]]:
    """Some persons, and the same with the rows of one replaced, nulled or taken away."""
    slots = draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5, unique=True))
    everyone = [draw(a_person(slot, features)) for slot in slots]
    place = draw(st.integers(0, len(slots) - 1))
    slot, raw, target = everyone[place]
    changed = {
        Adjacency.REPLACE_ONE: [draw(a_person(slot, features))],
        Adjacency.ZERO_OUT: [(slot, np.full_like(raw, math.nan), np.full_like(target, math.nan))],
        Adjacency.ADD_REMOVE: [(slot, raw[:0], target[:0])],
    }
    return everyone, {adjacency: [*everyone[:place], *other, *everyone[place + 1 :]] for adjacency, other in changed.items()}


def check_moves(query: Any, shape: Preprocessing, data: st.DataObject, features: int) -> None:
    before, others = data.draw(neighbours(features))
    total = exact(query, block_of(shape, before))
    after = {adjacency: exact(query, block_of(shape, everyone)) for adjacency, everyone in others.items()}
    for adjacency, changed in after.items():
        if hasattr(query, "score_sensitivity"):
            assert max(abs(a - b) for a, b in zip(total, changed, strict=True)) <= query.score_sensitivity(adjacency)
        else:
            assert squared_distance(total, changed) <= Fraction(query.sensitivity(adjacency)) ** 2
    if not isinstance(query, InsideMean):
        assert after[Adjacency.ZERO_OUT] == after[Adjacency.ADD_REMOVE]


# one person, one bounded contribution


@every_bounding
@settings(max_examples=10, deadline=None, suppress_health_check=QUIET)
@given(loss=st.sampled_from([Squared(), Logistic()]), data=st.data())
def test_a_person_moves_the_sum_by_at_most_the_sensitivity(bounding: Bounding, loss: Loss, data: st.DataObject) -> None:
    check_sum(bounding, loss, data)


@pytest.mark.sweep
@every_bounding
@pytest.mark.parametrize("loss", [pytest.param(loss, id=repr(loss)) for loss in LOSSES])
@settings(max_examples=20, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_person_moves_the_sum_of_any_loss_by_at_most_the_sensitivity(bounding: Bounding, loss: Loss, data: st.DataObject) -> None:
    check_sum(bounding, loss, data)


def check_sum(bounding: Bounding, loss: Loss, data: st.DataObject) -> None:
    features = data.draw(st.integers(1, 5))
    shape = shape_of(
        features,
        most=data.draw(st.integers(1, 7)),
        intercept=data.draw(st.booleans()),
        target_domain=loss.target,
        precision=data.draw(st.sampled_from(["double", "single"])),
        target_scale=data.draw(st.sampled_from([1e-300, 1.0])) if loss.target is Target.REAL else 1.0,
    )
    weights = st.lists(st.one_of(st.floats(-2, 2), st.floats(-1e300, 1e300)), min_size=shape.columns, max_size=shape.columns)
    query = GradientSum(
        loss=loss,
        bounding=bounding,
        weights=np.array(data.draw(weights)),
        bits=data.draw(st.integers(8, 40)),
        key=KEY,
        groups=data.draw(st.sampled_from([None, Groups(count=2), Groups(count=4)])),
        draw=data.draw(st.sampled_from([WHOLE, Part(0, 2**31), Sample(0.5, 3)])),
    )
    check_moves(query, shape, data, features)


@every_bounding
@pytest.mark.parametrize("bits", [8, 40])
def test_ten_thousand_rows_of_one_person_reach_the_sensitivity_and_go_no_further(bounding: Bounding, bits: int) -> None:
    columns = 3
    shape = shape_of(columns, most=10_000)
    query = GradientSum(loss=Squared(), bounding=bounding, weights=np.zeros(columns), bits=bits)
    rng = np.random.default_rng(0)
    others: list[Person] = [(slot, rng.normal(size=(2, columns)), rng.normal(size=2)) for slot in range(1, 9)]
    far = 0.999 * bounding.grid(0) if "threshold" in type(bounding).__module__ else 1e100
    ends = [
        exact(query, block_of(shape, [*others, (2**63, np.ones((10_000, columns)), np.full(10_000, sign * far))])) for sign in (-1.0, 1.0)
    ]
    sensitivity = Fraction(query.sensitivity(Adjacency.REPLACE_ONE))
    assert (sensitivity * Fraction(97, 100)) ** 2 <= squared_distance(*ends) <= sensitivity**2


@every_bounding
@pytest.mark.parametrize("mean", [(math.nan, 1.0, 1.0), (math.inf, 1.0, -math.inf), (1e200, 1.0, 1.0), (math.nan,) * 3], ids=str)
def test_a_mean_gradient_that_is_no_number_adds_a_bounded_one(bounding: Bounding, mean: tuple[float, ...]) -> None:
    """Unlike a record's row, a person's mean gradient may be anything."""
    X, sums = np.array([mean]), np.zeros((1, 8), dtype=np.int64)
    with np.errstate(over="ignore"):
        bounding.add(X, np.ones(1), (X * X).sum(axis=1), np.zeros(1, dtype=np.int64), 30, sums)
    assert sum(int(step) ** 2 for step in sums[0]) <= Fraction(bounding.l2_bound(3, 30)) ** 2


@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
@given(data=st.data(), kind=st.sampled_from(["scores", "vertices", "chosen", "counts", "inside"]))
def test_a_person_moves_scores_counts_and_chosen_columns_by_at_most_their_sensitivity(data: st.DataObject, kind: str) -> None:
    features = data.draw(st.integers(2, 4))
    shape, bounding = shape_of(features, intercept=True), data.draw(st.sampled_from(BOUNDINGS))
    weights, bits = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=features + 1, max_size=features + 1))), 20
    sums = GradientSum(loss=Squared(), bounding=bounding, weights=weights, bits=bits)
    asked: dict[str, Any] = {"loss": Squared(), "weights": weights, "bound": 2.0, "bits": bits, "draw": WHOLE, "key": KEY}
    queries = {
        "scores": lambda: Magnitudes(sums=sums, offsets=np.arange(features) * 2.0**bits),
        "vertices": lambda: Vertices(sums=sums),
        "chosen": lambda: ChosenColumns(query=replace(sums, bounding=L2Clip(bound=1.0)), places=np.array([0, 2])),
        "counts": lambda: BucketCounts(**asked, buckets=5),
        "inside": lambda: InsideMean(**asked, centre=np.full(features + 1, 0.5), expected=5),
    }
    if kind == "chosen" and features == 2:
        return
    check_moves(queries[kind](), shape, data, features)


def calibration(rows: Rows, weights: Array, clip: float, bits: int, clamps: tuple[float, ...] = (1.0,)) -> Calibration:
    bounds: dict[str, Any] = {"clip": clip, "level": 1.0, "weight": 0.5, "cap": calibration_cap(1.0, 0.5), "clamps": clamps}
    free, direction = np.arange(rows.columns) % 3 < 2, np.ones(rows.columns)
    return Calibration(rows=rows, loss=Squared(), weights=weights, direction=direction, free=free, bits=bits, **bounds)


def auto_query(kind: str, columns: int, seed: int, bits: int) -> SumQuery:
    rng = np.random.default_rng(seed)
    rows = Rows(centre=rng.normal(size=columns), scale=np.exp(rng.normal(0, 3, columns)), reach=rng.uniform(0.5, 8, columns))
    rotation, grid = Rotation.of(rng.normal(size=(columns, columns))), LogGrid(low=-4.0, step=0.5, bins=int(rng.integers(1, 20)))
    weights, cap, clip = rng.normal(size=columns) * 10.0 ** rng.integers(-3, 9), math.exp(rng.normal(0, 3)), math.exp(rng.normal(0, 3))
    measures = {
        "columns": ColumnMagnitudes(columns=tuple(range(columns)), known=rng.random(columns) < 0.3),
        "spreads": ColumnSpreads(columns=tuple(range(columns)), centre=rows.centre),
        "norms": Norm(rows=rows, rotation=rotation),
        "residuals": Residual(rows=rows, loss=Squared(), weights=weights),
        "signed residuals": SignedResidual(rows=rows, loss=Squared(), weights=weights),
    }
    if kind in measures:
        return Histogram(measure=measures[kind], log_grid=grid, bits=bits)  # type: ignore[arg-type]
    if kind == "second moment":
        return SecondMoment(rows=rows, cap=cap, bits=min(bits, 20), rotation=rotation)
    if kind == "mean residual":
        return MeanResidual(rows=rows, loss=Squared(), weights=weights, clip=clip, bits=bits, middle=2 * clip)
    if kind.startswith("class "):
        classes = Softmax(classes=2 + seed % 3)
        matrix = rng.normal(size=(columns, classes.outputs)) * 10.0 ** rng.integers(-3, 9)
        if kind == "class residual":
            return MeanClassResidual(rows=rows, loss=classes, weights=matrix, clip=clip, bits=bits)
        return GradientAndMoment(rows=rows, rotation=rotation, loss=classes, weights=matrix, clip=clip, cap=cap, bits=min(bits, 20))
    if kind == "calibration":
        return calibration(rows, weights, clip, min(bits, 20))
    if kind == "gradient and moment":
        return GradientAndMoment(rows=rows, rotation=rotation, loss=Squared(), weights=weights, clip=clip, cap=cap, bits=min(bits, 20))
    if kind == "clamps":
        return calibration(rows, weights, clip, min(bits, 20), (0.375, 1.0, 2.0))
    turned = None if kind == "gradient of columns" else rotation
    return WhitenedGradient(rows=rows, rotation=turned, loss=Squared(), weights=weights, clip=clip, cap=cap, bits=bits)


AUTO_QUERIES = ["columns", "spreads", "norms", "residuals", "signed residuals", "second moment", "gradient"]
AUTO_QUERIES += ["gradient of columns", "mean residual", "calibration", "gradient and moment", "clamps"]
AUTO_QUERIES += ["class residual", "class gradients and moment"]


@pytest.mark.parametrize("kind", AUTO_QUERIES)
@settings(max_examples=15, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_person_moves_an_auto_query_by_at_most_its_sensitivity(kind: str, data: st.DataObject) -> None:
    check_auto_query(kind, data)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", AUTO_QUERIES)
@settings(max_examples=100, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_many_a_person_moves_an_auto_query_by_at_most_its_sensitivity(kind: str, data: st.DataObject) -> None:
    check_auto_query(kind, data)


def check_auto_query(kind: str, data: st.DataObject) -> None:
    features = data.draw(st.integers(1, 5))
    shape = shape_of(features, most=data.draw(st.integers(1, 7)), intercept=data.draw(st.booleans()), reach=(math.inf,) * features)
    query = auto_query(kind, shape.columns, data.draw(st.integers(0, 2**32)), data.draw(st.integers(8, 40)))
    check_moves(query, shape, data, features)


@pytest.mark.parametrize("kind", ["norms", "second moment", "gradient", "gradient and moment", "mean residual", "calibration"])
def test_an_adversary_of_many_rows_reaches_an_auto_query_s_sensitivity(kind: str) -> None:
    rows = Rows(centre=np.zeros(3), scale=np.ones(3), reach=np.full(3, 8.0))
    rotation = Rotation.of(np.eye(3))
    query: SumQuery = {
        "norms": Histogram(measure=Norm(rows=rows), log_grid=LogGrid(low=-4.0, step=0.5, bins=20), bits=30),
        "second moment": SecondMoment(rows=rows, cap=1.0, bits=18),
        "gradient": WhitenedGradient(rows=rows, rotation=rotation, loss=Squared(), weights=np.zeros(3), clip=0.4, cap=1.0, bits=30),
        "gradient and moment": GradientAndMoment(
            rows=rows, rotation=rotation, loss=Squared(), weights=np.zeros(3), clip=0.4, cap=math.sqrt(2), bits=18
        ),
        "mean residual": MeanResidual(rows=rows, loss=Squared(), weights=np.zeros(3), clip=0.4, bits=30),
        "calibration": calibration(rows, np.zeros(3), 0.4, 18),
    }[kind]  # type: ignore[assignment]
    shape = shape_of(3, most=1000, reach=(math.inf,) * 3)
    many = np.ones((1000, 1))
    first: Person = (5, many * [1.0, 0.0, 0.0], np.full(1000, 1e9))
    second: Person = (5, many * ([0.0, 9.0, 0.0] if kind in ("norms", "second moment") else [1.0, 0.0, 0.0]), np.full(1000, -1e9))
    moved = squared_distance(exact(query, block_of(shape, [first])), exact(query, block_of(shape, [second])))
    sensitivity = Fraction(query.sensitivity(Adjacency.REPLACE_ONE))
    assert (sensitivity * Fraction(97, 100)) ** 2 <= moved <= sensitivity**2


@pytest.mark.parametrize("bits", [8, 40, 52])
def test_a_person_s_counts_have_a_norm_of_at_most_one_however_many_columns_of_each_row_are_zero(bits: int) -> None:
    """At 52 bits, more than are ever used, rounding to the nearest would be too much for many numbers of columns and rows."""
    features = 60
    shape, bins = shape_of(features, most=9, reach=(math.inf,) * features), LogGrid(low=-4.0, step=4.0, bins=2)
    sizes = ColumnMagnitudes(columns=tuple(range(features)), known=np.zeros(features, dtype=bool))
    query = Histogram(measure=sizes, log_grid=bins, bits=bits)
    last = np.arange(features)[::-1]
    for above in range(1, features + 1):
        for rows in (1, 2, 8):
            alike: Person = (5, np.tile(np.where(last < above, 0.5, 0.0), (rows, 1)), np.ones(rows))
            mixed: Person = (5, np.where(last < np.minimum(above, np.arange(1, rows + 1))[:, None], 1e9, 0.0), np.ones(rows))
            one, other = (exact(query, block_of(shape, [person])) for person in (alike, mixed))
            assert sum(count**2 for count in one) <= 4**bits
            assert sum(count**2 for count in other) <= 4**bits
            assert squared_distance(one, other) <= Fraction(query.sensitivity(Adjacency.REPLACE_ONE)) ** 2


@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_person_moves_one_value_of_a_trimmed_mean_within_its_smooth_bound(data: st.DataObject) -> None:
    query = TrimmedGradients(
        loss=Squared(), bound=2.0, weights=np.array([0.5, -0.5]), bits=20, trimmed=1, expected=3, smoothness=0.3, key=KEY
    )
    before, others = data.draw(neighbours(2))
    one = query.finalise(query.chunk(block_of(shape_of(2), before)))
    for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT):
        chunk = query.chunk(block_of(shape_of(2), others[adjacency]))
        assert chunk[0, -1] == len(before)
        other = query.finalise(chunk)
        for (f, s), (g, r) in ((one, other), (other, one)):
            assert (np.abs(f - g) <= s * (1 + 1e-12)).all()
            assert (s <= np.exp(0.3) * r * (1 + 1e-12)).all()


def test_a_person_touches_one_block_of_a_sample_and_aggregate() -> None:
    rng = np.random.default_rng(3)
    query = BlockMinimisers(
        loss=Squared(), penalty=L2(weight=0.1), features=2, coordinates=2, radius=3.0, blocks=7, touched=1, smoothness=0.1, key=KEY
    )
    everyone: list[Person] = [(int(slot), rng.normal(size=(5, 2)), rng.normal(size=5)) for slot in rng.integers(0, 2**63, 60)]
    before = query.chunk(block_of(shape_of(2, most=5), everyone))
    slot, raw, target = everyone[11]
    after = query.chunk(block_of(shape_of(2, most=5), [*everyone[:11], (slot, raw * 1e9, target * -1e9), *everyone[12:]]))
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [int(query.block_of(np.array([slot], dtype=np.uint64))[0])]


def test_a_block_s_minimiser_counts_persons_alike_however_many_rows_they_have() -> None:
    """Ten rows once each, and with the first of them forty times: one person's rows weigh as much as one row."""
    rng = np.random.default_rng(4)
    query = BlockMinimisers(
        loss=Squared(), penalty=L2(weight=0.1), features=2, coordinates=2, radius=3.0, blocks=1, touched=1, smoothness=0.1, key=KEY
    )
    everyone: list[Person] = [(slot, rng.normal(size=(1, 2)), rng.normal(size=1)) for slot in range(10)]
    slot, raw, target = everyone[0]
    many: list[Person] = [(slot, np.repeat(raw, 40, axis=0), np.repeat(target, 40)), *everyone[1:]]
    one, other = (query.chunk(block_of(shape_of(2, most=100), each)) for each in (everyone, many))
    assert np.abs(one).max() > 2**20
    assert np.abs(one - other).max() <= 10  # of 2^30 steps: the order of additions


# what a person's contribution is


@every_bounding
def test_the_mean_of_a_person_s_gradients_is_what_is_bounded(bounding: Bounding) -> None:
    rng = np.random.default_rng(1)
    everyone: list[Person] = [(slot, rng.uniform(-1, 1, (slot, 3)), rng.normal(size=slot) * 3) for slot in range(1, 9)]
    weights, bits = np.array([0.2, -0.1, 0.4]), 30
    query = GradientSum(loss=Squared(), bounding=bounding, weights=weights, bits=bits)
    expected = np.zeros((1, 8), dtype=np.int64)
    for _, X, y in everyone:
        mean = (((X @ weights - y)[:, None] * X).mean(axis=0))[None]
        bounding.add(mean, np.ones(1), (mean**2).sum(axis=1), np.zeros(1, dtype=np.int64), bits, expected)
    found = query.chunk(block_of(shape_of(3, most=100), everyone))
    assert np.abs(found - expected[:, :3]).max() <= 1000  # of 2^30 steps: the order of additions


def test_one_row_of_each_person_is_the_record_level_answer() -> None:
    rng = np.random.default_rng(2)
    raw, target, slots = rng.normal(size=(50, 3)), rng.normal(size=50), rng.integers(0, 2**63, 50).astype(np.uint64)
    shape = shape_of(3, intercept=True)
    records = shape.block(raw, target, slots)
    apart = block_of(shape, [(int(slot), raw[i : i + 1], target[i : i + 1]) for i, slot in enumerate(slots)])
    for kind in ("columns", "norms", "residuals", "second moment", "gradient", "gradient and moment"):
        query = auto_query(kind, 4, 7, 30)
        assert exact(query, records) == exact(query, apart)
    asked = GradientSum(loss=Squared(), bounding=L2Clip(bound=50.0), weights=np.ones(4), bits=30, key=KEY, groups=Groups(count=4))
    assert max(abs(a - b) for a, b in zip(exact(asked, records), exact(asked, apart), strict=True)) <= 200  # of 2^30 steps


def test_an_auto_query_counts_persons_alike_however_many_rows_they_have() -> None:
    shape = shape_of(2, most=100, reach=(math.inf,) * 2)
    plain = Rows(centre=np.zeros(2), scale=np.ones(2), reach=np.full(2, 8.0))
    everyone: list[Person] = [(1, np.array([[1.0, 0.0]]), np.ones(1)), (2, np.full((40, 2), [0.0, 1.0]), np.full(40, 2.0))]
    moment = SecondMoment(rows=plain, cap=2.0, bits=20)
    M = matrix_of(moment.finalise(moment.chunk(block_of(shape, everyone))) * moment.grid / 2, 2)
    np.testing.assert_allclose(M, np.eye(2) / 2, atol=1e-4)
    known = np.zeros(2, dtype=bool)
    sizes = Histogram(measure=ColumnMagnitudes(columns=(0, 1), known=known), log_grid=LogGrid(low=0.0, step=1.0, bins=1), bits=30)
    np.testing.assert_allclose(sizes.chunk(block_of(shape, everyone)) * sizes.grid, [1.0, 1.0], atol=1e-6)


def test_unusable_rows_are_left_out_and_a_person_of_nothing_else_counts_as_zeros() -> None:
    shape = shape_of(1, most=3)
    nothing = np.array([[math.nan], [math.inf], [math.nan]])
    found = block_of(
        shape, [(1, np.r_[nothing, [[0.5]], [[0.25]]], np.ones(5)), (2, nothing, np.ones(3)), (3, np.array([[0.0]]), np.ones(1))]
    )
    assert sorted(found.X[:2, 0].tolist()) == [0.25, 0.5]
    assert found.X[2:, 0].tolist() == [0.0, 0.0]
    assert found.y[2:].tolist() == [0.0, 1.0]
    assert found.starts is not None
    assert found.starts.tolist() == [0, 2, 3, 4]


def test_a_person_of_zero_gradient_is_no_null_person() -> None:
    query = GradientSum(loss=Hinge(), bounding=Ball(bound=1.0, centre=np.array([0.5])), weights=np.array([9.0]), bits=20)
    shape = shape_of(1, target_domain=Target.LABELS)
    assert exact(query, block_of(shape, [(1, np.ones((3, 1)), np.ones(3))]))[0] < -(2**18)
    assert exact(query, block_of(shape, [(1, np.full((3, 1), math.nan), np.ones(3))])) == [0]


# which rows, and in what order


def rows_with_ids(seed: int, count: int = 60) -> tuple[Preprocessing, Array, Array, Any, Any]:
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 3, (count, 2)).astype(float)  # few values: many rows are equal
    raw[rng.uniform(size=count) < 0.1] = math.nan
    slots = rng.integers(0, 6, count).astype(np.uint64) * np.uint64(2**61)
    return shape_of(2, most=3), raw, rng.integers(0, 2, count).astype(float), slots, rng.integers(0, 30, count).astype(np.uint64)


@pytest.mark.parametrize("identified", [False, True])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_rows_may_be_brought_together_in_any_order_and_grouping(identified: bool, seed: int, cuts: list[int]) -> None:
    shape, raw, target, slots, ids = rows_with_ids(seed)
    order = np.random.default_rng(seed + 1).permutation(60)
    at_once = group_by_person([shape.person_rows(raw, target, slots, ids if identified else None)], 3)
    mixed = shape.person_rows(raw[order], target[order], slots[order], ids[order] if identified else None)
    pieces = np.split(np.arange(60), sorted(cuts))
    in_steps = group_by_person([group_by_person([mixed.select(piece)], 3) for piece in pieces], 3)
    first, second = at_once.block, in_steps.block
    for mine, theirs in ((first.X, second.X), (first.y, second.y), (at_once.priorities, in_steps.priorities)):
        np.testing.assert_array_equal(mine, theirs)
    assert np.diff(as_block(at_once).starts).max() <= 3  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_rows_kept_of_a_person_depend_on_no_one_else(seed: int) -> None:
    shape, raw, target, slots, _ = rows_with_ids(seed)
    whole, alone = group_by_person([shape.person_rows(raw, target, slots)], 3), slots == slots[0]
    kept = group_by_person([shape.person_rows(raw[alone], target[alone], slots[alone])], 3)
    there = whole.select(whole.block.slots == slots[0])
    np.testing.assert_array_equal(kept.block.X, there.block.X)
    np.testing.assert_array_equal(kept.block.y, there.block.y)


def test_with_row_ids_the_same_rows_are_kept_whatever_their_values() -> None:
    shape, raw, target, slots, _ = rows_with_ids(5)
    ids = np.random.default_rng(6).permutation(60).astype(np.uint64)
    raw = np.nan_to_num(raw)
    chosen = group_by_person([shape.person_rows(raw, target, slots, ids)], 3).priorities
    np.testing.assert_array_equal(group_by_person([shape.person_rows(raw + 7, -target, slots, ids)], 3).priorities, chosen)
    assert (chosen != UNUSABLE).all()


def test_groups_parts_and_samples_take_whole_persons() -> None:
    rng = np.random.default_rng(8)
    block = block_of(shape_of(1), [(int(slot), rng.normal(size=(3, 1)), rng.normal(size=3)) for slot in rng.integers(0, 2**63, 400)])
    for draw in (Part(0, 2**31), Sample(0.3, 1)):
        taken = block.select_units(members_of(KEY, draw, block.slots))
        assert 60 < taken.units < 260
        assert np.diff(taken.starts).tolist() == [3] * taken.units  # type: ignore[arg-type]
    assert len(groups_of(KEY, 4, block.owners)) == block.units == 400


def test_persons_outside_of_the_chosen_buckets_are_not_there() -> None:
    shape, raw, target, slots, _ = rows_with_ids(9)
    buckets = Buckets(count=4, chosen=(1, 2), key=KEY)
    shape = replace(shape, buckets=buckets)
    found = as_block(group_by_person([shape.person_rows(raw, target, slots)], 3))
    assert set(found.slots.tolist()) == set(slots[buckets.hold(slots)].tolist())
    raw[~buckets.hold(slots)] = 1e300
    np.testing.assert_array_equal(as_block(group_by_person([shape.person_rows(raw, target, slots)], 3)).X, found.X)


# rows of a person in many files


SHAPE = Preprocessing(
    features=("x0", "x1", "x2"),
    target="y",
    centre=(0, 0, 0),
    scale=(4, 2, 1),
    intercept=True,
    unit="patient",
    rows_per_unit=3,
)
QUERY = GradientSum(
    loss=Squared(), bounding=L2Clip(bound=0.7), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40, key=KEY, groups=Groups(count=4)
)
SPLIT = BlockMinimisers(
    loss=Squared(), penalty=L2(weight=0.1), features=3, coordinates=4, radius=3.0, blocks=9, touched=1, smoothness=0.1, key=KEY
)


@pytest.fixture
def patients(table: pa.Table) -> pa.Table:
    """700 rows of about 150 persons; some rows have no id, and one person has 120 rows."""
    rng = np.random.default_rng(4)
    ids = [None if u < 0.02 else f"p{int(150 * v**2)}" for u, v in rng.uniform(size=(700, 2))]
    ids[100:220] = ["heavy"] * 120
    return table.append_column("patient", pa.array(ids))


def in_one(table: pa.Table, query: Any) -> Integers:
    from nightfit.shards.read import hash_ids

    named = table.filter(table["patient"].is_valid())
    raw = np.column_stack([named[name].to_numpy() for name in SHAPE.features])
    slots = hash_ids(named["patient"].combine_chunks())
    total: Integers = query.chunk(as_block(group_by_person([SHAPE.person_rows(raw, named["y"].to_numpy(), slots)], SHAPE.rows_per_unit)))
    return total


def test_any_files_order_or_chunks_give_the_same_integers_of_persons(
    patients: pa.Table, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = in_one(patients, QUERY)
    mixed = patients.take(np.random.default_rng(5).permutation(700))
    for number, (rows, sizes, chunk) in enumerate([(patients, [700], None), (mixed, [100, 599, 1], 2000), (mixed, [350, 350], 9000)]):
        manifest = scan(str(write(f"files{number}", rows, sizes, row_group_size=90)))
        assert (ShardedDataset(manifest, SHAPE, chunk_bytes=chunk).aggregate(QUERY) == expected).all()
    monkeypatch.setattr(placement, "RANGE_BYTES", 2000)
    several = ShardedDataset(manifest, SHAPE, chunk_bytes=4000)
    assert len(several.sources) > 10
    assert (several.aggregate(QUERY) == expected).all()
    assert (several.aggregate(SPLIT) == in_one(patients, SPLIT)).all()


@pytest.mark.parametrize("resident", [0.4, 0.0], ids=["memory", "files"])
def test_a_cluster_gives_the_same_integers_of_persons(
    patients: pa.Table, write: Write, client: Client, monkeypatch: pytest.MonkeyPatch, resident: float
) -> None:
    monkeypatch.setattr(placement, "RESIDENT_SHARE", resident)
    monkeypatch.setattr(placement, "RANGE_BYTES", 4000)
    monkeypatch.setattr(placement, "GROUPING_SHARE", 0)
    manifest = scan(str(write("files", patients, [100, 250, 350], row_group_size=60)))

    def suffixes() -> set[str]:
        kept = client.run(lambda dask_worker: [path.name for path in Path(dask_worker.local_directory).glob("nightfit-*/**/*")])
        return {Path(name).suffix for names in kept.values() for name in names}

    before = suffixes()
    with ShardedDataset(manifest, SHAPE, client, chunk_bytes=3000) as shards:
        for query in (QUERY, replace(QUERY, draw=Part(0, 2**31)), SPLIT):
            assert (shards.aggregate(query) == in_one(patients, query)).all()
        assert len(shards.sources) > 5
        assert suffixes() - before == (set() if resident else {".persons"})


def test_rows_of_persons_that_are_taken_ahead_give_the_same_integers(patients: pa.Table, write: Write) -> None:
    draws = (Sample(0.3, 0), Sample(0.3, 1), Sample(0.3, 2))
    shards = ShardedDataset(scan(str(write("ahead", patients, [350, 350]))), SHAPE, upcoming=UpcomingDraws(KEY, draws))
    for draw in draws:
        query = replace(QUERY, draw=draw)
        assert (shards.aggregate(query) == in_one(patients, query)).all()
    assert shards.executor.draws == draws


def test_a_person_in_two_shards_with_huge_rows_adds_one_bounded_contribution(patients: pa.Table, write: Write) -> None:
    """FAULTS I2, I3: duplicates, the same rows in two files, 10,000 rows."""
    query = replace(QUERY, groups=None)
    names = ["x0", "x1", "x2", "y", "patient"]
    huge = pa.table({**{name: np.full(5000, 1e30) for name in names[:4]}, "patient": ["who"] * 5000})
    spread = pa.concat_tables([huge, patients.select(names), huge])
    with_them = ShardedDataset(scan(str(write("with", spread, [5000, 700, 5000]))), SHAPE).aggregate(query)
    without = ShardedDataset(scan(str(write("without", patients))), SHAPE).aggregate(query)
    moved = squared_distance([int(v) for v in with_them[0]], [int(v) for v in without[0]])
    assert 0 < moved <= Fraction(query.sensitivity(Adjacency.ADD_REMOVE)) ** 2


@pytest.mark.parametrize(
    "kind", [pa.int16(), pa.uint64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(3), pa.dictionary(pa.int8(), pa.string())]
)
def test_integers_and_text_of_any_type_identify_the_same_persons(table: pa.Table, write: Write, kind: Any) -> None:
    numbers = [100 + i % 50 for i in range(700)]
    texts = pa.array([str(number) for number in numbers])
    ids = (
        pa.array(numbers, kind)
        if pa.types.is_integer(kind)
        else texts.cast(pa.binary()).cast(kind)
        if "binary" in str(kind)
        else texts.cast(kind)
        if not pa.types.is_dictionary(kind)
        else texts.dictionary_encode()
    )
    expected = in_one(table.append_column("patient", texts), QUERY)
    manifest = scan(str(write("typed", table.append_column("patient", ids))))
    assert (ShardedDataset(manifest, SHAPE).aggregate(QUERY) == expected).all()


def test_ranges_of_slots_are_disjoint_and_whole() -> None:
    slots = np.array([0, 1, 2**32, 2**63, 2**64 - 1], dtype=np.uint64)
    assert range_index(slots, 7).tolist() == [0, 0, 0, 3, 6]
    assert range_index(slots, 1).tolist() == [0] * 5


def test_rows_of_nobody_are_no_rows(table: pa.Table, write: Write) -> None:
    manifest = scan(str(write("nobody", table.append_column("patient", pa.nulls(700, pa.string())))))
    assert not ShardedDataset(manifest, SHAPE).aggregate(QUERY).any()
    assert not ShardedDataset(manifest, SHAPE).aggregate(SPLIT).any()
