"""The queries of `auto`: no record moves an answer by more than the declared sensitivity, wherever the rows lie."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nightfit.methods.auto.calibration import calibration_cap
from nightfit.problem.losses import Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import SumQuery
from nightfit.queries.calibration import CALIBRATION_SIZE, INCREMENTS, Calibration
from nightfit.queries.class_residuals import MeanClassResidual
from nightfit.queries.column_subset import ColumnSubset
from nightfit.queries.histograms import Histogram
from nightfit.queries.magnitudes import (
    COARSE_COLUMN_GRID,
    COLUMN_GRID,
    NORM_GRID,
    OCTAVE_RESIDUAL_GRID,
    RESIDUAL_GRID,
    TWO_OCTAVE_RESIDUAL_GRID,
    WINDOW_GRID,
    ColumnMagnitudes,
    ColumnSpreads,
    ColumnWindows,
    LogGrid,
    Measure,
    Norm,
    Residual,
    SignedResidual,
)
from nightfit.queries.rows import LARGEST_REACH, RESOLUTION, Rotation, Rows
from nightfit.queries.second_moments import DIAGONAL, OTHERS, SecondMoment, matrix_of, moment_bits
from nightfit.queries.whitened_gradients import GradientAndMoment, MeanResidual, WhitenedGradient
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Array, Block

EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2.7e-162, -0.0, 0.0, 1.0, -1.0, 2.0]
values = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES), st.floats())
QUERIES = ["columns", "hidden columns", "windows", "spreads", "norms", "whitened norms", "residuals", "mean residual", "of columns"]
QUERIES += ["signed residuals", "second moment", "whitened second moment", "squared", "scaled", "logistic", "hinge", "calibration"]
QUERIES += ["gradient and moment", "logistic gradient and moment", "clamps", "class residual", "class gradients and moment", "present"]
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@st.composite
def records(draw: st.DrawFn, rows: int, features: int) -> tuple[Array, Array]:
    raw = np.empty((rows, features))
    for i in range(rows):
        one = st.sampled_from(EDGES).map(lambda v: [v] * features)
        raw[i] = draw(st.one_of(st.lists(values, min_size=features, max_size=features), one))
    return raw, np.array(draw(st.lists(values, min_size=rows, max_size=rows)))


def raw_columns(features: int, *, intercept: bool = True, target: Target = Target.REAL) -> Preprocessing:
    """Columns without public bounds."""
    return Preprocessing(
        features=tuple(f"x{j}" for j in range(features)),
        target="y",
        centre=(0.0,) * features,
        scale=(1.0,) * features,
        reach=(math.inf,) * features,
        intercept=intercept,
        target_domain=target,
    )


def domain_of(kind: str) -> Target:
    """Of the targets that a query of this kind is about."""
    if kind.startswith("class "):
        return Target.CLASSES
    return Target.LABELS if kind.startswith(("logistic", "hinge")) else Target.REAL


def rows_of(rng: np.random.Generator, columns: int) -> Rows:
    return Rows(
        centre=rng.normal(size=columns),
        scale=np.exp(rng.normal(0, 3, columns)),
        reach=rng.uniform(0.5, LARGEST_REACH, columns),
    )


CLAMPS = (0.375, 1.0, 2.0)


def calibration(rows: Rows, weights: Array, direction: Array, *, weight: float, **bounds: Any) -> Calibration:
    said = {"cap": calibration_cap(1.0, weight), "free": np.zeros(rows.columns, dtype=bool), **bounds}
    return Calibration(rows=rows, loss=Squared(), weights=weights, direction=direction, level=1.0, weight=weight, **said)


def column_magnitudes(columns: int, known: int = 0) -> ColumnMagnitudes:
    """Of all columns but the first ones, which are known."""
    return ColumnMagnitudes(columns=tuple(range(columns)), known=np.arange(columns) < known)


def query_of(kind: str, columns: int, seed: int, bits: int) -> SumQuery:
    rng = np.random.default_rng(seed)
    rows, weights = rows_of(rng, columns), rng.normal(size=columns) * 10.0 ** rng.integers(-3, 9)
    rotation = Rotation.of(rng.normal(size=(columns, columns)) * 10.0 ** rng.integers(-3, 3))
    grid = LogGrid(low=-4.0, step=0.5, bins=int(rng.integers(1, 20)))
    cap, clip = math.exp(rng.normal(0, 3)), math.exp(rng.normal(0, 3))
    spreads = ColumnSpreads(columns=tuple(range(columns)), centre=rows.centre)
    windows = rng.integers(-40, 40, columns)
    classes = Softmax(classes=2 + seed % 3)
    matrix = rng.normal(size=(columns, classes.outputs)) * 10.0 ** rng.integers(-3, 9)
    made: dict[str, Any] = {
        "columns": lambda: Histogram(measure=column_magnitudes(columns), log_grid=grid, bits=bits),
        "hidden columns": lambda: Histogram(measure=column_magnitudes(columns, columns // 2), log_grid=grid, bits=bits),
        "windows": lambda: Histogram(measure=ColumnWindows(columns=tuple(range(columns)), exponents=windows), log_grid=grid, bits=bits),
        "spreads": lambda: Histogram(measure=spreads, log_grid=grid, bits=bits),
        "norms": lambda: Histogram(measure=Norm(rows=rows), log_grid=grid, bits=bits),
        "whitened norms": lambda: Histogram(measure=Norm(rows=rows, rotation=rotation), log_grid=grid, bits=bits),
        "residuals": lambda: Histogram(measure=Residual(rows=rows, loss=Squared(), weights=weights), log_grid=grid, bits=bits),
        "signed residuals": lambda: Histogram(measure=SignedResidual(rows=rows, loss=Squared(), weights=weights), log_grid=grid, bits=bits),
        "mean residual": lambda: MeanResidual(rows=rows, loss=Squared(), weights=weights, clip=clip, bits=bits, middle=-clip / 3),
        "of columns": lambda: ColumnSubset(
            query=WhitenedGradient(
                rows=replace(rows, centre=rows.centre[-1:], scale=rows.scale[-1:], reach=rows.reach[-1:]),
                rotation=None,
                loss=Squared(),
                weights=weights[-1:],
                clip=clip,
                cap=cap,
                bits=bits,
            ),
            columns=(columns - 1,),
        ),
        "gradient and moment": lambda: GradientAndMoment(
            rows=rows, rotation=rotation, loss=Squared(), weights=weights, clip=clip, cap=cap, bits=min(bits, 20)
        ),
        "logistic gradient and moment": lambda: GradientAndMoment(
            rows=rows, rotation=rotation, loss=Logistic(), weights=weights, clip=clip, cap=cap, bits=min(bits, 20)
        ),
        "class residual": lambda: MeanClassResidual(rows=rows, loss=classes, weights=matrix, clip=clip, bits=bits),
        "class gradients and moment": lambda: GradientAndMoment(
            rows=rows, rotation=rotation, loss=classes, weights=matrix, clip=clip, cap=cap, bits=min(bits, 20)
        ),
        "clamps": lambda: calibration(
            replace(rows, reach=rows.reach / CLAMPS[-1]),
            weights,
            rng.normal(size=columns),
            clip=clip,
            weight=0.5,
            free=rng.random(columns) < 0.7,
            clamps=CLAMPS,
            bits=min(bits, 20),
        ),
        "scaled": lambda: WhitenedGradient(rows=rows, rotation=None, loss=Squared(), weights=weights, clip=clip, cap=cap, bits=bits),
        "present": lambda: WhitenedGradient(
            rows=rows,
            rotation=rotation,
            loss=Squared(),
            weights=weights,
            clip=clip,
            cap=cap,
            bits=bits,
            present=tuple(np.flatnonzero(rng.random(columns) < 0.7).tolist()),
        ),
        "second moment": lambda: SecondMoment(rows=rows, cap=cap, bits=min(bits, 20)),
        "whitened second moment": lambda: SecondMoment(rows=rows, cap=cap, bits=min(bits, 20), rotation=rotation),
        "calibration": lambda: calibration(
            rows, weights, rng.normal(size=columns), clip=clip, middle=rng.normal() * clip, weight=0.5, bits=min(bits, 20)
        ),
    }
    losses = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge()}
    if kind in losses:
        return WhitenedGradient(rows=rows, rotation=rotation, loss=losses[kind], weights=weights, clip=clip, cap=cap, bits=bits)
    query: SumQuery = made[kind]()
    return query


def exact(query: SumQuery, block: Block) -> list[int]:
    total = query.finalise(query.chunk(block))
    assert total.dtype == np.int64
    assert total.shape == (query.coordinates,)
    return [int(value) for value in total]


def squared_distance(a: list[int], b: list[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("kind", QUERIES)
@settings(max_examples=20, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity(kind: str, data: st.DataObject) -> None:
    check_neighbours(kind, data)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", QUERIES)
@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_many_a_neighbour_moves_an_auto_query_by_at_most_its_sensitivity(kind: str, data: st.DataObject) -> None:
    check_neighbours(kind, data)


def check_neighbours(kind: str, data: st.DataObject) -> None:
    rows, features = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 9))
    preprocessing = raw_columns(features, intercept=data.draw(st.booleans()), target=domain_of(kind))
    query = query_of(kind, preprocessing.columns, data.draw(st.integers(0, 2**32)), data.draw(st.integers(8, 40)))
    raw, target = data.draw(records(rows, features))
    changed_raw, changed_target = data.draw(records(1, features))
    place = data.draw(st.integers(0, rows - 1))

    before = exact(query, preprocessing.block(raw, target))
    removed = exact(query, preprocessing.block(np.delete(raw, place, axis=0), np.delete(target, place)))
    replaced_raw, replaced_target = raw.copy(), target.copy()
    replaced_raw[place], replaced_target[place] = changed_raw[0], changed_target[0]
    nulled_raw, nulled_target = raw.copy(), target.copy()
    nulled_raw[place], nulled_target[place] = math.nan, math.nan
    neighbours = {
        Adjacency.REPLACE_ONE: exact(query, preprocessing.block(replaced_raw, replaced_target)),
        Adjacency.ZERO_OUT: exact(query, preprocessing.block(nulled_raw, nulled_target)),
        Adjacency.ADD_REMOVE: removed,
    }
    assert neighbours[Adjacency.ZERO_OUT] == removed
    for adjacency, after in neighbours.items():
        assert squared_distance(before, after) <= Fraction(query.sensitivity(adjacency)) ** 2

    cut = data.draw(st.integers(0, rows))
    parts = [exact(query, preprocessing.block(raw[part], target[part])) for part in (slice(cut), slice(cut, None))]
    assert [a + b for a, b in zip(*parts, strict=True)] == before


def two_records(kind: str, columns: int) -> tuple[SumQuery, Array, Array]:
    """A query and two records as far apart, for it, as records can be."""
    loss: Loss
    rows = Rows(centre=np.zeros(columns), scale=np.ones(columns), reach=np.full(columns, 8.0))
    rotation, grid, still = Rotation.of(np.eye(columns)), LogGrid(low=-4.0, step=0.5, bins=20), np.zeros(columns)
    small_and_huge, same = np.outer([0.5, 1e300], np.ones(columns)), np.full((2, columns), 1e300)
    measures: dict[str, Measure] = {
        "columns": column_magnitudes(columns),
        "hidden columns": column_magnitudes(columns, columns // 2),
        "spreads": ColumnSpreads(columns=tuple(range(columns)), centre=still),
        "windows": ColumnWindows(columns=tuple(range(columns)), exponents=np.zeros(columns, dtype=np.int64)),
    }
    if kind in measures:
        return Histogram(measure=measures[kind], log_grid=grid, bits=30), small_and_huge, still
    if kind == "norms":
        return Histogram(measure=Norm(rows=rows), log_grid=grid, bits=30), small_and_huge, still
    if kind == "whitened norms":
        return Histogram(measure=Norm(rows=rows, rotation=rotation), log_grid=grid, bits=30), small_and_huge, still
    if kind.endswith("residuals"):
        residual = (Residual if kind == "residuals" else SignedResidual)(rows=rows, loss=Squared(), weights=still)
        return Histogram(measure=residual, log_grid=grid, bits=30), same, np.array([0.5, 1e300 if kind == "residuals" else -1e300])
    if kind.endswith("second moment"):
        turned = rotation if kind.startswith("whitened") else None
        return SecondMoment(rows=rows, cap=1.0, bits=15, rotation=turned), 1e300 * np.eye(columns)[:2], still
    if kind in ("calibration", "clamps"):
        compared = {"clamps": CLAMPS, "free": np.ones(columns, dtype=bool)} if kind == "clamps" else {}
        asked = calibration(rows, still, np.full(columns, 1e3), clip=0.4, weight=0.5, bits=18, **compared)
        return asked, np.ones((2, columns)), np.array([1.0, -1.0])
    if kind == "class residual":
        two = Softmax(classes=2)
        return MeanClassResidual(rows=rows, loss=two, weights=still[:, None], clip=0.4, bits=30), same, np.array([0.0, 1.0])
    if kind == "mean residual":
        return MeanResidual(rows=rows, loss=Squared(), weights=still, clip=0.4, bits=30), same, np.array([1.0, -1.0])
    if kind == "of columns":
        narrow = Rows(centre=still[:1], scale=np.ones(1), reach=np.full(1, 8.0))
        inside = WhitenedGradient(rows=narrow, rotation=None, loss=Squared(), weights=still[:1], clip=0.4, cap=1.0, bits=30)
        return ColumnSubset(query=inside, columns=(1,)), np.ones((2, columns)), np.array([1.0, -1.0])
    apart, against = np.full((2, columns), 1 / math.sqrt(columns)), np.array([1.0, -1.0])
    if kind == "present":
        counted = {"rows": rows, "rotation": rotation, "loss": Squared(), "weights": still, "present": (0,)}
        return WhitenedGradient(**counted, clip=0.4, cap=math.sqrt(2), bits=30), apart, against  # type: ignore[arg-type]
    if kind == "class gradients and moment":
        of_two = GradientAndMoment(
            rows=rows, rotation=rotation, loss=Softmax(classes=2), weights=still[:, None], clip=0.4, cap=math.sqrt(2), bits=18
        )
        return of_two, apart, np.array([0.0, 1.0])
    if kind.endswith("gradient and moment"):
        loss = Logistic() if kind.startswith("logistic") else Squared()
        both = GradientAndMoment(rows=rows, rotation=rotation, loss=loss, weights=still, clip=0.4, cap=math.sqrt(2), bits=18)
        return both, apart, against
    turned_or_not = None if kind == "scaled" else rotation
    loss = {"squared": Squared(), "scaled": Squared(), "logistic": Logistic(), "hinge": Hinge()}[kind]
    asked = WhitenedGradient(rows=rows, rotation=turned_or_not, loss=loss, weights=still, clip=0.4, cap=1.0, bits=30)
    return asked, apart, against


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("columns", [2, 5, 60])
def test_an_adversary_reaches_an_auto_query_s_sensitivity_and_goes_no_further(kind: str, columns: int) -> None:
    query, X, y = two_records(kind, columns)
    one, other = (exact(query, Block(np.ascontiguousarray(X[i : i + 1]), y[i : i + 1])) for i in (0, 1))
    for adjacency, against in ((Adjacency.REPLACE_ONE, other), (Adjacency.ZERO_OUT, [0] * query.coordinates)):
        sensitivity, moved = Fraction(query.sensitivity(adjacency)), squared_distance(one, against)
        assert (sensitivity * Fraction(97, 100)) ** 2 <= moved <= sensitivity**2


@pytest.mark.parametrize("kind", QUERIES)
def test_an_auto_query_s_sensitivity_in_steps_knows_no_bound(kind: str) -> None:
    """Events are frozen before anything is read: whatever the paid answers are, the query costs the same."""
    assert len({query_of(kind, 5, seed, 16).sensitivity(Adjacency.REPLACE_ONE) for seed in range(20)}) == 1


def test_a_row_is_mapped_to_the_same_integers_wherever_it_lies() -> None:
    rng = np.random.default_rng(0)
    for columns in (1, 7, 33, 130):
        rows, A = rows_of(rng, columns), rng.normal(size=(columns, columns))
        rotation = Rotation.of(A)
        X = rng.standard_t(1, size=(57, columns))
        whole = next(rotation.applied(q).copy() for _, q in rows.tiles(Block(X, np.zeros(57)), 57))
        for i in range(57):
            ((_, alone),) = rows.tiles(Block(X[i : i + 1], np.zeros(1)), 1)
            assert np.array_equal(rotation.applied(alone)[0], whole[i])
            assert np.array_equal(whole[i], np.rint(whole[i]))
        assert np.abs(rotation.A - A).max() <= rotation.unit


def test_the_largest_integers_of_a_rotated_row_are_exact() -> None:
    columns = 2**12
    integer = int(LARGEST_REACH * 2**RESOLUTION)
    largest = np.full((1, columns), float(integer))
    rotation = Rotation(matrix=np.full((columns, 1), 2.0**20), unit=1.0)
    assert int(rotation.applied(largest)[0, 0]) == columns * integer * 2**20 <= 2**53


def test_the_second_moment_is_that_of_the_clipped_rows() -> None:
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(500, 3)), np.ones(500)]
    plain = Rows(centre=np.zeros(4), scale=np.ones(4), reach=np.full(4, 8.0))
    query = SecondMoment(rows=plain, cap=2.0, bits=moment_bits(500))
    M = matrix_of(query.finalise(query.chunk(Block(X, np.zeros(500)))) * query.grid / query.divisor(500), 4)
    clipped = X * np.minimum(1, 2.0 / np.linalg.norm(X, axis=1))[:, None]
    assert np.abs(M - clipped.T @ clipped / 500).max() < 1e-4
    assert OTHERS**2 <= 2 * DIAGONAL**2


def test_a_calibration_is_the_second_moment_of_level_prediction_and_residual() -> None:
    rng = np.random.default_rng(5)
    X, y = np.c_[rng.normal(size=(300, 3)), np.ones(300)], rng.standard_t(2, 300)
    rows = Rows(centre=np.zeros(4), scale=np.ones(4), reach=np.full(4, 8.0))
    weights, direction = rng.normal(size=4), rng.normal(size=4) / 3
    query = calibration(rows, weights, direction, clip=1.5, weight=0.5, bits=20)
    answer = query.finalise(query.chunk(Block(X, y))) * query.grid / query.divisor(300)
    residual = np.clip(y - X @ weights, -1.5, 1.5) / 1.5
    u = np.c_[np.ones(300), 0.5 * np.clip(X @ direction, -1, 1), math.sqrt(1.25) * residual]
    assert np.abs(matrix_of(answer, CALIBRATION_SIZE) - u.T @ u / 300).max() < 1e-4
    nothing = query.chunk(Block(np.zeros((2, 4)), np.array([5.0, math.nan])))
    assert not nothing.any()


def test_the_whitened_gradient_is_that_of_the_clipped_loss() -> None:
    rng = np.random.default_rng(2)
    X, A, v = rng.normal(size=(400, 3)), rng.normal(size=(3, 3)), rng.normal(size=3)
    y = rng.normal(size=400)
    plain = Rows(centre=np.zeros(3), scale=np.ones(3), reach=np.full(3, 8.0))
    query = WhitenedGradient(rows=plain, rotation=Rotation.of(A), loss=Squared(), weights=v, clip=0.7, cap=1.5, bits=30)
    Z = X @ A.T
    expected = (np.clip(y - Z @ v, -0.7, 0.7)[:, None] * Z * np.minimum(1, 1.5 / np.linalg.norm(Z, axis=1))[:, None] ** 2).sum(axis=0)
    assert np.abs(query.chunk(Block(X, y)) * query.grid - expected).max() < 1e-2


def test_a_gradient_with_its_moment_is_both_queries_in_one() -> None:
    rng = np.random.default_rng(4)
    X, A, v, y = np.c_[rng.normal(size=(400, 3)), np.ones(400)], rng.normal(size=(4, 4)), rng.normal(size=4), rng.standard_t(2, 400)
    plain, cap, clip = Rows(centre=np.zeros(4), scale=np.ones(4), reach=np.full(4, 8.0)), 1.5, 0.7
    asked = {"rows": plain, "rotation": Rotation.of(A)}
    gradient = WhitenedGradient(loss=Squared(), weights=v, clip=clip, cap=cap, bits=30, **asked)
    moment = SecondMoment(cap=cap, bits=20, **asked)
    both = GradientAndMoment(loss=Squared(), weights=v, clip=clip, cap=math.sqrt(2) * cap, bits=20, **asked)
    block = Block(X, y)
    M = matrix_of(both.chunk(block) * both.grid / 400, 5)
    np.testing.assert_allclose(M[:-1, -1] * clip / cap, gradient.chunk(block) * gradient.grid / 400, atol=1e-5)
    np.testing.assert_allclose(M[:-1, :-1], matrix_of(moment.chunk(block) * moment.grid / 400, 4), atol=1e-5)
    nothing = both.chunk(Block(np.r_[np.zeros((1, 4)), np.ones((1, 4))], np.array([5.0, math.nan])))
    assert not nothing.any()


def test_counts_follow_the_end_bin_rule() -> None:
    grid = LogGrid(low=0.0, step=1.0, bins=3)
    X = np.array([[0.0, 1.0], [0.5, 1.0], [1.0, 1.0], [3.9, 1.0], [4.0, 1.0], [-1e300, 1.0], [0.0, 0.0]])
    query = Histogram(measure=column_magnitudes(1), log_grid=grid, bits=4)
    assert (query.chunk(Block(X, np.zeros(7))) / 16).tolist() == [2, 1, 2]


def test_a_window_counts_what_the_grid_of_columns_counts_there() -> None:
    """Bin by bin, the rest below and above; a number that overflows in a window's units lies above it."""
    rng = np.random.default_rng(0)
    X = np.exp2(rng.uniform(-30, 39, (500, 3))) * rng.choice([-1.0, 1.0], (500, 3))
    X[0], exponents = [1.7e308, math.inf, math.nan], np.array([-32, 0, 24])
    whole = Histogram(measure=column_magnitudes(3), log_grid=COLUMN_GRID, bits=40).chunk(Block(X, np.zeros(500))).reshape(3, -1)
    measure = ColumnWindows(columns=(0, 1, 2), exponents=exponents)
    windows = Histogram(measure=measure, log_grid=WINDOW_GRID, bits=40).chunk(Block(X, np.zeros(500))).reshape(3, -1)
    for counts, window, exponent in zip(whole, windows, exponents, strict=True):
        first = round((exponent - COLUMN_GRID.low) / COLUMN_GRID.step)
        assert window[1:-1].tolist() == counts[first : first + 16].tolist()
        assert (window[0], window[-1]) == (counts[:first].sum(), counts[first + 16 :].sum())


GRIDS = [COLUMN_GRID, COARSE_COLUMN_GRID, WINDOW_GRID, NORM_GRID, OCTAVE_RESIDUAL_GRID, TWO_OCTAVE_RESIDUAL_GRID]
GRIDS += [LogGrid(low=-4.5, step=0.5, bins=7)]
ONES = [1.0 + 2.0**-52, math.nan, -math.nan, math.inf, 0.0, -0.0, 5e-324, 2.0**-1022, 2.0**-1074, 1.7976931348623157e308]


def searched(X: Array, grid: LogGrid, bits: int) -> Array:
    """The counts of |x_j|, by a search of the edges."""
    counts = np.zeros((X.shape[1], grid.bins), dtype=np.int64)
    for row in np.abs(X.astype(np.float64)):
        positive = row > 0.0
        m = int(positive.sum())
        share = 2**bits if m < 2 else int(2**bits / np.sqrt(m) * (1 - 2.0**-50))
        places = np.maximum(np.searchsorted(grid.edges, row[positive], side="right") - 1, 0)
        counts[np.flatnonzero(positive), places] += share
    return counts.ravel()


@settings(max_examples=40, deadline=None)
@given(grid=st.sampled_from(GRIDS), data=st.data())
def test_the_bin_of_a_number_is_the_one_that_a_search_of_the_edges_finds(grid: LogGrid, data: st.DataObject) -> None:
    """Of any number: at and beside edges, subnormal, infinite, no number, of either sign, in double and single precision."""
    edges = [float(np.nextafter(edge, away)) for edge in grid.edges for away in (0.0, edge, np.inf)]
    number = st.one_of(st.sampled_from(edges + ONES), st.sampled_from(edges).map(lambda v: -v), st.floats())
    precision = data.draw(st.sampled_from([np.float64, np.float32]))
    with np.errstate(over="ignore"):
        X = data.draw(arrays(np.float64, (data.draw(st.integers(0, 4)), data.draw(st.sampled_from([1, 3, 19]))), elements=number)).astype(
            precision
        )
    query = Histogram(measure=column_magnitudes(X.shape[1]), log_grid=grid, bits=40)
    assert query.chunk(Block(X, np.zeros(len(X)))).tolist() == searched(X, grid, 40).tolist()


def test_every_edge_begins_its_bin_and_the_number_below_ends_the_one_before() -> None:
    for grid in GRIDS:
        X = np.concatenate([grid.edges, np.nextafter(grid.edges, 0.0)])[:, None]
        counts = Histogram(measure=column_magnitudes(1), log_grid=grid, bits=1).chunk(Block(X, np.zeros(len(X))))
        assert counts.tolist() == [6, *[4] * (grid.bins - 2), 2]


@pytest.mark.parametrize(("low", "step"), [(0.0, 0.125), (0.0, 3.0), (0.0, 0.3), (0.25, 0.5), (0.5, 1.0)])
def test_bins_that_the_bits_of_a_number_do_not_tell_are_refused(low: float, step: float) -> None:
    with pytest.raises(ValueError, match="octaves wide"):
        LogGrid(low=low, step=step, bins=4).of_bits()


def test_a_size_counts_one_over_the_root_of_its_row_s_sizes_above_zero() -> None:
    grid, X = LogGrid(low=0.0, step=1.0, bins=2), np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 2.0, 1.0], [0.0, 1.0, math.nan, 0.0]])
    query = Histogram(measure=column_magnitudes(4), log_grid=grid, bits=52)
    counts = query.chunk(Block(X, np.zeros(3))).reshape(4, 2) * query.grid
    np.testing.assert_allclose(counts, [[0.5, 0.0], [1.5, 0.0], [1.0, 0.5], [0.5, 0.0]], rtol=1e-12)
    hidden = replace(query, measure=column_magnitudes(4, 3))
    np.testing.assert_allclose(hidden.chunk(Block(X, np.zeros(3))).reshape(4, 2) * query.grid, [[0.0, 0.0]] * 3 + [[1.0, 0.0]], rtol=1e-12)


def test_spreads_count_every_record_alike_in_every_column_but_no_null_record() -> None:
    """Also one that lies at the centre."""
    measure = ColumnSpreads(columns=(0, 1), centre=np.array([5.0, 0.0]))
    X = np.array([[5.0, 0.0, 1.0], [7.0, -3.0, 1.0], [0.0, 0.0, 0.0]])
    counts = Histogram(measure=measure, log_grid=LogGrid(low=0.0, step=1.0, bins=3), bits=52).chunk(Block(X, np.zeros(3)))
    np.testing.assert_allclose(counts * 2.0**-52, np.array([1, 1, 0, 1, 1, 0]) / math.sqrt(2))


@pytest.mark.parametrize("bits", [8, 40, 52])
def test_a_row_s_counts_have_a_norm_of_at_most_one_however_many_of_its_columns_are_zero(bits: int) -> None:
    """At 52 bits, more than are ever used, rounding to the nearest would be too much for many numbers of columns."""
    columns, grid = 600, LogGrid(low=-4.0, step=4.0, bins=2)
    query = Histogram(measure=column_magnitudes(columns), log_grid=grid, bits=bits)
    for above in (*range(1, 300), columns):
        few, many = np.zeros((1, columns)), np.full((1, columns), 1e9)
        few[0, -above:] = 0.5
        one, other = (exact(query, Block(X, np.zeros(1))) for X in (few, many))
        assert squared_distance(one, [0] * query.coordinates) <= 4**bits
        assert squared_distance(one, other) <= Fraction(query.sensitivity(Adjacency.REPLACE_ONE)) ** 2
        assert bits == 8 or squared_distance(one, other) >= 2 * 4**bits * 0.999


def test_a_query_of_some_columns_is_the_query_of_a_narrower_record() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 6)), rng.normal(size=50)
    plain = Rows(centre=np.zeros(3), scale=np.ones(3), reach=np.full(3, 8.0))
    query = WhitenedGradient(rows=plain, rotation=None, loss=Squared(), weights=np.ones(3), clip=1.0, cap=2.0, bits=30)
    narrow = ColumnSubset(query=query, columns=(4, 0, 5))
    assert exact(narrow, Block(X, y)) == exact(query, Block(np.ascontiguousarray(X[:, [4, 0, 5]]), y))
    assert narrow.sensitivity(Adjacency.REPLACE_ONE) == query.sensitivity(Adjacency.REPLACE_ONE)


def test_the_mean_residual_is_clipped_and_leaves_null_records_out() -> None:
    X, y = np.array([[1.0], [1.0], [1.0], [0.0]]), np.array([0.25, 9.0, -9.0, 9.0])
    plain = Rows(centre=np.zeros(1), scale=np.ones(1), reach=np.full(1, 8.0))
    query = MeanResidual(rows=plain, loss=Squared(), weights=np.array([0.5]), clip=2.0, bits=20)
    assert exact(query, Block(X, y))[0] * query.grid == pytest.approx(-0.25 + 2.0 - 2.0)
    about = replace(query, middle=1.0)
    assert exact(about, Block(X, y))[0] * query.grid == pytest.approx(-1.25 + 2.0 - 2.0)


@pytest.mark.parametrize("kind", ["mean residual", "clamps", "squared", "scaled", "calibration", "gradient and moment"])
def test_a_residual_that_is_not_a_number_adds_nothing(kind: str) -> None:
    """Blocks have none, because preprocessing makes such a record null; a query does not rely on it."""
    query = query_of(kind, 3, 5, 20)
    X, y = np.ones((2, 3)), np.array([1.0, math.nan])
    assert exact(query, Block(X, y)) == exact(query, Block(X[:1], y[:1]))


def test_a_residual_of_zero_is_counted_and_that_of_a_null_record_is_not() -> None:
    X, y = np.array([[1.0], [1.0], [1.0], [1.0], [0.0]]), np.array([0.0, 3.0, -3.0, math.nan, 3.0])
    words: dict[str, Any] = {
        "rows": Rows(centre=np.zeros(1), scale=np.ones(1), reach=np.full(1, 8.0)),
        "loss": Squared(),
        "weights": np.zeros(1),
    }
    smallest = RESIDUAL_GRID.edges[0]
    assert Residual(**words).distances(Block(X, y)).values.tolist() == [[smallest], [3.0], [3.0], [0.0], [0.0]]
    assert SignedResidual(**words).distances(Block(X, y)).values.tolist() == [
        [smallest, 0.0],
        [3.0, 0.0],
        [0.0, 3.0],
        [0.0, 0.0],
        [0.0, 0.0],
    ]


def test_a_calibration_of_clamps_tells_what_farther_clamps_add_to_predictions() -> None:
    """The second moment of level, prediction, residual and both increments; the third column is never clamped farther."""
    rng = np.random.default_rng(4)
    X, y, weights = rng.standard_t(2, (2_000, 3)), rng.normal(size=2_000), np.array([1.0, -2.0, 0.5])
    rows, free = Rows(centre=np.zeros(3), scale=np.ones(3), reach=np.full(3, 3.0)), np.array([True, True, False])
    asked = calibration(rows, weights, weights / 40, clip=50.0, weight=1.0, free=free, clamps=CLAMPS, bits=20)
    told = matrix_of(asked.chunk(Block(X=X, y=y)) * asked.grid, asked.size)
    at = [np.clip(X, -times * np.where(free, 3.0, 3.0 / times), times * np.where(free, 3.0, 3.0 / times)) @ weights for times in CLAMPS]
    u = np.column_stack([np.ones(len(X)), at[1] / 40, math.sqrt(2) * (y - at[1]) / 50, INCREMENTS * np.diff(at, axis=0).T / 40])
    assert np.linalg.norm(u, axis=1).max() < 2.0  # nothing is clipped
    assert told == pytest.approx(u.T @ u, rel=1e-3, abs=0.05)


@settings(max_examples=30, deadline=None)
@given(
    X=arrays(np.float64, (5, 3), elements=st.sampled_from([math.nan, 0.0, 1.0, -2.0, 1e300, math.inf])),
    other=arrays(np.float64, 3, elements=st.sampled_from([math.nan, 0.0, 3.0, -1e300])),
    seed=st.integers(0, 2**32),
)
def test_a_neighbour_with_missing_values_moves_sums_and_counts_of_present_values_by_at_most_the_sensitivity(
    X: Array, other: Array, seed: int
) -> None:
    query, replaced = query_of("present", 3, seed, 30), X.copy()
    replaced[0] = other
    y = np.ones(5)
    one, two, without = (exact(query, Block(rows, y[: len(rows)])) for rows in (X, replaced, X[1:]))
    assert squared_distance(one, two) <= Fraction(query.sensitivity(Adjacency.REPLACE_ONE)) ** 2
    assert squared_distance(one, without) <= Fraction(query.sensitivity(Adjacency.ADD_REMOVE)) ** 2


def test_the_sum_of_present_values_comes_with_how_many_there_are() -> None:
    X = np.array([[1.0, math.nan], [0.5, 0.25], [math.nan, math.nan], [0.0, 0.0]])
    rows = Rows(centre=np.zeros(2), scale=np.ones(2), reach=np.full(2, 8.0))
    for rotation in (None, Rotation.of(np.eye(2))):
        query = WhitenedGradient(
            rows=rows, rotation=rotation, loss=Columns(), weights=np.zeros(2), clip=1.0, cap=8.0, bits=40, present=(0, 1)
        )
        found = np.array(exact(query, Block(X, np.zeros(4)))) * query.grid
        assert found == pytest.approx([1.5, 0.25, 2.0, 1.0], rel=1e-6)  # the third row has no value, the fourth is null
